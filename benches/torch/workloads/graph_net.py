"""A graph net: another number of nodes and edges at every step."""

import torch
from llama import adam, heavy_tailed
from sizes import branch, scaled
from torch import nn
from torch.nn import functional as F

WIDTH = 256


class Passing(nn.Module):
    def __init__(self):
        super().__init__()
        self.message = nn.Sequential(nn.Linear(2 * WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
        self.update = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, nodes, source, target):
        messages = self.message(torch.cat((nodes[source], nodes[target]), 1))
        heard = torch.zeros_like(nodes).index_add(0, target, messages)
        return nodes + F.relu(self.update(torch.cat((nodes, heard), 1)))


def prepare(size):
    layers = nn.ModuleList(Passing() for _ in range(4)).cuda()
    head = nn.Linear(WIDTH, 16).cuda()
    optimizer = adam(nn.ModuleList((layers, head)))
    dice = torch.Generator().manual_seed(7)

    def draw():
        count = scaled(heavy_tailed(dice, 20000, 80000), size)
        contents = branch(dice)
        edges = torch.randint(0, count, (2, 8 * count), generator=contents).cuda()
        return torch.randn(count, WIDTH, generator=contents).cuda(), edges

    def step(nodes, edges):
        count = nodes.shape[0]
        for layer in layers:
            nodes = layer(nodes, edges[0], edges[1])
        loss = F.cross_entropy(head(nodes), torch.arange(count, device="cuda") % 16)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return draw, step
