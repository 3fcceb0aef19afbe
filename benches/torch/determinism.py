"""What makes runs repeatable, as far as torch can: for every process whose losses are compared."""

import torch


def demand():
    torch.manual_seed(0)
    # No mere warning: flash attention's backward pass is deterministic only where anything else is an error.
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    # Whatever one asks of these two, their backward passes may add up in any order.
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_cudnn_sdp(False)
