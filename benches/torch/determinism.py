"""What makes runs repeatable, as far as torch can: for every process whose losses are compared."""

import torch


def demand():
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    # Their backward passes add up in any order, and a mere warning does not keep them away.
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_cudnn_sdp(False)
