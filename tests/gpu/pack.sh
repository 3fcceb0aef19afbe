#!/usr/bin/env bash
# Builds, in release, what tests/gpu/check.sh and tests/gpu/two.sh run, and copies it into a folder.
set -euo pipefail
folder=${1:?usage: pack.sh FOLDER}
cd "$(dirname "$0")/../.."
mkdir -p "$folder"
cargo build --release --quiet -p stitchpool-cli -p stitchpool-capi
target=$(cargo metadata --format-version 1 --no-deps | python3 -c 'import json,sys; print(json.load(sys.stdin)["target_directory"])')
cp "$target/release/stitchpool" "$target/release/libstitchpool_c.so" "$folder/"
built() { # package, name of the target, what it is
    cargo test --release -p "$1" ${3:---test "$2"} --no-run --message-format json 2>/dev/null |
        python3 -c 'import json,sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("executable") and message.get("target", {}).get("name") == sys.argv[1]:
        print(message["executable"])' "$2"
}
cp "$(built stitchpool-driver conformance)" "$folder/conformance"
cp "$(built stitchpool address)" "$folder/address"
cp "$(built stitchpool-pool stitchpool_pool --lib)" "$folder/pool"
cargo build --release --quiet -p stitchpool --examples
# All but those that run on the host driver alone.
examples="two_devices tensor_parallel read_only oversubscribe share kv_cache shared_prefix sleep_and_wake pipeline_exchange"
for example in $examples; do
    cp "$target/release/examples/$example" "$folder/"
done
cargo build --release --quiet -p stitchpool-cudarc --example saxpy
cp "$target/release/examples/saxpy" "$folder/"
for built in stitchpool libstitchpool_c.so conformance address pool saxpy $examples; do
    strip "$folder/$built"
done
ls -l "$folder"
