#!/usr/bin/env bash
# Builds, in release, the library that benches/gpu/run.py races, and copies it into a folder, with further traces if wanted.
set -euo pipefail
folder=${1:?usage: pack.sh FOLDER [TRACE...]}
shift
mkdir -p "$folder"
[ $# = 0 ] || cp --no-preserve=mode "$@" "$folder/"
folder=$(cd "$folder" && pwd)
cd "$(dirname "$0")/../.."
cargo build --release --quiet -p stitchpool-capi
target=$(cargo metadata --format-version 1 --no-deps | python3 -c 'import json,sys; print(json.load(sys.stdin)["target_directory"])')
cp "$target/release/libstitchpool_c.so" "$folder/"
strip --strip-unneeded "$folder/libstitchpool_c.so"
ls -l "$folder"
