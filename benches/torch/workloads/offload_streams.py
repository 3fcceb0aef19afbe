"""Training whose activations go to the host on a second stream, and come back for the backward pass, as training
libraries do it: few are under way at a time, and none is let go before the other stream is past it."""

from collections import deque

import torch
from llama import WORDS
from offloading import is_worthwhile, offloaded

# So many wait for their copy to the host before the GPU waits for the first of them.
LEAVING_MAX = 3
# A step of the backward pass needs no more than so many; so many more may be on their way back.
OF_ONE_STEP, EARLY = 3, 2


class Offload:
    def __init__(self):
        self.stream = torch.cuda.Stream()
        # Tensors with the event of their copy to the host.
        self.leaving = deque()
        # Tensors that came back, with an event of the stream that computes: when each was asked for.
        self.returned = deque()

    def pack(self, tensor):
        # Words are chosen at the end of the forward pass: those tensors are needed again at once.
        if not is_worthwhile(tensor) or tensor.shape[-1] == WORDS:
            return tensor
        current = torch.cuda.current_stream()
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            kept = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor, non_blocking=True)
        copied = self.stream.record_event()
        self.leaving.append((tensor, copied))
        if len(self.leaving) > LEAVING_MAX:
            current.wait_event(self.leaving.popleft()[1])
        return kept, copied

    def unpack(self, packed):
        if isinstance(packed, torch.Tensor):
            return packed
        kept, copied = packed
        current = torch.cuda.current_stream()
        if len(self.returned) > OF_ONE_STEP + EARLY:
            self.returned.popleft()
            # When this one was asked for, all that used the one that goes was queued.
            self.stream.wait_event(self.returned[OF_ONE_STEP - 1][1])
        asked = current.record_event()
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(copied)
            tensor = kept.to("cuda", non_blocking=True)
        current.wait_stream(self.stream)
        self.returned.append((tensor, asked))
        return tensor

    def end_step(self):
        """Nothing is kept for the next step."""
        current = torch.cuda.current_stream()
        current.wait_stream(self.stream)
        self.stream.wait_stream(current)
        self.leaving.clear()
        self.returned.clear()


def prepare(size):
    offload = Offload()
    hooks = lambda: torch.autograd.graph.saved_tensors_hooks(offload.pack, offload.unpack)
    return offloaded(size, hooks, offload.end_step)
