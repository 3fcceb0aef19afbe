#!/usr/bin/env bash
# Installs a wheel without a network, beside the machine's own PyTorch, and runs the README's programs and
# the Python tests, those for a GPU among them. Prints a short table.
#
#   tests/gpu/python.sh WHEEL
set -uo pipefail
wheel=$(realpath "${1:?usage: python.sh WHEEL}")
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
log=${OUT:-$work}
trap 'rm -rf "$work"' EXIT
declare -a rows
failed=0

row() { # name, status, words
    rows+=("$(printf '%-34s %-6s %s' "$1" "$2" "$3")")
    [ "$2" = ok ] || failed=1
}

suite() { # name, what pytest shall run
    local name=$1 status
    shift
    (cd "$work/tests" && timeout 560 "$python" -m pytest -q -p no:cacheprovider "$@") >"$log/$name.log" 2>&1
    status=$?
    row "$name" "$([ $status = 0 ] && echo ok || echo FAILED)" "$(grep -aE '(passed|failed|skipped|error)' "$log/$name.log" | tail -1)"
    [ $status = 0 ] || grep -aE '^(FAILED|ERROR|E  )' "$log/$name.log" | head -40
}

python3 -m venv --system-site-packages "$work/venv" || exit 1
python=$work/venv/bin/python
# A virtual environment made from another one sees the interpreter's packages and not that one's.
python3 -c 'import site; print("\n".join(site.getsitepackages()))' >"$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/outer.pth"
"$python" -m pip install --quiet --no-index --no-deps "$wheel" || exit 1

# Away from the repository, so that the wheel is what is imported.
mkdir "$work/tests"
cp -r python/tests "$work/tests/"
cp README.md "$work/"
[ -d traces ] && cp -r traces "$work/"
cd "$work"
"$python" -c 'import stitchpool, sys; print("stitchpool", stitchpool.__version__, "python", sys.version.split()[0], "driver", stitchpool.Pool().driver)'
"$python" -c 'import torch; print("torch", torch.__version__, "GPUs", torch.cuda.device_count())'

"$python" - <<'PROGRAM' >"$log/readme.log" 2>&1
import re
code = re.findall(r"```python\n(.*?)```", open("README.md").read(), re.DOTALL)
exec(compile(code[0], "README.md", "exec"), {})
PROGRAM
row "the README's program" "$([ $? = 0 ] && echo ok || echo FAILED)" "$(tail -1 "$log/readme.log")"
suite host tests --ignore tests/gpu
suite gpu-pools tests/gpu/test_pools.py
suite gpu-mem-pool tests/gpu/test_mem_pool.py
suite gpu-process tests/gpu/test_process.py

printf '%s\n' "${rows[@]}"
exit $failed
