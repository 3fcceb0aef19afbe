"""A mixture of experts: each gets as many tokens as the router sends it, another number at every step."""

import torch
from llama import WORDS, adam, heavy_tailed, words
from sizes import scaled
from torch import nn
from torch.nn import functional as F

WIDTH, EXPERTS, LAYERS = 2048, 8, 3


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.router = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, EXPERTS, bias=False)
        expert = lambda: nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
        self.experts = nn.ModuleList(expert() for _ in range(EXPERTS))

    def forward(self, x):
        flat = self.norm(x)
        weights, chosen = self.router(flat).softmax(-1).topk(2)
        mixed = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows, place = (chosen == number).nonzero(as_tuple=True)
            mixed = mixed.index_add(0, rows, expert(flat[rows]) * weights[rows, place, None])
        return x + mixed


def prepare(size):
    with torch.device("cuda"):
        embed = nn.Embedding(WORDS, WIDTH)
        model = nn.Sequential(*(Mixture() for _ in range(LAYERS)), nn.RMSNorm(WIDTH), nn.Linear(WIDTH, 4096))
        whole = nn.ModuleList((embed, model)).bfloat16()
    optimizer = adam(whole)
    dice = torch.Generator().manual_seed(3)

    def draw():
        return (words(dice, scaled(heavy_tailed(dice, 16384, 49152), size)),)

    def step(tokens):
        loss = F.cross_entropy(model(embed(tokens)).float(), tokens % 4096)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return draw, step
