"""Generation with a key-value cache that grows by torch.cat, prompts and batches of many sizes."""

import torch
from llama import billion, heavy_tailed, words


def prepare():
    model = billion(recompute=False).eval()
    dice = torch.Generator().manual_seed(4)

    def step(_):
        batch = int(torch.randint(8, 33, (1,), generator=dice))
        return model.generate(words(dice, batch, heavy_tailed(dice, 128, 2048)), 24).float().mean()

    return step
