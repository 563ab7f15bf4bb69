"""What was understood of a job is shown with its origin, and what is not known is shown as unknown."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """import argparse
from torch.utils.data import DataLoader
parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int, default=8)
parser.add_argument("--num_workers", type=int, default=4)
args = parser.parse_args()
one = DataLoader([], args.batch_size, num_workers=args.num_workers, pin_memory=True)
two = DataLoader([], args.batch_size, num_workers=2)
"""


def shown(folder: Path, *flags: str) -> str:
    (folder / "train.py").write_text(PROGRAM)
    (folder / "run.sh").write_text("torchrun --nproc_per_node=2 train.py --batch_size 16\n")
    command = [sys.executable, "-m", "crashcart", "check", "--show-job", *flags, "run.sh"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def test_the_table_says_where_each_value_comes_from(tmp_path: Path) -> None:
    text = shown(tmp_path)
    rows = {" ".join(line.split()) for line in text.split("\n")}
    assert "batch of a rank 16 --batch_size, run.sh:1" in rows
    assert "workers of a loader 4 and 2 passed to the DataLoader, train.py:7, train.py:8" in rows
    assert "pinned True and False passed to the DataLoader, train.py:7, train.py:8" in rows
    assert "prefetch 2 passed to the DataLoader, train.py:7, train.py:8" in rows
    assert "loaders in the code 2 code, train.py:7, train.py:8" in rows
    assert "global batch 32 calculated: batch x accumulation x ranks (assuming no accumulation)" in rows
    assert "worker processes 12 calculated: workers of all loaders x ranks" in rows
    assert "sampling batch unknown" in rows
    assert text.rstrip().split("\n")[-1] == "Checked: 2 files."


def test_the_same_stands_in_the_json(tmp_path: Path) -> None:
    settings = json.loads(shown(tmp_path, "--json"))["job"][0]["settings"]
    assert settings["ranks"] == {"value": 2, "origin": "--nproc_per_node, run.sh:1"}
    assert settings["sampling batch"] is None


def test_the_parallel_kind_is_what_the_code_says(tmp_path: Path) -> None:
    (tmp_path / "ddp.py").write_text(
        "from torch.nn.parallel import DistributedDataParallel as DDP\nmodel = DDP(model)\nloss.backward()\n"
    )
    (tmp_path / "acc.py").write_text("from accelerate import Accelerator\nacc = Accelerator()\nacc.prepare(model)\n")
    (tmp_path / "none.py").write_text("import torch\nloss.backward()\n")
    told = {"ddp.py": "ddp code, ddp.py:2", "acc.py": "as accelerate is configured code, acc.py:2", "none.py": "unknown"}
    for name, says in told.items():
        command = [sys.executable, "-m", "crashcart", "check", "--show-job", "--", "torchrun", "--nproc_per_node=2", name]
        text = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        assert f"parallel kind {says}" in {" ".join(line.split()) for line in text.split("\n")}


def test_lightning_counts_devices_on_every_node(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text("from lightning.pytorch.cli import LightningCLI\n\nLightningCLI()\n")
    (tmp_path / "cfg.yaml").write_text("trainer:\n  devices: 8\n  num_nodes: 2\n  precision: bf16\n")
    command = [sys.executable, "-m", "crashcart", "check", "--show-job", "--json", "--", "python", "main.py", "fit"]
    for more, ranks in (([], 16), (["--trainer.devices", "4"], 8)):
        words = [*command, "--config", "cfg.yaml", *more]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert json.loads(done.stdout)["job"][0]["settings"]["ranks"]["value"] == ranks


def test_an_override_is_shown_as_the_program_reads_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import sys\nimport yaml\ncfg = yaml.safe_load(open('c.yaml'))\nfor word in sys.argv[1:]:\n"
        "    name, _, raw = word.partition('=')\n    cfg[name] = yaml.safe_load(raw)\n"
    )
    command = [sys.executable, "-m", "crashcart", "check", "--show-job", "--json", "--", "python", "train.py", "lr=1e-4"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert json.loads(done.stdout)["job"][0]["settings"]["learning rate"]["value"] == "1e-4"


def test_a_number_of_steps_counts_with_its_strategy_alone(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "from transformers import HfArgumentParser, TrainingArguments\n"
        "(arguments,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()\n"
    )
    for words, saves in (("--save_strategy epoch", "epoch"), ("--save_strategy steps --save_steps 7", "7")):
        command = [sys.executable, "-m", "crashcart", "check", "--show-job", "--", "python", "train.py", "--output_dir", "o"]
        done = subprocess.run([*command, *words.split()], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert [line.split()[1] for line in done.stdout.split("\n") if line.strip().startswith("saving ")] == [saves]
