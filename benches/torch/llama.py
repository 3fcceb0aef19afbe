"""A decoder like Llama's, of any size, with random weights."""

import torch
from sizes import branch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.value, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)

    def forward(self, x, cache=None):
        batch, length, width = x.shape
        split = lambda t: t.view(batch, length, self.heads, -1).transpose(1, 2)
        q, k, v = split(self.query(x)), split(self.key(x)), split(self.value(x))
        if cache is not None:
            if cache:
                # What most simple serving code does: a longer tensor for each token.
                k, v = torch.cat((cache[0], k), 2), torch.cat((cache[1], v), 2)
            cache[:] = [k, v]
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=length > 1)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Layer(nn.Module):
    def __init__(self, width, heads, inner):
        super().__init__()
        self.before, self.between = nn.RMSNorm(width), nn.RMSNorm(width)
        self.attention = Attention(width, heads)
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x, cache=None):
        x = x + self.attention(self.before(x), cache)
        y = self.between(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, width, layers, heads, inner, words, recompute=False):
        super().__init__()
        self.recompute = recompute
        self.embed = nn.Embedding(words, width)
        self.layers = nn.ModuleList(Layer(width, heads, inner) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens, caches=None):
        x = self.embed(tokens)
        for number, layer in enumerate(self.layers):
            if self.recompute and self.training and torch.is_grad_enabled():
                x = checkpoint(layer, x, use_reentrant=False)
            else:
                x = layer(x, caches[number] if caches is not None else None)
        return self.head(self.norm(x))

    def loss(self, tokens):
        logits = self(tokens[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())

    @torch.no_grad()
    def generate(self, tokens, count):
        caches = [[] for _ in self.layers]
        fresh = tokens
        made = []
        for _ in range(count):
            fresh = self(fresh, caches)[:, -1].argmax(-1, keepdim=True)
            made.append(fresh)
        return torch.cat(made, 1)


# How many words the models of a billion weights know.
WORDS = 16000


def billion(recompute):
    """1.0 billion weights in bfloat16, on the GPU: few wide layers, so that it has more to do than the CPU."""
    with torch.device("cuda"):
        return Llama(3072, 8, 24, 8192, WORDS, recompute).bfloat16()


def adam(model):
    wanted = [weight for weight in model.parameters() if weight.requires_grad]
    return torch.optim.AdamW(wanted, 1e-4)


def heavy_tailed(dice, least, most):
    """A length: mostly short, now and then very long."""
    drawn = least * float(torch.rand(1, generator=dice).clamp(min=1e-3)) ** -0.7
    return int(min(most, max(least, drawn)))


def words(dice, *shape):
    return torch.randint(0, WORDS, shape, generator=branch(dice)).cuda(non_blocking=True)
