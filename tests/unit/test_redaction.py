"""Nothing secret reaches a report, whatever form it has and wherever it stands."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from crashcart.redact import HIDDEN, clean

if TYPE_CHECKING:
    from pathlib import Path

SECRETS = [
    "wandb login 0123456789abcdef0123456789abcdef01234567",
    "WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567",
    "export HF_TOKEN=hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345",
    "--hub_token hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345",
    "aws_access_key_id = AKIAIOSFODNN7EXAMPLE",
    "aws_secret_access_key: wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "python train.py --api_key=sekret-value-123 --lr 1e-4",
    "python train.py --api-key sekret-value-123 --lr 1e-4",
    "{'api_key': 'sekret-value-123', 'lr': 0.1}",
    "Authorization: Bearer abcdefghijklmnop.qrstuvwx",
    "git clone https://user:sekret-value-123@host/repo.git",
    "OPENAI_API_KEY=sk-abcdefghijklmnopqrstuvwxyz012345",
    "password: sekret-value-123",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
]
PARTS = ("0123456789abcdef", "AbCdEfGh", "AKIAIOSF", "wJalrXUt", "sekret", "abcdefghijklmnop")
PLAIN = [
    "step 100 tokens: 4096 loss 0.3",
    "max_tokens=2048 num_tokens: 12345678",
    "pad_token: <pad>, eos_token='</s>'",
    "Loading revision 0123456789abcdef0123456789abcdef01234567",
    "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB",
    "tokenizer_name=google/t5-v1_1-xxl",
]


@pytest.mark.parametrize("text", SECRETS)
def test_a_secret_is_hidden(text: str) -> None:
    shown = clean(text)
    assert HIDDEN in shown
    assert not any(part in shown for part in PARTS)


@pytest.mark.parametrize("text", PLAIN)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert clean(text) == text


def test_escape_sequences_never_reach_the_terminal() -> None:
    assert clean("\x1b]0;owned\x07\x1b[31mred\u202e") == "]0;owned[31mred"


def test_no_output_of_why_holds_a_secret(tmp_path: Path) -> None:
    for number, secret in enumerate(SECRETS):
        log = tmp_path / f"{number}.log"
        log.write_text(
            f'Traceback (most recent call last):\n  File "t.py", line 1, in <module>\n    {secret}\nValueError: {secret}\n'
        )
        page = tmp_path / "page.html"
        command = [sys.executable, "-m", "crashcart", "why", str(log), "--command", f"python t.py {secret}"]
        shown = subprocess.run([*command, "--html", str(page)], capture_output=True, text=True, check=True).stdout
        data = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True).stdout
        json.loads(data)
        for text in (shown, data, page.read_text()):
            assert not any(part in text for part in PARTS), (secret, text)
