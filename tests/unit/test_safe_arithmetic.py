"""Operations of a training's code whose gradient is not finite somewhere, and the same written with care."""

from __future__ import annotations

import textwrap

import pytest

from crashcart.readers.code.safe_arithmetic import unsafe_operations
from crashcart.readers.code.source import Source

TEMPLATE = """
import math
import numpy as np
import torch
from torch import nn

class Net(nn.Module):
    def forward(self, a, b, mask, p):
        {}
"""


def found(body: str) -> list[str]:
    text = TEMPLATE.replace("{}", textwrap.indent(textwrap.dedent(body).strip(), " " * 8).strip())
    source = Source("net.py", text)
    return [operation.name for operation in unsafe_operations(source, source.functions[0])]


@pytest.mark.parametrize(
    ("operation", "body"),
    [
        ("sqrt", "return (a - b).square().sum(-1).sqrt()"),
        ("sqrt", "squared = ((a - b) ** 2).sum(-1)\nreturn torch.sqrt(squared)"),
        ("power", "return (a - b).pow(2).sum(-1) ** 0.5"),
        ("log", "return -(p * p.log()).sum(-1)"),
        ("log", "return -(p * torch.log(p)).sum(-1)"),
        ("acos", "return torch.acos((a * b).sum(-1))"),
        ("acos", "return torch.acos((a * b).sum(-1).clamp(-1.0, 1.0))"),
        ("division", "return (a * mask).sum() / mask.sum()"),
    ],
)
def test_an_operation_without_a_gradient_there(operation: str, body: str) -> None:
    assert found(body) == [operation]


@pytest.mark.parametrize(
    "body",
    [
        "return ((a - b).square().sum(-1) + 1e-8).sqrt()",
        "squared = (a - b).square().sum(-1) + self.eps\nreturn torch.sqrt(squared)",
        "return torch.sqrt((a - b).square().sum(-1).clamp_min(1e-8))",
        "return (a - b).norm(dim=-1)",
        "return a.std(dim=0).mean()",
        "return -(p * (p + 1e-8).log()).sum(-1)",
        "return p.clamp(min=1e-6).log()",
        "return p.clamp_min(1e-3)[mask].log()",
        "return torch.acos((a * b).sum(-1).clamp(-0.999, 0.999))",
        "return (a * mask).sum() / mask.sum().clamp(min=1)",
        "return (a * mask).sum() / (mask.sum() + 1e-6)",
        "return a / math.sqrt(a.shape[-1])",
        "return a * a.shape[-1] ** -0.5",
        "self.log('loss', a.mean())\nreturn a",
        "with torch.no_grad():\n    scale = a.std()\nreturn a",
        "return np.sqrt(3) * a",
        "return torch.log(torch.exp(a))",
    ],
)
def test_what_is_written_with_care(body: str) -> None:
    assert found(body) == []
