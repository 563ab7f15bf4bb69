"""Every framework's spelling leads to one name, and traps between them stay apart."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest

from crashcart.names import SPELLINGS, _entries, _squeeze, canonical, is_secret, spellings


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("--per_device_train_batch_size", "train.batch_size"),
        ("--train-batch-size", "train.batch_size"),
        ("train_micro_batch_size_per_gpu", "train.batch_size"),
        ("SOLVER.IMS_PER_BATCH", "train.global_batch_size"),
        ("trainer.max_steps", "train.max_steps"),
        ("+trainer.max_epochs", "train.epochs"),
        ("optim.lr", "train.learning_rate"),
        ("optim.optimizer.lr", "train.learning_rate"),
        ("optim.gradient_clip.configs[1].max_norm", "train.clip"),
        ("num_workers", "loader.workers"),
        ("data.train.num_workers", "loader.workers"),
        ("data.val.num_workers", "eval.workers"),
        ("val_dataloader.batch_size", "eval.batch_size"),
        ("data.validation.prefetch_factor", "eval.prefetch"),
        ("sampling.batch_size", "sample.batch_size"),
        ("DATALOADER.NUM_WORKERS", "loader.workers"),
        ("default_hooks.checkpoint.interval", "save.period"),
        ("default_hooks.logger.interval", "log.period"),
        ("checkpointing_period", "save.period"),
        ("batchSize", "train.batch_size"),
        ("zero_optimization.stage", "distributed.zero_stage"),
        ("--accum", "train.accumulation"),
        ("iters_to_accumulate", "train.accumulation"),
        ("optim.num_accumulation_steps", "train.accumulation"),
        ("data.n_workers", "loader.workers"),
        ("val.n_workers", "eval.workers"),
        ("num_epoch", "train.epochs"),
        ("val.bsz", "eval.batch_size"),
    ],
)
def test_a_spelling_leads_to_its_name(spelling: str, name: str) -> None:
    assert canonical(spelling) == name


def test_the_parents_can_be_given_apart() -> None:
    assert canonical("num_workers", path="data.val") == "eval.workers"
    assert canonical("train_batch_size", path="deepspeed") == "train.global_batch_size"
    assert canonical("train_batch_size") == "train.batch_size"


def test_a_period_in_epochs_is_not_a_period_in_steps() -> None:
    assert canonical("checkpoint.save_freq") == "save.period_epochs"
    assert canonical("save_freq") == "save.period"
    assert canonical("check_val_every_n_epoch") == "eval.period_epochs"


@pytest.mark.parametrize(
    "spelling", ["model.steps", "scheduler.interval", "hidden_dim", "", "--", "model.resume", "diffusion.num_steps"]
)
def test_a_word_that_means_something_else_stays_unknown(spelling: str) -> None:
    assert canonical(spelling) is None


def test_every_name_knows_itself_and_every_listed_spelling() -> None:
    for name in SPELLINGS:
        assert canonical(name) == name
        for entry in _entries(name):
            spelling = entry.partition("=")[0].lstrip("^")
            assert canonical(spelling) == name, spelling


def test_work_and_period_in_a_section_and_below_it() -> None:
    assert canonical("every.checkpoint") == "save.period"
    assert canonical("train.intervals.eval") == "eval.period"
    assert canonical("sampling.every_steps") == "sample.period"
    assert canonical("every.cow") is None
    assert canonical("checkpoint.path") is None


def test_no_spelling_means_two_things() -> None:
    pairs = {(_squeeze(entry.partition("=")[0]), name) for name in SPELLINGS for entry in _entries(name)}
    counted = Counter(spelling for spelling, _ in pairs)
    assert [spelling for spelling, count in counted.items() if count > 1] == []


def test_advice_names_the_flag_and_whose_it_is() -> None:
    assert spellings("eval.batch_size")[0] == "--per_device_eval_batch_size (HF Trainer)"
    assert spellings("sample.batch_size")[0] == "--sample_batch_size (RDT)"
    assert spellings("no.such") == ()


@pytest.mark.parametrize(
    "name", ["wandb_api_key", "--hub-token", "AWS_SECRET_ACCESS_KEY", "password", "WANDB_API_KEY", "wandb.key"]
)
def test_a_secret_is_known_as_one(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", ["max_tokens", "tokenizer", "pad_token", "image_key", "monkey", "num_tokens_per_step"])
def test_a_harmless_name_is_no_secret(name: str) -> None:
    assert not is_secret(name)


def test_importing_the_names_loads_nothing_else_of_ours() -> None:
    code = "import sys, crashcart.names; print([m for m in sys.modules if m.startswith(('crashcart.', 'yaml')) ])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['crashcart.version', 'crashcart.names']"
