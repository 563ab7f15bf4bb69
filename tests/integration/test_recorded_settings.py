"""What real programs made of their settings, as their own parsers and constructors returned it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from inside_job import run
from recorded import ran

from crashcart.readers.flight import read_flight
from crashcart.readers.recorded_settings import recorded_facts

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("torch")
pytestmark = pytest.mark.processes

PARSED = """
    import argparse, sys, yaml
    sys.argv[1:] = ARGUMENTS
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("-b", "--batch_size", type=int, default=8)
    parser.add_argument("--api_token", default="hf_" + "a1B2" * 8)
    parser.add_argument("--note", default="private words")
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("fit").add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    with open("config.yaml", "w") as file:
        file.write("learning_rate: 1e-4\\nmodel: {depth: 3, width: [1, 2]}\\npassword: hunter2\\nnote: private words\\n")
    yaml.safe_load(open("config.yaml"))
"""


def settings(events: list[dict[str, Any]], source: str) -> list[dict[str, Any]]:
    return [dict(event["settings"]) for event in events if event["source"] == source]


def test_a_parser_tells_its_values_and_flags_and_no_secret(tmp_path: Path) -> None:
    told = run(tmp_path, PARSED.replace("ARGUMENTS", "['--lr', '3e-4', 'fit', '--epochs', '5']")).first.of("settings")
    assert settings(told, "argparse") == [{"lr": 3e-4, "batch_size": 8, "epochs": 5}]
    assert settings(told, "yaml") == [{"learning_rate": "1e-4", "model.depth": 3}]
    assert ["--batch_size", "batch_size"] in told[0]["flags"]
    assert told[0]["place"].endswith("train.py:11 <module>")
    assert not any(word in str(told) for word in ("hf_", "hunter2", "private"))


def test_a_command_line_that_is_refused_tells_the_flags_that_would_have_been_taken(tmp_path: Path) -> None:
    job = run(tmp_path, PARSED.replace("ARGUMENTS", "['--learning_rate', '3e-4']"))
    (told,) = job.first.of("settings")
    assert job.code == 2
    assert told["settings"] == []
    assert ["--lr", "lr"] in told["flags"]


MADE = """
    import datetime, torch, torch.distributed as dist
    from torch.utils.data import DataLoader, TensorDataset
    data = TensorDataset(torch.zeros(12, 4), torch.zeros(12, 1))
    dist.init_process_group("gloo", init_method="file://" + __file__ + ".store", rank=0, world_size=1,
                            timeout=datetime.timedelta(seconds=77))
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.5)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    for inputs, targets in DataLoader(data, batch_size=4, shuffle=True):
        scaler.scale((model(inputs) - targets).square().mean()).backward()
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
    with torch.no_grad():
        for batch in DataLoader(data, batch_size=6, num_workers=1):
            pass
    dist.destroy_process_group()
"""


def test_constructors_tell_what_they_were_given(tmp_path: Path) -> None:
    told = run(tmp_path, MADE.replace("RATE", "0.25")).first.of("settings")
    train, evaluation = settings(told, "DataLoader")
    assert (train["batch_size"], train["num_workers"], train["sampler"], train["evaluates"]) == (
        4,
        0,
        "RandomSampler",
        False,
    )
    assert (evaluation["batch_size"], evaluation["num_workers"], evaluation["evaluates"]) == (6, 1, True)
    (optimizer,) = settings(told, "optimizer")
    assert (optimizer["lr"], optimizer["weight_decay"], optimizer["class"]) == (0.25, 0.5, "torch.optim.adamw.AdamW")
    assert settings(told, "scheduler")[0]["step_size"] == 3
    assert settings(told, "GradScaler")[0]["init_scale"] == 8.0
    (group,) = settings(told, "process group")
    assert (group["backend"], group["timeout_seconds"], group["world_size"]) == ("gloo", 77.0, 1)


def test_what_the_program_had_goes_before_what_stands_in_its_files(tmp_path: Path) -> None:
    ran(tmp_path, MADE.replace("RATE", "float('1e30') / 4"))
    (folder,) = [path for path in (tmp_path / "runs").iterdir() if path.is_dir()]
    facts = recorded_facts(read_flight(str(folder)))
    values = {name: fact.value for name, fact in facts.items()}
    assert values["train.learning_rate"] == 2.5e29
    assert (values["train.batch_size"], values["eval.batch_size"], values["eval.workers"]) == (4, 6, 1)
    assert values["distributed.timeout_seconds"] == 77
    assert "train.py:8)" in facts["train.learning_rate"].evidence.quote


DIVERGES = """
    import argparse, torch
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=float, default=0.1)
    parser.parse_args()
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e9)
    for step in range(60):
        loss = (model(torch.ones(8, 4)) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item()}", flush=True)
