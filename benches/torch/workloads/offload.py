"""Training whose activations wait in the host's memory for the backward pass, by PyTorch's own means."""

import torch
from llama import adam, billion, heavy_tailed, words

# The host's pinned memory, which no allocator here has a part in, comes in powers of two and takes a second to get:
# these lengths, drawn first, need all that later ones do.
FIRST_LENGTHS = (1024, 640, 320)


def prepare():
    model = billion(recompute=True)
    optimizer = adam(model)
    dice = torch.Generator().manual_seed(5)
    first_lengths = iter(FIRST_LENGTHS)

    def draw():
        return (words(dice, 24, next(first_lengths, None) or heavy_tailed(dice, 256, 1024)),)

    def step(tokens):
        with torch.autograd.graph.save_on_cpu(pin_memory=True):
            loss = model.loss(tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return draw, step
