"""Memory of GPU 1 for a process that uses GPU 0 alone: no context is made on GPU 1, and the memory comes from there.

    python3 tests/gpu/lend.py LIBRARY

LIBRARY is libstitchpool_c.so. The last line of the output is the verdict.
"""

import os
import subprocess
import sys

os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")

import driver_calls
import pool as c_face

HOME, LENDER = 0, 1
MIB = 1 << 20
BLOCK_BYTES = 1 << 30
# A context takes about 520 MiB; a device keeps some tens of MiB for itself once memory is made there.
SLACK_MIB = 256


def used_mib(device):
    """What the device has in use, by whomever; asked from outside, since cuMemGetInfo would make a context."""
    digits = bytes(device.uuid).hex()
    parts = [digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]]
    line = ["nvidia-smi", "-i", "GPU-" + "-".join(parts), "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    return int(subprocess.run(line, check=True, capture_output=True, text=True).stdout.strip())


def main():
    cuda = driver_calls.Cuda()
    driver = c_face.Driver(c_face.Library(sys.argv[1]), c_face.CUDA)
    if driver.device_count < 2:
        print("one GPU: skipped")
        return
    lender = driver.device(LENDER)
    cuda.enter(HOME)
    raw = driver.stream(HOME)
    states, used = [cuda.is_active(LENDER)], [used_mib(lender)]

    def look():
        states.append(cuda.is_active(LENDER))
        used.append(used_mib(lender))

    pool = c_face.Pool(driver)
    stream = pool.stream(HOME, raw)
    lent = pool.alloc(stream, BLOCK_BYTES, devices=[LENDER])
    near = pool.alloc(stream, BLOCK_BYTES)
    assert {segment.device for segment in pool.segments(lent, BLOCK_BYTES)} == {LENDER}
    assert {segment.device for segment in pool.segments(near, BLOCK_BYTES)} == {HOME}
    cuda.fill(lent, 0x5A, BLOCK_BYTES, raw)
    cuda.fill(near, 0xC3, BLOCK_BYTES // 2, raw)
    cuda.copy(near + BLOCK_BYTES // 2, lent, BLOCK_BYTES // 2, raw)
    cuda.copy(lent + BLOCK_BYTES // 2, near, BLOCK_BYTES // 2, raw)
    cuda.finish(raw)
    half = BLOCK_BYTES // 2
    assert cuda.read(lent, half) == b"\x5a" * half and cuda.read(lent + half, half) == b"\xc3" * half
    assert cuda.read(near + half, half) == b"\x5a" * half
    look()
    pool.free(lent)
    pool.free(near)
    pool.trim_and_wait()
    look()
    pool.retire(stream)
    pool.destroy()
    driver.end_stream(HOME, raw)
    took, left = used[1] - used[0], used[2] - used[0]
    words = (f"1 GiB lent: {took} MiB more in use on GPU 1, {left} MiB after the trim; "
             f"its context before, during, after: {', '.join('active' if state else 'inactive' for state in states)}")
    right = not any(states) and BLOCK_BYTES // MIB <= took < BLOCK_BYTES // MIB + SLACK_MIB and left < SLACK_MIB
    print(words)
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
