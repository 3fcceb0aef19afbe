"""Full fine-tuning of a model of GPT-2's size, every length once."""

import torch
from llama import Llama, adam, words


def prepare():
    with torch.device("cuda"):
        model = Llama(768, 12, 12, 2048, 32000)
    optimizer = adam(model)
    dice = torch.Generator().manual_seed(2)

    def step(_):
        length = int(torch.randint(64, 1024, (1,), generator=dice))
        with torch.autocast("cuda", torch.bfloat16):
            loss = model.loss(words(dice, 8, length))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step
