import torch
from torch import nn


class NegativeQueue(nn.Module):
    def __init__(self, dim, size):
        super().__init__()
        self.size = size
        self.register_buffer("bank", nn.functional.normalize(torch.randn(dim, size), dim=0))
        self.register_buffer("ptr", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def push(self, keys):
        n = keys.shape[0]
        p = int(self.ptr)
        self.bank[:, p:p + n] = keys.T
        self.ptr[0] = (p + n) % self.size
