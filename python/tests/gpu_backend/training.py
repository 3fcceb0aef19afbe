"""Training is the same to the last bit, and goes on where memory in pieces stops torch's own allocator."""

import torch
from setting import GIB, MIB, cap, lives, main, same
from torch import nn


class Net(nn.Module):
    def __init__(self, width=256):
        super().__init__()
        self.embed = nn.Embedding(1000, width)
        self.mix = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True) for _ in range(3)
        )
        self.head = nn.Linear(width, 1000)

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.mix:
            x = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)
        return self.head(x)


@same
def losses():
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    model = Net().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    dice = torch.Generator().manual_seed(1)
    found = []
    for _ in range(30):
        length = int(torch.randint(16, 400, (1,), generator=dice))
        tokens = torch.randint(0, 1000, (8, length), generator=dice).cuda()
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
    assert found[-1] < found[0]
    return [f"{loss:.9g}" for loss in found]


@same
def convolutions_of_many_sizes():
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    model = nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3), nn.ReLU(), nn.Conv2d(64, 128, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(128, 10),
    ).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    dice = torch.Generator().manual_seed(2)
    found = []
    for _ in range(20):
        side = 32 * int(torch.randint(2, 16, (1,), generator=dice))
        loss = model(torch.rand(8, 3, side, side, generator=dice).cuda()).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(f"{loss.item():.9g}")
    return found


@lives
def half_of_the_memory_free_in_pieces_is_one_block():
    cap(4 * GIB)
    blocks = [torch.empty(4 * MIB, dtype=torch.uint8, device="cuda") for _ in range(960)]
    del blocks[::2]
    whole = torch.empty(3 * GIB // 2, dtype=torch.uint8, device="cuda")
    whole.fill_(3)
    for number, block in enumerate(blocks):
        block.fill_(number % 251)
    assert int(whole[:: 1 << 16].sum()) == 3 * len(whole[:: 1 << 16])
    return "lived"


if __name__ == "__main__":
    import torch.utils.checkpoint

    main(losses, convolutions_of_many_sizes, half_of_the_memory_free_in_pieces_is_one_block)
