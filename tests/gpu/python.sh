#!/usr/bin/env bash
# Installs a wheel without a network, beside the machine's own PyTorch, and runs the README's programs and
# the Python tests, those for a GPU among them. Prints a short table, and what was slow.
#
#   tests/gpu/python.sh WHEEL
#
# Each case is a process that imports PyTorch, so three suites run side by side; what looks at the whole device's
# memory runs after them, alone. A case may take STITCHPOOL_CASE_S seconds (60).
set -uo pipefail
wheel=$(realpath "${1:?usage: python.sh WHEEL}")
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
log=${OUT:-$work}
trap 'rm -rf "$work"' EXIT
export STITCHPOOL_CASE_S=${STITCHPOOL_CASE_S:-60}
declare -a rows
failed=0

row() { # name, status, words
    rows+=("$(printf '%-34s %-6s %s' "$1" "$2" "$3")")
    [ "$2" = ok ] || failed=1
}

suite() { # name, what pytest shall run
    local name=$1
    shift
    local begun=$SECONDS
    (cd "$work/tests" && timeout 400 "$python" -m pytest -q -p no:cacheprovider --durations=3 "$@") >"$log/$name.log" 2>&1
    echo "$? $((SECONDS - begun))" >"$work/$name.end"
}

told() { # name: the row of a suite that has ended
    local status seconds
    read -r status seconds <"$work/$1.end"
    row "$1" "$([ "$status" = 0 ] && echo ok || echo FAILED)" \
        "$(printf '%4d s  %s' "$seconds" "$(grep -aE '(passed|failed|skipped|error)' "$log/$1.log" | tail -1 | tr -d =)")"
    while read -r line; do rows+=("           slow: $line"); done < <(grep -aE '^ *[0-9.]+s call' "$log/$1.log")
    [ "$status" = 0 ] || grep -aE '^(FAILED|ERROR|E  )' "$log/$1.log" | head -40
}

python3 -m venv --without-pip --system-site-packages "$work/venv" || exit 1
python=$work/venv/bin/python
packages=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
# A virtual environment made from another one sees the interpreter's packages and not that one's.
python3 -c 'import site; print("\n".join(site.getsitepackages()))' >"$packages/outer.pth"
# The wheel needs no other package, and its files lie as they are installed.
python3 -m pip install --quiet --no-index --no-deps --target "$packages" "$wheel" 2>"$log/pip.log" ||
    python3 -m zipfile -e "$wheel" "$packages" || exit 1

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
alone='f55 or sleep or no_context or stream_of_pytorchs'
suite host tests --ignore tests/gpu --ignore tests/backend &
suite gpu-mem-pool tests/gpu/test_mem_pool.py &
suite gpu-process tests/gpu/test_process.py -k "not ($alone)" &
suite gpu-pools tests/gpu/test_pools.py -k "not ($alone)" &
wait
suite gpu-alone tests/gpu -k "$alone"
for name in host gpu-pools gpu-mem-pool gpu-process gpu-alone; do told "$name"; done

printf '%s\n' "${rows[@]}"
exit $failed
