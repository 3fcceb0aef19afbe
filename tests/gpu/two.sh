#!/usr/bin/env bash
# Two GPUs or more in one range. Runs on a machine with GPUs and builds nothing there; each point is a process of
# its own with a time limit. Prints one table; the logs are in $OUT, if that is set.
#
#   tests/gpu/pack.sh FOLDER             # where the toolchain is: builds and copies the binaries
#   tests/gpu/two.sh FOLDER [TRACE...]   # where the GPUs are; traces whose peak no single GPU's cap will hold
#
# POINTS names the points to run; all if it is not set:
#   conformance examples address stress replay lend nccl
set -uo pipefail
bin=$(realpath "${1:?usage: two.sh FOLDER [TRACE...]}")
shift
here=$(cd "$(dirname "$0")" && pwd)
points=${POINTS:-conformance examples address stress replay lend nccl}
seconds=${STRESS_SECONDS:-20}
log=${OUT:-$(mktemp -d)}
export PYTHONDONTWRITEBYTECODE=1
declare -a rows
failed=0

row() { # name, status, words
    rows+=("$(printf '%-50s %-7s %s' "$1" "$2" "$3")")
    [ "$2" != FAILED ] || failed=1
}

# Runs a command with a limit of so many seconds. Its words are its last line, or what `$words LOG` prints.
point() { # name, seconds, log, command...
    local name=$1 limit=$2 file=$log/$3 status begun=$SECONDS said
    shift 3
    timeout -k 5 "$limit" "$@" >"$file" 2>&1
    status=$?
    said=$(${words:-tail -1} "$file" 2>/dev/null)
    [ $status = 0 ] || said="status $status: ${said:-$(tail -c 300 "$file")}"
    said=${said//$'\n'/ | }
    row "$name" "$([ $status = 0 ] && echo ok || echo "${unpromised:-FAILED}")" "$said ($((SECONDS - begun)) s)"
    while read -r line; do row "" "" "$line"; done < <(grep -a 'measured: ' "$file" | sed 's/.*measured: //')
}

wants() { case " $points " in *" $1 "*) true ;; *) false ;; esac; }

verdict() { grep -a 'test result' "$1" | tail -1; }

field() { python3 -c 'import json,sys
for line in open(sys.argv[1], errors="replace"):
    if line.startswith("{"):
        found = json.loads(line)
        shown = [f"{key} {found[key]:.4f}" if isinstance(found[key], float) else f"{key} {found[key]}" for key in sys.argv[2:] if key in found]
        print(" ".join(shown))' "$@"; }

replayed() { field "$1" oom wrong_bytes checked_bytes limit_bytes peak_live_bytes remote_peak_bytes remote_bytes ratio; }

# The last line, after the first error above it if there is one.
ended() { grep -aE 'Error|Refused|WARN' "$1" | head -1; tail -1 "$1"; }

stressed() { field "$1" ops checked_bytes wrong_bytes refused leaked_handles leaked_reservations ok; }

gpus=$(nvidia-smi --query-gpu=name --format=csv,noheader | wc -l) || exit 1
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
[ "$gpus" -ge 2 ] || echo "one GPU: rows that need two say that they were skipped"
devices=$((gpus < 2 ? 1 : gpus))

if wants conformance; then
    words=verdict point "conformance, all devices" 120 conformance.log "$bin/conformance" cuda --test-threads=1 --nocapture
    skipped=$(grep -acE 'no second device|no GPU' "$log/conformance.log")
    row "  cross-device rows skipped" "$([ "$skipped" = 0 ] || [ "$gpus" -lt 2 ] && echo ok || echo FAILED)" "$skipped"
fi

if wants examples; then
    point "one block over two devices" 60 two_devices.log "$bin/two_devices"
    point "column shards, one range" 60 tensor_parallel.log "$bin/tensor_parallel"
    point "stages that exchange their buffers" 60 pipeline_exchange.log "$bin/pipeline_exchange"
    point "read-only, its own memory" 60 read_only.log "$bin/read_only" --device cuda
    [ "$gpus" -lt 2 ] || point "read-only, a peer's memory" 60 read_only_peer.log "$bin/read_only" --device cuda --on-peer
    if [ -x "$bin/share" ]; then
        point "a block in two processes, words checked" 60 share.log "$bin/share"
    else
        row "a block in two processes, words checked" skipped "no share in $bin"
    fi
    if [ -x "$bin/oversubscribe" ]; then
        point "eviction" 60 oversubscribe.log "$bin/oversubscribe"
    else
        row "eviction" skipped "no oversubscribe in $bin"
    fi
fi

if wants address; then
    words=verdict point "suspend, migrate, exchange, spill, placement" 240 address.log \
        "$bin/address" cuda --test-threads=1 --nocapture
fi

if wants stress; then
    for capacity in 1GiB 8GiB; do
        words=stressed point "stress, $devices devices of $capacity" $((seconds + 40)) "stress_$capacity.log" \
            "$bin/stitchpool" stress --driver cuda --seconds "$seconds" --threads 4 --streams 8 \
            --devices "$devices" --capacity "$capacity" --json
    done
fi

if wants replay; then
    for trace in "$@"; do
        name=$(basename "$trace" .pickle.gz)
        [ "$gpus" -ge 2 ] || { row "replay $name, spilling" skipped "one GPU"; continue; }
        for how in --check ""; do
            # shellcheck disable=SC2086 # an empty word is no argument
            words=replayed point "replay $how $name, home holds 0.6 of it" 100 "$name.spill$how.log" \
                "$bin/stitchpool" replay "$trace" --driver cuda --devices 2 --capacity 0.6x --spill $how --json
        done
    done
fi

if wants lend; then
    words=ended point "memory of GPU 1 without a context there" 60 lend.log python3 "$here/lend.py" "$bin/libstitchpool_c.so"
fi

# One process for all GPUs, one for each, and one for each with handles that can be exported to the other.
if wants nccl; then
    for setup in "one private" "each private" "each fd"; do
        for case in plain registered graph kept; do
            # shellcheck disable=SC2086 # the words are two arguments
            set -- $setup
            # Nobody promises that a registration outlives its memory: what happens is told and judged by no one.
            unpromised=$([ $case = kept ] && echo told) words=ended \
                point "NCCL $case, processes: $1, handles $2" 60 "nccl_$1_$2_$case.log" \
                python3 "$here/nccl.py" "$bin/libstitchpool_c.so" --processes "$1" --kind "$2" --case $case
        done
    done
fi

printf '%s\n' "${rows[@]}"
exit $failed
