"""Training whose activations go to the host on a second stream, and come back for the backward pass, as far ahead of
the GPU as the CPU is: what was recorded on a stream is freed when the GPU gets there."""

import torch
from offloading import is_worthwhile, offloaded


class Offload:
    def __init__(self):
        self.stream = torch.cuda.Stream()

    def pack(self, tensor):
        if not is_worthwhile(tensor):
            return tensor
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            kept = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor, non_blocking=True)
        # The copy may still read it when autograd lets it go.
        tensor.record_stream(self.stream)
        return kept, self.stream.record_event()

    def unpack(self, packed):
        if isinstance(packed, torch.Tensor):
            return packed
        kept, copied = packed
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(copied)
            tensor = kept.to("cuda", non_blocking=True)
        torch.cuda.current_stream().wait_stream(self.stream)
        tensor.record_stream(torch.cuda.current_stream())
        return tensor


def prepare(size):
    offload = Offload()
    return offloaded(size, lambda: torch.autograd.graph.saved_tensors_hooks(offload.pack, offload.unpack))
