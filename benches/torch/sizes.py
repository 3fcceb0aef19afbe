"""How large a run is, beside its usual size, and what must not depend on that."""

import torch


def scaled(count, size):
    """A batch, or what else there are many of, in a run of `size` times its usual size."""
    return max(1, round(count * size))


def branch(dice):
    """Dice for the contents of a batch: however much is drawn of them, `dice` draws the same lengths afterwards."""
    return torch.Generator().manual_seed(int(torch.randint(2**40, (1,), generator=dice)))
