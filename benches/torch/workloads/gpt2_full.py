"""Full fine-tuning of a model of GPT-2's size, every length once."""

import torch
from llama import WORDS, Llama, adam, words
from sizes import scaled


def prepare(size):
    with torch.device("cuda"):
        model = Llama(768, 12, 12, 2048, WORDS)
    optimizer = adam(model)
    dice = torch.Generator().manual_seed(2)

    def draw():
        return (words(dice, scaled(48, size), int(torch.randint(64, 1024, (1,), generator=dice))),)

    def step(tokens):
        with torch.autocast("cuda", torch.bfloat16):
            loss = model.loss(tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return draw, step
