"""Generation with a key-value cache that grows by torch.cat, prompts and batches of many sizes."""

import torch
from llama import billion, heavy_tailed, words
from sizes import scaled


def prepare(size):
    model = billion(recompute=False).eval()
    dice = torch.Generator().manual_seed(4)

    def draw():
        batch = scaled(int(torch.randint(40, 65, (1,), generator=dice)), size)
        return (words(dice, batch, heavy_tailed(dice, 640, 1536)),)

    def step(prompts):
        return model.generate(prompts, 24).float().mean()

    return draw, step
