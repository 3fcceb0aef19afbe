"""Writes the fixtures of this folder: one small snapshot in every protocol and compression, and one RMM log.

Needs only Python's own modules and the `zstd` program. Run it in this folder.
"""

import gzip
import lzma
import pickle
import subprocess

frames = [{"filename": "train.py", "name": "step", "line": 12}, {"filename": "model.py", "name": "forward", "line": 7}]
start_us = 1_700_000_000_000_000
BASE = 0x7F00_0000_0000


def event(action, after_us, addr, size, stream=0, **more):
    return {"action": action, "addr": addr, "size": size, "stream": stream, "time_us": start_us + after_us,
            "frames": frames, **more}


first = [
    event("segment_alloc", 0, BASE, 2 << 20),
    event("alloc", 10, BASE, 1000),
    event("alloc", 20, BASE + 1024, 2048, stream=0x5A0, user_metadata={"action": "mine", "size": "big"}),
    event("free_requested", 30, BASE + 1024, 2048, stream=0x5A0),
    event("alloc", 40, BASE + 4096, 512),
    event("free_completed", 50, BASE + 1024, 2048, stream=0x5A0),
    event("user_defined", 55, 0, 0, user_metadata="a note: ü 日本"),
    {"action": "oom", "device_free": 12345, "size": 1 << 40, "stream": 0, "time_us": start_us + 60, "frames": frames},
    event("free_requested", 70, BASE, 1000),
    event("free_completed", 70, BASE, 1000),
    {"time_us": start_us + 80, "stream": 0, "size": 0, "addr": 0, "action": "snapshot"},
]
second = [
    event("segment_map", 5, BASE, 20 << 20, stream=0xFFFF_FFFF_FFFF_FFF0),
    event("alloc", 6, BASE, 5 << 20, stream=0xFFFF_FFFF_FFFF_FFF0),
    event("segment_unmap", 7, BASE + (10 << 20), 10 << 20),
]


def block(address, size, requested, state):
    return {"address": address, "size": size, "requested_size": requested, "state": state, "frames": frames}


def segment(device, address, total, blocks, **more):
    return {"device": device, "address": address, "total_size": total, "allocated_size": 0, "active_size": 0,
            "requested_size": 0, "stream": 0, "segment_type": "small", "segment_pool_id": (0, 0),
            "is_expandable": False, "frames": frames, "blocks": blocks, **more}


snapshot = {
    "segments": [
        segment(0, BASE, 2 << 20, [
            block(BASE, 4096, 0, "inactive"),
            block(BASE + 4096, 512, 512, "active_allocated"),
            block(BASE + 4608, 1536, 1500, "active_allocated"),
            block(BASE + 6144, (2 << 20) - 6144, 0, "inactive"),
        ]),
        segment(2, BASE, 10 << 20, [block(BASE, 10 << 20, 5 << 20, "active_allocated")],
                is_expandable=True, segment_type="large", segment_pool_id=(0, 3)),
    ],
    "device_traces": [first, [], second],
    "allocator_settings": {
        "PYTORCH_CUDA_ALLOC_CONF": "backend:native,expandable_segments:True",
        "max_split_size": -1,
        "garbage_collection_threshold": 0.5,
        "expandable_segments": True,
        "roundup_power2_divisions": {"1": 0, "2": 0},
    },
    "external_annotations": [{"stage": "START", "name": "step", "device": 0, "time_us": start_us}],
    "not_known": [b"bytes", bytearray(b"more"), {1, 2}, frozenset([3]), (1, 2, 3, 4), 10**30, 1.5, None, {5: 6}],
}

for protocol in (2, 3, 4, 5):
    plain = dict(snapshot)
    if protocol < 4:
        # Older protocols write sets and bytes by naming code, which no reader should obey.
        plain["not_known"] = [(1, 2, 3, 4), 10**30, 1.5, None, {5: 6}]
    if protocol == 4:
        plain["not_known"] = [one for one in snapshot["not_known"] if not isinstance(one, bytearray)]
    packed = pickle.dumps(plain, protocol)
    with open(f"protocol{protocol}.pickle", "wb") as file:
        file.write(packed)
    if protocol == 4:
        half = len(packed) // 2
        with open("packed.pickle.gz", "wb") as file:
            file.write(gzip.compress(packed[:half], mtime=0) + gzip.compress(packed[half:], mtime=0))
        with open("packed.pickle.xz", "wb") as file:
            file.write(lzma.compress(packed[:half]) + lzma.compress(packed[half:]))
        skipped = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"
        parts = [subprocess.run(["zstd", "-c", "-q", "--check"], input=part, stdout=subprocess.PIPE, check=True).stdout
                 for part in (packed[:half], packed[half:])]
        with open("packed.pickle.zst", "wb") as file:
            file.write(parts[0] + skipped + parts[1])

with open("rmm.csv", "w", newline="") as file:
    file.write("""Thread,Time,Action,Pointer,Size,Stream
1001,23:59:59:999000,allocate,0x7f0000000000,1000,0
1001,23:59:59:999500,allocate,0x7f0000001000,4096,0x5a0
1002,00:00:00:000500,free,0x7f0000000000,1000,0
1002,00:00:00:001000,allocate failure,(nil),1099511627776,0
1002,00:00:00:002000,free,0x7f0000009000,8,0
1002,00:00:00:003000,reset,0x0,0,0
""")
