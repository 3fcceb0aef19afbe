"""As reinforcement learning does: generate, then train on what was generated, with the same weights."""

import torch
from llama import adam, billion, heavy_tailed, words
from sizes import scaled


def prepare(size):
    model = billion(recompute=True)
    model.requires_grad_(False)
    model.layers[-4:].requires_grad_(True)
    optimizer = adam(model)
    dice = torch.Generator().manual_seed(8)

    def draw():
        return (words(dice, scaled(40, size), heavy_tailed(dice, 384, 1024)),)

    def step(prompts):
        model.eval()
        said = model.generate(prompts, 12)
        model.train()
        loss = model.loss(torch.cat((prompts, said), 1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return draw, step
