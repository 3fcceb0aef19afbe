#!/bin/sh
# Fetches NVIDIA's cuda.h (CUDA 13.0) by pip into the folder given, and prints the include folder
# for STITCHPOOL_CUDA_INCLUDE. Where it cannot be had it says so and ends with 0: the check is then
# skipped, not failed.
set -eu
folder=${1:?usage: fetch-header.sh FOLDER}
mkdir -p "$folder"
if ! python3 -m pip download --quiet --no-deps --only-binary :all: --dest "$folder" 'nvidia-cuda-runtime==13.0.*' >&2; then
    echo "fetch-header.sh: the package could not be fetched; NVIDIA's header will not be compared" >&2
    exit 0
fi
for wheel in "$folder"/nvidia_cuda_runtime-*.whl; do
    python3 -m zipfile -e "$wheel" "$folder"
done
header=$(find "$folder" -name cuda.h | head -n 1)
[ -n "$header" ] || { echo "fetch-header.sh: the package holds no cuda.h" >&2; exit 1; }
dirname "$header"