"""


def test_only_flags_that_the_parser_knows_are_advised(tmp_path: Path) -> None:
    diagnosis = ran(tmp_path, DIVERGES)
    assert diagnosis.findings[0].cause == "numerics/diverged"
    assert {flag for finding in diagnosis.findings for fix in finding.fixes for flag in fix.arguments} <= {"--rate"}


@pytest.mark.parametrize(
    ("library", "code", "source", "expected"),
    [
        (
            "transformers",
            "from transformers import TrainingArguments\nTrainingArguments('out', per_device_train_batch_size=3, use_cpu=True)",
            "TrainingArguments",
            {"per_device_train_batch_size": 3, "save_strategy": "steps", "output_dir": "out"},
        ),
        (
            "accelerate",
            "from accelerate import Accelerator\nAccelerator(cpu=True, gradient_accumulation_steps=4)",
            "Accelerator",
            {"gradient_accumulation_steps": 4, "mixed_precision": "no"},
        ),
        (
            "lightning",
            "import lightning\nlightning.Trainer(max_epochs=3, accelerator='cpu', logger=False, enable_checkpointing=False)",
            "Trainer",
            {"max_epochs": 3, "accelerator": "cpu"},
        ),
        (
            "omegaconf",
            "from omegaconf import OmegaConf\nOmegaConf.merge({'lr': 1e-4, 'path': '${oc.env:HOME}'}, {'optim': {'wd': 0.1}})",
            "omegaconf",
            {"lr": 1e-4, "optim.wd": 0.1},
        ),
        (
            "hydra",
            (
                "import hydra\nfrom omegaconf import OmegaConf\nOmegaConf.save({'lr': 1e-4, 'data': {'workers': 3}}, 'c.yaml')\n"
                "@hydra.main(version_base=None, config_path='.', config_name='c')\ndef main(config):\n    print(config.lr)\nmain()"
            ),
            "hydra",
            {"lr": 1e-4, "data.workers": 3},
        ),
    ],
)
def test_frameworks_tell_their_settings(
    tmp_path: Path, library: str, code: str, source: str, expected: dict[str, Any]
) -> None:
    pytest.importorskip(library)
    told = settings(run(tmp_path, code).first.of("settings"), source)
    assert told
    assert expected.items() <= told[-1].items()


COUNTED = """
    import torch
    from torch.utils.data import DataLoader, TensorDataset
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1), torch.nn.Linear(4, 4))
    model.load_state_dict({"module." + name: value for name, value in model.state_dict().items()}, strict=False)
    optimizer = torch.optim.SGD([{"params": layer.parameters()} for layer in model], lr=0.5)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda count: min(1, (count + 1) / 100))
    train = DataLoader(TensorDataset(torch.randn(40, 4)), batch_size=8)
    held_out = DataLoader(TensorDataset(torch.randn(5, 4)), batch_size=8, drop_last=True)
    for epoch in range(3):
        for inputs, in train:
            model[1](model[0](inputs)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            if epoch == 2:
                break
        schedule.step()
        with torch.no_grad():
            for inputs, in held_out:
                model(inputs)
"""


def test_loads_epochs_schedules_and_idle_groups_are_counted(tmp_path: Path) -> None:
    job = run(tmp_path, COUNTED).first
    (load,) = job.of("weights")
    assert (load["given"], load["taken"], load["missing"], load["unexpected"]) == (6, 0, 6, 6)
    assert (load["missing_names"][0], load["unexpected_names"][0]) == ("0.weight", "module.0.weight")
    assert load["place"].endswith("train.py:5 <module>")
    epochs = [(one["role"], one["batches"], one["epochs"], one["whole"]) for one in job.of("loader")]
    assert epochs == [("training", 5, 1, True), ("evaluation", 0, 1, True), ("training", 1, 3, False)]
    (schedule,) = job.of("schedule")
    assert (schedule["class"], schedule["stepped"], schedule["step"]) == ("LambdaLR", 3, 11)
    (few,) = job.of("few gradients")
    assert (few["tensors"], few["without"], few["idle"]) == (6, 2, [2])
    assert [job.page[name] for name in ("lr_made", "lr_top", "lr")] == [0.5, 0.015, 0.015]
