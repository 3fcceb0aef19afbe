"""How large a run is, beside its usual size."""


def scaled(count, size):
    """A batch, or what else there are many of, in a run of `size` times its usual size."""
    return max(1, round(count * size))
