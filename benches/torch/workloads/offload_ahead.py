"""Training whose activations go to the host on a second stream, and come back for the backward pass, as far ahead of
the GPU as the CPU is: what was recorded on a stream is freed when the GPU gets there."""

import torch
from llama import adam, billion, heavy_tailed, words

WORTHWHILE_BYTES = 8 << 20
# The host's pinned memory, which no allocator here has a part in, comes in powers of two and takes a second to get:
# these lengths, drawn first, need all that later ones do.
FIRST_LENGTHS = (1024, 640, 320)


class Offload:
    def __init__(self):
        self.stream = torch.cuda.Stream()

    def pack(self, tensor):
        if tensor.untyped_storage().nbytes() < WORTHWHILE_BYTES or isinstance(tensor, torch.nn.Parameter):
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


def prepare():
    model = billion(recompute=True)
    optimizer = adam(model)
    dice = torch.Generator().manual_seed(5)
    offload = Offload()
    first_lengths = iter(FIRST_LENGTHS)

    def draw():
        return (words(dice, 24, next(first_lengths, None) or heavy_tailed(dice, 256, 1024)),)

    def step(tokens):
        with torch.autograd.graph.saved_tensors_hooks(offload.pack, offload.unpack):
            loss = model.loss(tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return draw, step
