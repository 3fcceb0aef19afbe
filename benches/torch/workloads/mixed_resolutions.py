"""A convolutional net on pictures of many sizes."""

import torch
from llama import adam
from sizes import branch, scaled
from torch import nn
from torch.nn import functional as F


class Stage(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.GroupNorm(1, width)
        self.inner, self.out = nn.Conv2d(width, 4 * width, 1), nn.Conv2d(4 * width, width, 1)

    def forward(self, x):
        return x + self.out(F.gelu(self.inner(self.norm(self.mix(x)))))


class Mean(nn.Module):
    """Over the pixels: torch's average pooling has no deterministic backward pass."""

    def forward(self, x):
        return x.mean((2, 3))


def prepare(size):
    parts = [nn.Conv2d(3, 96, 4, 4)]
    for width, depth in ((96, 3), (192, 3), (384, 6)):
        parts += [Stage(width) for _ in range(depth)]
        if width < 384:
            parts.append(nn.Conv2d(width, 2 * width, 2, 2))
    model = nn.Sequential(*parts, Mean(), nn.Linear(384, 1000)).cuda()
    optimizer = adam(model)
    dice = torch.Generator().manual_seed(6)

    def draw():
        side = 32 * int(torch.randint(4, 20, (1,), generator=dice))
        batch = scaled(max(16, 96 * 224 * 224 // (side * side)), size)
        return (torch.rand(batch, 3, side, side, generator=branch(dice)).cuda(),)

    def step(pictures):
        with torch.autocast("cuda", torch.bfloat16):
            loss = F.cross_entropy(model(pictures), torch.arange(len(pictures), device="cuda") % 1000)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return draw, step
