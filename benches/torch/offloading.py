"""What runs have in common that keep their activations in the host's memory: the model, the lengths and the step."""

import torch
from llama import adam, billion, heavy_tailed, words
from sizes import scaled

# The host's pinned memory, which no allocator here has a part in, comes in powers of two and takes a second to get:
# these lengths, drawn first, need all that later ones do.
FIRST_LENGTHS = (1024, 640, 320)
# Smaller tensors stay, where a run chooses.
WORTHWHILE_BYTES = 8 << 20


def is_worthwhile(tensor):
    return tensor.untyped_storage().nbytes() >= WORTHWHILE_BYTES and not isinstance(tensor, torch.nn.Parameter)


def offloaded(size, hooks, after_backward=lambda: None):
    """A run whose forward pass is made under what `hooks` gives, with `size` times the usual batch: what draws a step's
    data, and what makes a step."""
    model = billion(recompute=True)
    optimizer = adam(model)
    dice = torch.Generator().manual_seed(5)
    first_lengths = iter(FIRST_LENGTHS)

    def draw():
        return (words(dice, scaled(24, size), next(first_lengths, None) or heavy_tailed(dice, 256, 1024)),)

    def step(tokens):
        with hooks():
            loss = model.loss(tokens)
        loss.backward()
        after_backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return draw, step
