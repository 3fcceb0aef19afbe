#!/usr/bin/env bash
# The PyTorch backend on a GPU: builds the shim against the torch that is here, runs every case of
# python/tests/gpu_backend in a process of its own, and prints one table.
#
#   tests/gpu/torch.sh WHEEL [CASE...]      # a wheel, which has the pool's library in it
#   tests/gpu/torch.sh LIBRARY [CASE...]    # libstitchpool_c.so, with the Python sources of this repository
#   tests/gpu/torch.sh FOLDER [CASE...]     # a folder for PYTHONPATH in which stitchpool is whole
#
# STITCHPOOL_CLI names the program that replays the snapshot, if it is to be replayed.
set -euo pipefail
what=$(realpath "${1:?usage: torch.sh WHEEL|LIBRARY|FOLDER [CASE...]}")
shift
here=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export STITCHPOOL_CACHE=${STITCHPOOL_CACHE:-$scratch/cache}
case $what in
    *.whl)
        python3 -m pip install -q --no-deps --no-index --no-compile --target "$scratch/site" "$what"
        export PYTHONPATH=$scratch/site ;;
    *.so) export STITCHPOOL_LIBRARY=$what ;;
    *) export PYTHONPATH=$what ;;
esac
cd "$here/python/tests/gpu_backend"
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
begun=$SECONDS
python3 -W ignore ../backend_source.py
echo "the shim was built in $((SECONDS - begun)) s"
python3 run.py "$@"
