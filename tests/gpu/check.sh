#!/usr/bin/env bash
# Runs on a machine with a GPU and builds nothing there: conformance, examples, replays with every byte checked by
# kernels, stress; and under compute-sanitizer stress, the rows of the address and two examples. Prints one table.
#
#   tests/gpu/pack.sh FOLDER            # where the toolchain is: builds and copies the binaries
#   tests/gpu/check.sh FOLDER TRACE...  # where the GPU is
set -uo pipefail
bin=${1:?usage: check.sh FOLDER TRACE...}
shift
seconds=${STRESS_SECONDS:-60}
log=${OUT:-$(mktemp -d)}
declare -a rows
failed=0

row() { # name, status, words
    rows+=("$(printf '%-34s %-6s %s' "$1" "$2" "$3")")
    [ "$2" = ok ] || failed=1
}

field() { python3 -c 'import json,sys; d=json.loads(sys.stdin.read().splitlines()[-1]); print(" ".join(f"{k} {d[k]:.4f}" if isinstance(d[k], float) else f"{k} {d[k]}" for k in sys.argv[1:] if k in d))' "$@"; }

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader || exit 1

"$bin/conformance" cuda --test-threads=1 >"$log/conformance.log" 2>&1
status=$?
row "conformance" "$([ $status = 0 ] && echo ok || echo FAILED)" "$(grep -a 'test result' "$log/conformance.log" | tail -1)"

# The processor of a machine with a GPU may have what those of other machines have not.
"$bin/pool" >"$log/pool.log" 2>&1
status=$?
wide=$(grep -o -m1 -w 'avx512bw\|avx2' /proc/cpuinfo | sort | tail -1)
row "the pool's own tests" "$([ $status = 0 ] && echo ok || echo FAILED)" "$(grep -a 'test result' "$log/pool.log" | tail -1) ($wide)"

timeout 400 "$bin/address" cuda --test-threads=1 --nocapture >"$log/address.log" 2>&1
status=$?
row "the address outlives the memory" "$([ $status = 0 ] && echo ok || echo FAILED)" "$(grep -a 'test result' "$log/address.log" | tail -1)"
while read -r words; do row "  measured" ok "$words"; done < <(grep -a 'measured: ' "$log/address.log" | sed 's/.*measured: //')

for example in "read_only --device cuda" two_devices tensor_parallel share oversubscribe kv_cache shared_prefix sleep_and_wake pipeline_exchange saxpy; do
    # shellcheck disable=SC2086 # the words are the command's arguments
    timeout 60 "$bin"/$example >"$log/${example%% *}.log" 2>&1
    status=$?
    row "example ${example%% *}" "$([ $status = 0 ] && echo ok || echo FAILED)" "$(tail -1 "$log/${example%% *}.log")"
done

timeout 300 "$bin/stitchpool" info --driver cuda --measure --json >"$log/info.json" 2>"$log/info.err"
status=$?
"$bin/stitchpool" info --driver cuda --measure >"$log/info.txt" 2>>"$log/info.err"
words=$(python3 -c 'import json,sys
d = json.load(open(sys.argv[1]))
for verdict in "works", "in_part", "does_not_work", "not_probed":
    print(verdict, sum(f["verdict"] == verdict for f in d["features"]), end="; ")
print("seen:", ", ".join(t["trouble"] for t in d["troubles"] if t["sign"] == "seen") or "nothing", end="; ")
print(len(d["measured"]["differs"]), "figures differ from the table")' "$log/info.json" 2>/dev/null)
row "info --measure" "$([ $status = 0 ] && echo ok || echo FAILED)" "${words:-$(tail -c 300 "$log/info.err")}"

for trace in "$@"; do
    name=$(basename "$trace" .pickle.gz)
    timeout 240 "$bin/stitchpool" replay "$trace" --driver cuda --check --json >"$log/$name.cuda.json" 2>"$log/$name.cuda.err"
    status=$?
    timeout 120 "$bin/stitchpool" replay "$trace" --driver cuda --json >"$log/$name.plain.json" 2>"$log/$name.plain.err"
    timeout 120 "$bin/stitchpool" replay "$trace" --driver host --json >"$log/$name.host.json" 2>>"$log/$name.plain.err"
    words=$(field ratio wrong_bytes checked_bytes oom gpu_waits stream_waits driver_us <"$log/$name.cuda.json" 2>/dev/null)
    plain=$(field ratio driver_us driver_us_second_half largest_stall_us ns_per_pair stream_waits <"$log/$name.plain.json" 2>/dev/null)
    host=$(field ratio driver_us driver_us_second_half <"$log/$name.host.json" 2>/dev/null)
    row "replay --check $name" "$([ $status = 0 ] && echo ok || echo FAILED)" "${words:-$(tail -c 300 "$log/$name.cuda.err")}"
    row "  unchecked" ok "$plain"
    row "  priced on the host driver" ok "$host"
done

"$bin/stitchpool" stress --driver cuda --seconds "$seconds" --threads 4 --streams 8 --devices 1 --json >"$log/stress.json" 2>"$log/stress.err"
status=$?
row "stress, $seconds s, 4 threads, 8 streams" "$([ $status = 0 ] && echo ok || echo FAILED)" "$(field ops checked_bytes wrong_bytes refused leaked_handles leaked_reservations ok <"$log/stress.json" 2>/dev/null || tail -c 300 "$log/stress.err")"

# One row: what a tool of the sanitizer says of a program. memcheck sees accesses to what is not mapped or not open;
# racecheck and synccheck look at the shared memory and the barriers of the kernels that verify.
sanitized() { # tool, name, seconds, command...
    local tool=$1 name=$2 limit=$3 file=$log/$1_${2// /_}.log status begun=$SECONDS
    shift 3
    timeout "$limit" compute-sanitizer --tool "$tool" --error-exitcode 9 "$@" >"$file" 2>&1
    status=$?
    row "$tool, $name" "$([ $status = 0 ] && echo ok || echo FAILED)" \
        "$(grep -aE '^test result|ERROR SUMMARY|RACECHECK SUMMARY' "$file" | tail -2 | paste -sd' ') ($((SECONDS - begun)) s)"
}

if command -v compute-sanitizer >/dev/null; then
    sanitized memcheck stress 200 "$bin/stitchpool" stress --driver cuda --ops 400 --threads 2 --streams 4 --devices 1 --capacity 2GiB --json
    # The tool takes device memory too, so the row that counts it to the byte is left out.
    STITCHPOOL_GIB_BYTES=$((64 << 20)) sanitized memcheck address 500 "$bin/address" cuda --test-threads=1 --nocapture --skip a_hundred_cycles
    for tool in memcheck racecheck synccheck; do
        sanitized "$tool" sleep_and_wake 150 "$bin/sleep_and_wake"
    done
    sanitized memcheck shared_prefix 150 "$bin/shared_prefix"
else
    row "compute-sanitizer" FAILED "it is not there: it comes with the CUDA toolkit"
fi

printf '%s\n' "${rows[@]}"
exit $failed
