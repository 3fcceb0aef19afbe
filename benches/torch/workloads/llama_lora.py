"""LoRA on a model of a billion weights, with recomputation and heavy-tailed lengths."""

import torch
from llama import adam, billion, heavy_tailed, words
from sizes import scaled
from torch import nn

RANK = 16


class Lora(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        like = {"device": base.weight.device, "dtype": base.weight.dtype}
        self.down = nn.Parameter(torch.randn(RANK, base.in_features, **like) * 0.01)
        self.up = nn.Parameter(torch.zeros(base.out_features, RANK, **like))

    def forward(self, x):
        return self.base(x) + (x @ self.down.t()) @ self.up.t()


def add_lora(model):
    model.requires_grad_(False)
    for layer in model.layers:
        layer.attention.query, layer.attention.value = Lora(layer.attention.query), Lora(layer.attention.value)
    return model


def prepare(size):
    model = add_lora(billion(recompute=True))
    optimizer = adam(model)
    dice = torch.Generator().manual_seed(1)

    def draw():
        return (words(dice, scaled(48, size), heavy_tailed(dice, 160, 1024)),)

    def step(tokens):
        loss = model.loss(tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return draw, step
