"""Whether PyTorch's own viewer can show a snapshot: its pages are made, and what its script does in the browser,
taking event after event back from the segments that stand at the end, is done here by the same rules."""

import os
import pickle
import subprocess
import sys
import tempfile


def opens(snapshot):
    """Raises if it cannot; answers how many events were taken back."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "snapshot.pickle")
        with open(path, "wb") as file:
            pickle.dump(snapshot, file)
        for plot in ("trace_plot", "segment_plot"):
            page = os.path.join(folder, f"{plot}.html")
            viewer = [sys.executable, "-W", "ignore", "-m", "torch.cuda._memory_viz"]
            subprocess.run([*viewer, plot, path, "-o", page, "-d", "0"], check=True, capture_output=True, timeout=120)
            with open(page) as file:
                text = file.read()
            assert "MemoryViz" in text and len(text) > 1000, text[:500]
    return sum(_View(snapshot, device).take_back() for device in range(len(snapshot["device_traces"])))


class _View:
    def __init__(self, snapshot, device):
        self.segments = []
        self.blocks = {}
        for segment in snapshot["segments"]:
            if segment["device"] == device:
                self.segments.append([segment["address"], segment["total_size"], segment["stream"]])
                for block in segment["blocks"]:
                    if block["state"] in ("active_pending_free", "active_allocated"):
                        self.blocks[block["address"]] = block["state"] == "active_pending_free"
        self.segments.sort()
        self.events = snapshot["device_traces"][device]

    def take_back(self):
        self.check("the end")
        for event in reversed(self.events):
            getattr(self, event["action"], self.nothing)(event["addr"], event["size"], event["stream"])
            self.check(event)
        return len(self.events)

    def check(self, event):
        for address in self.blocks:
            inside = any(start <= address < start + size for start, size, _ in self.segments)
            assert inside, f"the block at {address:#x} lies in no segment before {event}"

    def nothing(self, *_):
        pass

    def alloc(self, address, *_):
        self.blocks.pop(address, None)

    def free_requested(self, address, *_):
        assert address in self.blocks, f"the free of {address:#x} is taken back, and there is no such block"
        self.blocks[address] = False

    def free_completed(self, address, *_):
        self.blocks[address] = True

    def segment_alloc(self, address, size, _):
        known = [segment for segment in self.segments if segment[0] == address]
        assert known and known[0][1] == size, f"no segment of {size} bytes begins at {address:#x}"
        self.segments.remove(known[0])

    def segment_free(self, address, size, stream):
        self.segments = sorted([*self.segments, [address, size, stream]])

    def segment_map(self, address, size, _):
        around = [one for one in self.segments if one[0] <= address and address + size <= one[0] + one[1]]
        assert around, f"no segment holds the {size} bytes at {address:#x} that were mapped"
        start, length, stream = around[0]
        self.segments.remove(around[0])
        before, after = [start, address - start, stream], [address + size, start + length - address - size, stream]
        self.segments = sorted([*self.segments, *(part for part in (before, after) if part[1] > 0)])

    def segment_unmap(self, address, size, stream):
        for other in list(self.segments):
            if other[2] == stream and other[0] + other[1] == address:
                address, size = other[0], other[1] + size
                self.segments.remove(other)
            elif other[2] == stream and address + size == other[0]:
                size += other[1]
                self.segments.remove(other)
        self.segment_free(address, size, stream)
