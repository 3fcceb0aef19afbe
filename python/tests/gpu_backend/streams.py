"""Streams: record_stream is heard, and freed memory of one stream serves another."""

import threading

import torch
from setting import GIB, MIB, cap, main

SPIN_CYCLES = 400_000_000
BYTES = 64 * MIB


def read_late(record):
    """Reads a block on a side stream after its owner has freed it and filled whatever came next."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        seen = torch.zeros(BYTES, dtype=torch.uint8, device="cuda")
    block = torch.full((BYTES,), 1, dtype=torch.uint8, device="cuda")
    address = block.data_ptr()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(SPIN_CYCLES)
        seen.copy_(block)
    if record:
        block.record_stream(side)
    del block
    reused = torch.full((BYTES,), 9, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    return int(seen.max()), reused.data_ptr() == address


def a_side_stream_reads_what_it_recorded():
    worst, reused = read_late(record=False)
    assert reused and worst == 9, "without record_stream the block is reused at once, and its reader sees that"
    worst, reused = read_late(record=True)
    assert not reused and worst == 1, "with record_stream it waits"
    torch.cuda.synchronize()
    del worst, reused


def recorded_memory_comes_back():
    cap(GIB)
    side = torch.cuda.Stream()
    for _ in range(50):
        block = torch.ones(300 * MIB, dtype=torch.uint8, device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            block.max()
        block.record_stream(side)
        del block
    return f"peak held {torch.cuda.max_memory_reserved() // MIB} MiB"


def memory_freed_on_one_stream_serves_another():
    cap(GIB)
    for turn in range(8):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            block = torch.full((700 * MIB,), turn, dtype=torch.uint8, device="cuda")
            assert int(block[::4096].max()) == turn
            del block
    return f"peak held {torch.cuda.max_memory_reserved() // MIB} MiB"


def sixteen_threads_do_not_disturb_each_other():
    wrong = []

    def work(seed):
        stream = torch.cuda.Stream()
        dice = torch.Generator().manual_seed(seed)
        with torch.cuda.stream(stream):
            kept = []
            for turn in range(200):
                count = int(torch.randint(1, 1 << 20, (1,), generator=dice))
                kept.append((turn, torch.full((count,), turn, dtype=torch.int32, device="cuda")))
                if len(kept) > 6:
                    value, block = kept.pop(int(torch.randint(0, 6, (1,), generator=dice)))
                    if not bool((block == value).all()):
                        wrong.append((seed, value))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    assert not wrong, wrong[:5]
    stats = torch.cuda.memory_stats()
    assert stats["allocated_bytes.all.current"] == stats["allocated_bytes.all.allocated"] - stats["allocated_bytes.all.freed"]


if __name__ == "__main__":
    main(
        a_side_stream_reads_what_it_recorded,
        recorded_memory_comes_back,
        memory_freed_on_one_stream_serves_another,
        sixteen_threads_do_not_disturb_each_other,
    )
