"""The numbers of a job are those that its program uses; what was not followed to its use is unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from crashcart.readers.plan import Asked, plans

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """import argparse
import os
import sys
import torch
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.randn(2000, 4))
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
STEP = """        model(x).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
"""


def facts_of(folder: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], command: str) -> dict[str, Any]:
    """The facts of the job that a command starts, by name."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.chdir(folder)
    case = plans(Asked(command.split(), []))[0].case
    return {name: fact.value for name, fact in case.facts.items()} | {
        "refused": [fact.value["says"] for fact in case.all("arguments.refused")]
    }


CASES: dict[str, tuple[dict[str, str], str, dict[str, Any]]] = {
    "a flag that the program divides is not the batch": (
        {
            "train.py": HEAD
            + """parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int, default=8)
parser.add_argument("--workers", type=int, default=4)
args = parser.parse_args()
loader = DataLoader(data, batch_size=args.batch_size // torch.cuda.device_count(), num_workers=min(os.cpu_count(), args.workers))
for epoch in range(3):
    for (x,) in loader:
"""
            + STEP
        },
        "python train.py --batch_size 64",
        {"train.batch_size": None, "loader.workers": None, "train.epochs": 3, "train.accumulation": 1},
    ),
    "visible cards are those that the launch names": (
        {
            "train.py": HEAD
            + """loader = DataLoader(data, batch_size=64 // torch.cuda.device_count())
for (x,) in loader:
        model(x).mean().backward()
        optimizer.step()
""",
            "run.sh": "export CUDA_VISIBLE_DEVICES=0,1\npython train.py\n",
        },
        "bash run.sh",
        {"train.batch_size": 32},
    ),
    "runs that are repeated are no epochs": (
        {
            "train.py": HEAD
            + """def experiment():
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(data, batch_size=16)
    for epoch in range(7):
        for (x,) in loader:
            model(x).mean().backward()
            optimizer.step()
for run in range(2):
    experiment()
"""
        },
        "python train.py",
        {"train.epochs": 7, "train.batch_size": 16},
    ),
    "a loop over the length of a loader is one pass": (
        {
            "train.py": HEAD
            + """loader = DataLoader(data, batch_size=16)
for epoch in range(5):
    batches = iter(loader)
    for _ in range(len(loader)):
        (x,) = next(batches)
"""
            + STEP
        },
        "python train.py",
        {"train.epochs": 5, "train.max_steps": None},
    ),
    "a counter of samples is divided by what a round adds": (
        {
            "train.py": HEAD
            + """loader = DataLoader(data, batch_size=20)
seen = 0
done = False
while not done:
    for (x,) in loader:
        model(x).mean().backward()
        optimizer.step()
        seen += 20
        if seen >= 4000:
            done = True
            break
"""
        },
        "python train.py",
        {"train.max_steps": 200},
    ),
    "a rate of zero is set later": (
        {"train.py": HEAD.replace("lr=0.1", "lr=0") + "for step in range(9):\n" + STEP.replace("(x)", "(torch.ones(4))")},
        "python train.py",
        {"train.learning_rate": None, "train.max_steps": 9},
    ),
    "settings in a dictionary of the program's own class reach the loader": (
        {
            "train.py": HEAD
            + """import importlib
import re
class Settings(dict):
    def __getattr__(self, name):
        return self[name]
    def __setattr__(self, name, value):
        self[name] = value
def find(name):
    module, _, rest = re.sub("^np.", "numpy.", name).rpartition(".")
    return getattr(importlib.import_module(module), rest)
def make(class_name, **given):
    return find(class_name)(model.parameters(), **given)
settings = Settings(rate=Settings(lr=0.25))
settings.batch = 24
settings.workers = 2
def train(batch, workers, rate):
    optimizer = make("torch.optim.Adam", **rate)
    loader = DataLoader(data, batch_size=batch, num_workers=workers)
    for (x,) in loader:
        model(x).mean().backward()
        optimizer.step()
train(**settings)
"""
        },
        "python train.py",
        {"train.batch_size": 24, "loader.workers": 2, "train.learning_rate": 0.25},
    ),
    "an optimizer stays one behind a library": (
        {
            "train.py": HEAD
            + """from apex import amp
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
loader = DataLoader(data, batch_size=16)
for epoch in range(4):
    for (x,) in loader:
"""
            + STEP
        },
        "python train.py",
        {"train.epochs": 4, "train.learning_rate": 0.1, "train.accumulation": 1},
    ),
    "Lightning's trainer takes its flags": (
        {
            "train.py": HEAD.replace("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)", "")
            + """import pytorch_lightning as pl
class Model(pl.LightningModule):
    def training_step(self, batch, number):
        return model(batch[0]).mean()
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=2e-3)
    def val_dataloader(self):
        return DataLoader(data, batch_size=4)
parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=4)
parser = pl.Trainer.add_argparse_args(parser)
args = parser.parse_args()
trainer = pl.Trainer.from_argparse_args(args, logger=False)
trainer.fit(Model(), DataLoader(data, batch_size=args.batch))
"""
        },
        "python train.py --batch 6 --gpus=2 --num_nodes 2 --max_epochs=30",
        {
            "launch.processes": 4,
            "train.batch_size": 6,
            "train.epochs": 30,
            "train.accumulation": 1,
            "log.period": None,
            "save.period_epochs": 1,
            "eval.period_epochs": 1,
            "tracker.kind": "none",
            "train.learning_rate": 0.002,
        },
    ),
    "mmengine's runner": (
        {
            "config.py": """train_dataloader = dict(batch_size=2, num_workers=3, dataset=dict(type="Coco"))
train_cfg = dict(type="EpochBasedTrainLoop", max_epochs=12, val_interval=2)
val_cfg = dict(type="ValLoop")
optim_wrapper = dict(type="OptimWrapper", optimizer=dict(type="SGD", lr=0.02))
auto_scale_lr = dict(enable=True, base_batch_size=16)
default_hooks = dict(logger=dict(type="LoggerHook", interval=50), checkpoint=dict(type="CheckpointHook", interval=4))
visualizer = dict(vis_backends=[dict(type="LocalVisBackend")])
""",
            "tools/train.py": """import argparse
from mmengine.config import Config
from mmengine.runner import Runner
parser = argparse.ArgumentParser()
parser.add_argument("config")
parser.add_argument("--launcher", default="none")
args = parser.parse_args()
runner = Runner.from_cfg(Config.fromfile(args.config))
runner.train()
""",
            "tools/dist_train.sh": 'python -m torch.distributed.launch --nproc_per_node=$2 $(dirname "$0")/train.py $1 --launcher pytorch ${@:3}\n',
        },
        "bash tools/dist_train.sh config.py 4",
        {
            "launch.processes": 4,
            "train.batch_size": 2,
            "loader.workers": 3,
            "train.epochs": 12,
            "train.accumulation": 1,
            "log.period": 50,
            "save.period_epochs": 4,
            "eval.period_epochs": 2,
            "tracker.kind": "none",
            "train.learning_rate": 0.01,
        },
    ),
    "mmcv's runner": (
        {
            "config.py": """optimizer = dict(type="AdamW", lr=6e-5, paramwise_cfg=dict(custom_keys={}))
runner = dict(type="IterBasedRunner", max_iters=160000)
checkpoint_config = dict(by_epoch=False, interval=4000)
log_config = dict(interval=50, hooks=[dict(type="TextLoggerHook"), dict(type="TensorboardLoggerHook")])
evaluation = dict(interval=16000, metric="mIoU")
""",
            "train.py": HEAD
            + """from mmcv import Config
from mmcv.runner import build_optimizer, build_runner
from mmcv.runner import EvalHook
cfg = Config.fromfile("config.py")
loaders = [DataLoader(data, batch_size=2, num_workers=4)]
runner = build_runner(cfg.runner, default_args=dict(model=model, optimizer=build_optimizer(model, cfg.optimizer)))
runner.register_training_hooks(None, None, cfg.checkpoint_config, cfg.log_config)
runner.register_hook(EvalHook(DataLoader(data), by_epoch=False, **cfg.evaluation))
runner.run(loaders, [("train", 1)])
""".replace("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)", ""),
        },
        "python train.py",
        {
            "train.batch_size": 2,
            "loader.workers": 4,
            "train.max_steps": 160000,
            "save.period": 4000,
            "log.period": 50,
            "eval.period": 16000,
            "tracker.kind": "tensorboard",
            "train.accumulation": 1,
        },
    ),
    "a train that the program wrote anew for its trainer keeps the trainer's settings": (
        {
            "train.py": """import math
from transformers import HfArgumentParser, Trainer, TrainingArguments
class Mine(Trainer):
    def train(self, resume=None):
        loader = self.get_train_dataloader()
        self.create_optimizer_and_scheduler(num_training_steps=100)
        for epoch in range(math.ceil(self.args.num_train_epochs)):
            for step, inputs in enumerate(loader):
                self.training_step(self.model, inputs)
                self.optimizer.step()
(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
Mine(model=None, args=args, train_dataset=[]).train()
"""
        },
        "python train.py --output_dir out --num_train_epochs 2 --learning_rate 3e-5",
        {"train.epochs": 2.0, "train.learning_rate": 3e-5, "log.period": 500},
    ),
    "a library that gets a loss and an optimizer makes the step": (
        {
            "train.py": HEAD
            + """from timm.optim import create_optimizer
from timm.utils import NativeScaler
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=5e-4)
args = parser.parse_args()
args.lr = args.lr * 4
optimizer = create_optimizer(args, model)
scaler = NativeScaler()
loader = DataLoader(data, batch_size=16)
for epoch in range(4):
    for (x,) in loader:
        loss = model(x).mean()
        scaler(loss, optimizer, parameters=model.parameters())
""".replace("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)", "")
        },
        "python train.py",
        {"train.epochs": 4, "train.learning_rate": 0.002, "train.accumulation": 1},
    ),
    "a rate that a schedule sets is the one that the schedule gets": (
        {
            "train.py": HEAD.replace(", lr=0.1", "").replace("SGD", "AdamW")
            + """import math
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=5e-4)
args = parser.parse_args()
def cosine(base, steps):
    return [base * 0.5 * (1 + math.cos(math.pi * step / steps)) for step in range(steps)]
loader = DataLoader(data, batch_size=64)
rates = cosine(args.lr * 64 / 256, 3 * len(loader))
for epoch in range(3):
    for step, (x,) in enumerate(loader):
        for group in optimizer.param_groups:
            group["lr"] = rates[step]
"""
            + STEP
        },
        "python train.py",
        {"train.learning_rate": 0.000125, "train.epochs": 3},
    ),
    "processes that the program starts itself say how many they are": (
        {
            "train.py": HEAD
            + """import multiprocessing
parser = argparse.ArgumentParser()
parser.add_argument("--devices", nargs="+", default=["cuda:0"])
def work(rank, world):
    if rank is None:
        return
    torch.distributed.init_process_group("nccl", rank=rank, world_size=world)
    loader = DataLoader(data, batch_size=16)
    for (x,) in loader:
        model(x).mean().backward()
        optimizer.step()
if __name__ == "__main__":
    args = parser.parse_args()
    for rank in range(len(args.devices)):
        multiprocessing.Process(target=work, args=(rank, len(args.devices))).start()
"""
        },
        "python train.py --devices cuda:0 cuda:1 cuda:2",
        {"launch.processes": 3, "train.batch_size": 16},
    ),
    "what torch brings needs no stand-in": (
        {
            "train.py": HEAD
            + """try:
    from torch.cuda.amp import GradScaler
except ImportError:
    class GradScaler:
        def scale(self, loss):
            return loss
        def step(self, optimizer):
            optimizer.step()
scaler = GradScaler()
loader = DataLoader(data, batch_size=16)
for (x,) in loader:
    scaler.scale(model(x).mean()).backward()
    scaler.step(optimizer)
"""
        },
        "python train.py",
        {"train.accumulation": 1},
    ),
    "a word of which the shell knows a part is that flag": (
        {
            "train.py": HEAD
            + """parser = argparse.ArgumentParser()
parser.add_argument("--data", required=True)
parser.add_argument("--batch_size", type=int, default=8)
args = parser.parse_args()
loader = DataLoader(data, batch_size=args.batch_size)
for (x,) in loader:
        model(x).mean().backward()
        optimizer.step()
""",
            "run.sh": """CARDS=4
DATA=${1}
export PYTHONPATH=${PYTHONPATH}:`pwd`/src
torchrun --nproc_per_node=${CARDS} train.py --data=${DATA}/train --batch_size=32
""",
        },
        "bash run.sh",
        {"refused": [], "train.batch_size": 32, "launch.processes": 4},
    ),
    "a flag that another word may hold is not missing": (
        {
            "train.py": HEAD
            + """parser = argparse.ArgumentParser()
parser.add_argument("--data", required=True)
parser.add_argument("--batch_size", type=int, default=8)
args = parser.parse_args()
loader = DataLoader(data, batch_size=args.batch_size)
for (x,) in loader:
        model(x).mean().backward()
        optimizer.step()
""",
            "run.sh": "python train.py --batch_size=32 $(cat flags.txt)\n",
        },
        "bash run.sh",
        {"refused": []},
    ),
    "Lightning's trainer does what it does by default": (
        {
            "train.py": HEAD.replace("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)", "")
            + """import lightning.pytorch as pl
class Model(pl.LightningModule):
    def training_step(self, batch, number):
        return model(batch[0]).mean()
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=2e-3)
trainer = pl.Trainer(devices=2)
trainer.fit(Model(), DataLoader(data, batch_size=3))
"""
        },
        "python train.py",
        {
            "launch.processes": 2,
            "train.batch_size": 3,
            "train.epochs": 1000,
            "train.accumulation": 1,
            "log.period": 50,
            "save.period_epochs": 1,
            "eval.strategy": "no",
            "tracker.kind": "tensorboard",
        },
    ),
    "OmegaConf makes objects of the dataclasses that a config was made of": (
        {
            "config.yaml": "loader:\n  workers: 5\nbatch: 48\n",
            "train.py": HEAD
            + """from dataclasses import dataclass, field
from omegaconf import OmegaConf
@dataclass
class LoaderSettings:
    workers: int = 1
    pin: bool = True
@dataclass
class Settings:
    batch: int = 8
    loader: LoaderSettings = field(default_factory=LoaderSettings)
    @property
    def half(self):
        return self.batch // 2
    @classmethod
    def load(cls, path):
        return OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(cls), OmegaConf.load(path)))
settings = Settings.load(sys.argv[1])
loader = DataLoader(data, batch_size=settings.half, num_workers=settings.loader.workers, pin_memory=settings.loader.pin)
for (x,) in loader:
    model(x).mean().backward()
    optimizer.step()
""",
        },
        "python train.py config.yaml",
        {"train.batch_size": 24, "loader.workers": 5},
    ),
    "an object of a library has what it was made with": (
        {
            "train.py": HEAD
            + """import tensorflow as tf
hparams = tf.contrib.training.HParams(batch_size=64, workers=3)
hparams.parse("workers=4")
loader = DataLoader(data, batch_size=hparams.batch_size, num_workers=hparams.workers)
for (x,) in loader:
    model(x).mean().backward()
    optimizer.step()
"""
        },
        "python train.py",
        {"train.batch_size": 64, "loader.workers": None},
    ),
    "a period of ticks is not one of steps": (
        {
            "train.py": HEAD
            + """loader = DataLoader(data, batch_size=64)
images = tick = last = 0
for (x,) in loader:
    model(x).mean().backward()
    optimizer.step()
    images += 64
    if images < last + 4000:
        continue
    if tick % 50 == 0:
        torch.save(model.state_dict(), "model.pt")
    tick += 1
    last = images
"""
        },
        "python train.py",
        {"train.batch_size": 64, "save.period": None},
    ),
    "a path and what a library gives may be texts": (
        {
            "train.py": """import argparse
import pathlib
import somewhere
parser = argparse.ArgumentParser()
parser.add_argument("--output", default="out")
args = parser.parse_args()
folder = str(pathlib.Path(args.output) / somewhere.now())
assert isinstance(folder, str), folder
assert isinstance(somewhere.name(args.output), str)
"""
        },
        "python train.py --output runs",
        {"refused": []},
    ),
    "the program that a launcher of the project's own starts is the job": (
        {
            "train.py": HEAD
            + """parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int, default=8)
args = parser.parse_args()
loader = DataLoader(data, batch_size=args.batch_size // int(os.environ["WORLD_SIZE"]))
for (x,) in loader:
    model(x).mean().backward()
    optimizer.step()
""",
            "launch.py": """import os
import subprocess
import sys
from argparse import ArgumentParser, REMAINDER
parser = ArgumentParser()
parser.add_argument("--nproc", type=int, default=1)
parser.add_argument("script")
parser.add_argument("rest", nargs=REMAINDER)
args = parser.parse_args()
environment = os.environ.copy()
environment["WORLD_SIZE"] = str(args.nproc)
started = []
for rank in range(args.nproc):
    environment["RANK"] = str(rank)
    started.append(subprocess.Popen([sys.executable, "-u", args.script] + args.rest, env=environment))
for process in started:
    process.wait()
""",
        },
        "python launch.py --nproc 4 train.py --batch_size 64",
        {"launch.processes": 4, "train.batch_size": 16, "launch.script": "train.py", "refused": []},
    ),
    "of one of several pairs each name gets one of several": (
        {
            "train.py": HEAD
            + """size, workers = (4, 2) if os.path.exists("small") else (8, 2)
loader = DataLoader(data, batch_size=size, num_workers=workers)
for (x,) in loader:
    model(x).mean().backward()
    optimizer.step()
"""
        },
        "python train.py",
        {"train.batch_size": None, "loader.workers": 2},
    ),
    "a loader of the program's own class is a loader": (
        {
            "train.py": HEAD
            + """class Endless(DataLoader):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.iterator = super().__iter__()
    def __iter__(self):
        for _ in range(len(self)):
            yield next(self.iterator)
loader = Endless(data, batch_size=12, num_workers=3)
for epoch in range(2):
    for (x,) in loader:
"""
            + STEP
        },
        "python train.py",
        {"train.batch_size": 12, "loader.workers": 3, "train.epochs": 2},
    ),
    "batches that next() takes from a generator feed the training": (
        {
            "train.py": HEAD
            + """def batches(size):
    loader = DataLoader(data, batch_size=size)
    while True:
        for (x,) in loader:
            yield x
source = batches(16)
for step in range(500):
        x = next(source)
"""
            + STEP
        },
        "python train.py",
        {"train.batch_size": 16, "train.max_steps": 500},
    ),
    "a period behind the test for accumulation is the period": (
        {
            "train.py": HEAD
            + """loader = DataLoader(data, batch_size=4)
step = rounds = 0
for epoch in range(2):
    for (x,) in loader:
        rounds += 1
        waits = rounds % 4 != 0
        model(x).mean().backward()
        if not waits:
            optimizer.step()
            optimizer.zero_grad()
            step += 1
        if not waits and step % 100 == 0:
            torch.save(model.state_dict(), f"{step}.pt")
"""
        },
        "python train.py",
        {"train.accumulation": 4, "save.period": 100},
    ),
    "a period of one is a period": (
        {
            "train.py": HEAD
            + """parser = argparse.ArgumentParser()
parser.add_argument("--save_every", type=int, default=10)
args = parser.parse_args()
loader = DataLoader(data, batch_size=4)
for epoch in range(2):
    for (x,) in loader:
"""
            + STEP
            + """    if epoch % args.save_every == 0:
        torch.save(model.state_dict(), f"{epoch}.pt")
"""
        },
        "python train.py --save_every 1",
        {"save.period_epochs": 1, "save.period": None},
    ),
    "a setting that no test reaches is no period": (
        {
            "train.py": HEAD
            + """parser = argparse.ArgumentParser()
parser.add_argument("--save_every", type=int, default=10)
args = parser.parse_args()
loader = DataLoader(data, batch_size=4)
for (x,) in loader:
"""
            + STEP
        },
        "python train.py --save_every 7",
        {"save.period": None, "save.period_epochs": None},
    ),
    "epochs of a resumed run are counted to the same end": (
        {
            "train.py": HEAD
            + """start = torch.load("last.pt")["epoch"] if os.path.exists("last.pt") else 0
loader = DataLoader(data, batch_size=4)
for epoch in range(start, 90):
    for (x,) in loader:
"""
            + STEP
        },
        "python train.py",
        {"train.epochs": 90},
    ),
    "a command that the project installs is its program": (
        {
            "pyproject.toml": "[project.scripts]\ntool = 'tool.cli:main'\n",
            "tool/__init__.py": "",
            "tool/cli.py": HEAD
            + """def train(batch):
    for (x,) in DataLoader(data, batch_size=batch):
"""
            + STEP
            + """def main():
    train(int(sys.argv[2]))
""",
            "run.sh": "tool prepare 3\ntool train 6\n",
        },
        "bash run.sh",
        {"launch.script": "tool", "train.batch_size": 6},
    ),
    "modules that a program imports by listing a folder are imported": (
        {
            "kinds/__init__.py": """import importlib
import os
KINDS = {}
def register(kind):
    KINDS[kind.__name__] = kind
    return kind
for name in os.listdir(os.path.dirname(os.path.abspath(__file__))):
    if name.endswith("_kind.py"):
        importlib.import_module(f"kinds.{name[:-3]}")
""",
            "kinds/small_kind.py": "from kinds import register\n@register\nclass Small:\n    batch = 5\n",
            "train.py": HEAD
            + """from kinds import KINDS
for (x,) in DataLoader(data, batch_size=KINDS["Small"].batch):
"""
            + STEP,
        },
        "python train.py",
        {"train.batch_size": 5},
    ),
    "a dictionary of the program's own class holds what it was made of": (
        {
            "config.json": '{"batch": 9}',
            "train.py": HEAD
            + """import json
class Settings(dict):
    def __init__(self, *args):
        super().__init__(*args)
        self.__dict__ = self
settings = Settings(json.load(open("config.json")))
for (x,) in DataLoader(data, batch_size=settings.batch):
"""
            + STEP,
        },
        "python train.py",
        {"train.batch_size": 9},
    ),
    "options of Kaldi's scripts are variables": (
        {
            "parse_options.sh": "while true; do break; done\n",
            "train.py": HEAD
            + """for (x,) in DataLoader(data, batch_size=int(sys.argv[1])):
"""
            + STEP,
            "run.sh": "size=8\n. ./parse_options.sh\npython train.py $size\n",
        },
        "bash run.sh --size 24",
        {"train.batch_size": 24},
    ),
    "a program without a tracker has none": (
        {"train.py": HEAD + "for (x,) in DataLoader(data):\n" + STEP},
        "python train.py",
        {"tracker.kind": "none"},
    ),
    "an own check of the program refuses a value": (
        {
            "train.py": """import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--net", default="small")
args = parser.parse_args()
if args.net == "small":
    width = 1
else:
    raise ValueError(f"no such net: {args.net}")
"""
        },
        "python train.py --net smal",
        {"refused": ["the program refuses --net smal: ValueError: no such net: smal"]},
    ),
    "a key that a dataclass does not take is refused": (
        {
            "config.yaml": "learning_rte: 0.1\n",
            "train.py": """import yaml
from dataclasses import dataclass
@dataclass
class Settings:
    learning_rate: float = 0.2
settings = Settings(**yaml.safe_load(open("config.yaml")))
""",
        },
        "python train.py",
        {
            "refused": [
                (
                    "the program refuses learning_rte 0.1: TypeError: Settings.__init__() got an unexpected keyword argument"
                    " 'learning_rte'"
                )
            ]
        },
    ),
    "a flag that a base class of another version of the library may have is not refused": (
        {
            "train.py": """from dataclasses import dataclass
from transformers import GlueDataTrainingArguments, HfArgumentParser
@dataclass
class Arguments(GlueDataTrainingArguments):
    prompt: str = ""
HfArgumentParser(Arguments).parse_args_into_dataclasses()
"""
        },
        "python train.py --task_name mrpc --prompt a",
        {"refused": []},
    ),
    "a name that a module may register which is not known is not refused": (
        {
            "train.py": """import argparse
import importlib
KINDS = {}
for name in open("plugins.txt"):
    importlib.import_module(name)
parser = argparse.ArgumentParser()
parser.add_argument("--kind", choices=KINDS.keys())
args = parser.parse_args()
KINDS[args.kind]()
"""
        },
        "python train.py --kind big",
        {"refused": []},
    ),
    "the rank that a launcher adds is no missing flag": (
        {
            "train.py": """import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--local-rank", type=int, required=True)
args = parser.parse_args()
"""
        },
        "python -m torch.distributed.launch --nproc_per_node 2 train.py",
        {"refused": []},
    ),
    "a loop over several optimizers is no loop of the training": (
        {
            "train.py": HEAD
            + """optimizers = {"a": optimizer, "b": torch.optim.Adam(model.parameters(), lr=0.2)}
batches = iter(DataLoader(data, batch_size=4))
for step in range(0, 700):
    model(next(batches)[0]).mean().backward()
    for each in optimizers.values():
        each.step()
        each.zero_grad()
"""
        },
        "python train.py",
        {"train.max_steps": 700, "train.epochs": None},
    ),
    "a model that is trained every second time does not accumulate": (
        {
            "train.py": HEAD
            + """loader = DataLoader(data, batch_size=4)
actor = torch.optim.Adam(torch.nn.Linear(4, 1).parameters(), lr=0.1)
step = 0
for epoch in range(3):
    for (x,) in loader:
        step += 1
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
        if step % 2 == 0:
            loss = -model(x).mean()
            actor.zero_grad()
            loss.backward()
            actor.step()
"""
        },
        "python train.py",
        {"train.accumulation": 1},
    ),
    "batches that hold batches are not the batch, and the program may end itself": (
        {
            "train.py": HEAD
            + """def cut(samples):
    return [samples[0:4], samples[4:8]]
loader = DataLoader(data, batch_size=4 * 2, collate_fn=cut)
step = 1
while True:
    for batches in loader:
        for x in batches:
            model(x).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            if step == 900:
                quit()
            step += 1
"""
        },
        "python train.py",
        {"train.batch_size": None, "train.max_steps": 900},
    ),
    "a dictionary that makes what it lacks is not empty": (
        {
            "train.py": HEAD
            + """from collections import defaultdict
users = defaultdict(list)
for line in open(sys.argv[1]):
    user, item = line.split()
    users[user].append(item)
loader = DataLoader(data, batch_size=4)
for epoch in range(12 // len(users)):
    for (x,) in loader:
"""
            + STEP
        },
        "python train.py data.txt",
        {"train.epochs": None, "train.batch_size": 4, "train.accumulation": 1},
    ),
    "settings pass through properties of a base class and a dictionary of many flags": (
        {
            "train.py": HEAD
            + """import argparse
class Base:
    def __init__(self):
        self.epochs = 1
        self._batch = 2
    @property
    def batch(self):
        return self._batch
class Config(Base):
    def __init__(self, **given):
        super().__init__()
        for name in super().__dict__:
            if name in given:
                self.__dict__[name] = given[name]
    @property
    def batch(self):
        self._batch = 6
        return super().batch
parser = argparse.ArgumentParser()
for name in "abcdefghijklmn":
    parser.add_argument(f"--{name}", type=int)
parser.add_argument("--epochs", type=int)
args = parser.parse_args()
config = Config(**{name: value for name, value in args.__dict__.items() if name not in ["a"] and value is not None})
loader = DataLoader(data, batch_size=config.batch)
for epoch in range(config.epochs):
    for (x,) in loader:
"""
            + STEP
        },
        "python train.py --epochs 9",
        {"train.epochs": 9, "train.batch_size": 6},
    ),
    "a key that a config lacks": (
        {
            "train.py": HEAD
            + "import yaml\nconfig = yaml.safe_load(open('run.yaml'))\nprint(config['optimizer']['grad_acc_step'])\n",
            "run.yaml": "optimizer:\n  grad_acc_steps: 2\n  lr: 0.1\n",
        },
        "python train.py",
        {"refused": ["the program reads the key grad_acc_step, which run.yaml does not have: did you mean grad_acc_steps?"]},
    ),
    "the flags of an older Lightning": (
        {
            "train.py": "import argparse\nimport pytorch_lightning as pl\nparser = argparse.ArgumentParser()\n"
            "parser.add_argument('--batch_size', type=int)\nparser = pl.Trainer.add_argparse_args(parser)\nargs = parser.parse_args()\n"
        },
        "python train.py --gpus 2 --check_val_every_n_epochs 2",
        {"refused": ["the program has no option --check_val_every_n_epochs: did you mean --check_val_every_n_epoch?"]},
    ),
    "a whole number of an older Lightning": (
        {
            "train.py": "import argparse\nimport pytorch_lightning as pl\nparser = argparse.ArgumentParser()\n"
            "parser = pl.Trainer.add_argparse_args(parser)\nargs = parser.parse_args()\n"
        },
        "python train.py --tpu_cores 8 --limit_val_batches 0.5 --max_epochs 3O",
        {"refused": ["the program's parser says: argument --max_epochs: invalid int value: '3O'"]},
    ),
    "the package of the project, where its examples have their own requirements": (
        {
            "setup.py": "",
            "own/__init__.py": "def size():\n    return 12\n",
            "examples/requirements.txt": "",
            "examples/train.py": HEAD
            + "import own\nloader = DataLoader(data, batch_size=own.size())\nfor epoch in range(2):\n    for (x,) in loader:\n"
            + STEP,
        },
        "python examples/train.py",
        {"train.batch_size": 12, "train.epochs": 2},
    ),
    "a config of yacs in Python": (
        {
            "train.py": HEAD
            + """from yacs.config import CfgNode
config = CfgNode({"lr": 0.1, "size": 4})
config.merge_from_file("own.py")
loader = DataLoader(data, batch_size=config.size)
for epoch in range(2):
    for (x,) in loader:
"""
            + STEP,
            "own.py": "from yacs.config import CfgNode\ncfg = CfgNode()\ncfg.size = 32\n",
        },
        "python train.py",
        {"train.batch_size": 32},
    ),
    "a script that a launcher starts on each rank": (
        {
            "run.sh": "srun --ntasks=8 bash inner.sh --batch_size 4\n",
            "inner.sh": 'python train.py "$@"\n',
            "train.py": HEAD
            + "parser = argparse.ArgumentParser()\nparser.add_argument('--batch_size', type=int)\nargs = parser.parse_args()\n"
            "loader = DataLoader(data, batch_size=args.batch_size)\nfor epoch in range(2):\n    for (x,) in loader:\n"
            + STEP,
        },
        "bash run.sh",
        {"launch.script": "train.py", "launch.processes": 8, "train.batch_size": 4},
    ),
    "a copy of a program": (
        {
            "run.sh": "out=exp/$1\nmkdir -p $out\ncp tool/train.py tool/train.sh $out\npython $out/train.py\n",
            "tool/train.py": HEAD
            + "loader = DataLoader(data, batch_size=16)\nfor epoch in range(2):\n    for (x,) in loader:\n"
            + STEP,
        },
        "bash run.sh first",
        {"launch.script": "tool/train.py", "train.batch_size": 16},
    ),
    "a copy of another program": (
        {"run.sh": "cp tool/test.py exp\npython exp/train.py\n", "tool/train.py": HEAD},
        "bash run.sh",
        {"launch.script": "exp/train.py", "train.batch_size": None},
    ),
    "variables behind a program that sets itself up": (
        {
            "run.sh": 'EPOCHS=7\neval "$(conda shell.bash hook)"\nconda activate own\npython train.py --epochs $EPOCHS --size $1\n',
            "train.py": HEAD + "parser = argparse.ArgumentParser()\nparser.add_argument('--epochs', type=int)\n"
            "parser.add_argument('--size', type=int)\nargs = parser.parse_args()\n"
            "loader = DataLoader(data, batch_size=args.size)\nfor epoch in range(args.epochs):\n    for (x,) in loader:\n"
            + STEP,
        },
        "bash run.sh 16",
        {"train.batch_size": 16, "train.epochs": 7},
    ),
    "variables behind a program that may set any": (
        {
            "run.sh": 'SIZE=7\neval "$(./settings)"\npython train.py --size $SIZE\n',
            "train.py": HEAD
            + "parser = argparse.ArgumentParser()\nparser.add_argument('--size', type=int)\nargs = parser.parse_args()\n"
            "loader = DataLoader(data, batch_size=args.size)\nfor epoch in range(2):\n    for (x,) in loader:\n" + STEP,
        },
        "bash run.sh",
        {"train.batch_size": None},
    ),
    "a period in samples": (
        {
            "train.py": HEAD
            + """loader = DataLoader(data, batch_size=32)
seen = drawn = 0
for epoch in range(2):
    for (x,) in loader:
"""
            + STEP
            + """        seen += 32
        drawn += len(x)
        if seen % 320 == 0:
            torch.save(model.state_dict(), "model.pt")
        if drawn % 500 == 0:
            print(drawn)
"""
        },
        "python train.py",
        {"save.period": 10, "log.period": None},
    ),
    "a number that a function lowers for itself": (
        {
            "train.py": HEAD
            + """loader = DataLoader(data, batch_size=32)
def rate(step):
    if step > 10:
        step -= 10
    return 0.1 / step
for epoch in range(2):
    for step, (x,) in enumerate(loader, start=epoch * len(loader)):
        rate(step)
"""
            + STEP
            + "        if step % 50 == 0:\n            print(step)\n"
        },
        "python train.py",
        {"log.period": 50},
    ),
    "an evaluation without a loader": (
        {
            "train.py": HEAD
            + """loader = DataLoader(data, batch_size=32)
held = list(torch.randn(8, 4) for name in os.listdir("held"))
for epoch in range(2):
    for step, (x,) in enumerate(loader):
"""
            + STEP
            + """        if step % 40 == 0:
            model.eval()
            for part in held:
                with torch.no_grad():
                    print(model(part))
"""
        },
        "python train.py",
        {"eval.period": 40, "eval.strategy": None},
    ),
    "no evaluation, where a round goes over a list without gradients": (
        {
            "train.py": HEAD
            + """loader = DataLoader(data, batch_size=32)
for epoch in range(2):
    for step, (x,) in enumerate(loader):
        with torch.no_grad():
            for crop in [0, 1]:
                model(x)
"""
            + STEP
        },
        "python train.py",
        {"eval.strategy": "no", "save.strategy": "no"},
    ),
    "rounds of a generator over a range": (
        {
            "train.py": HEAD
            + """loader = DataLoader(data, batch_size=32)
held = DataLoader(data, batch_size=32)
def counted(items, every):
    for number, item in enumerate(items):
        yield item
        if number % every == 0:
            print(number)
for epoch in range(6):
    batches = iter(loader)
    for _ in counted(range(len(loader)), 20):
        x = next(batches)[0]
"""
            + STEP
            + """    torch.save(model.state_dict(), "model.pt")
    with torch.no_grad():
        for (x,) in held:
            model(x)
"""
        },
        "python train.py",
        {"train.epochs": 6, "save.period_epochs": 1, "eval.period_epochs": 1, "log.period": 20},
    ),
    "what goes to a tracker in each round": (
        {
            "train.py": HEAD
            + "import wandb\nloader = DataLoader(data, batch_size=32)\nfor epoch in range(2):\n    for (x,) in loader:\n"
            + STEP
            + "        wandb.log({'epoch': epoch})\n"
        },
        "python train.py",
        {"log.period": 1},
    ),
    "what goes to a tracker beside the lines that are printed": (
        {
            "train.py": HEAD
            + "import wandb\nloader = DataLoader(data, batch_size=32)\nfor epoch in range(2):\n    for step, (x,) in enumerate(loader):\n"
            + STEP
            + "        wandb.log({'epoch': epoch})\n        if step % 30 == 0:\n            print(step)\n"
        },
        "python train.py",
        {"log.period": 30},
    ),
    "the best model is saved beside the period": (
        {
            "train.py": HEAD
            + """parser = argparse.ArgumentParser()
parser.add_argument("--save_interval", type=int, default=60)
args = parser.parse_args()
loader = DataLoader(data, batch_size=32)
best = 9.0
for epoch in range(2):
    for step, (x,) in enumerate(loader):
"""
            + STEP
            + """        if step % 20 == 0:
            loss = model(x).mean().item()
            if loss < best:
                best = loss
                torch.save(model.state_dict(), "best.pt")
        if step % args.save_interval == 0:
            torch.save(model.state_dict(), "model.pt")
"""
        },
        "python train.py",
        {"save.period": 60},
    ),
    "an optimizer of the program's own": (
        {
            "train.py": HEAD
            + """class Slow(torch.optim.Optimizer):
    def __init__(self, parameters, lr):
        super().__init__(parameters, {"lr": lr})
    def step(self, closure=None):
        pass
optimizer = Slow(model.parameters(), lr=0.3)
loader = DataLoader(data, batch_size=32)
for epoch in range(4):
    for (x,) in loader:
"""
            + STEP
        },
        "python train.py",
        {"train.accumulation": 1, "train.epochs": 4, "train.learning_rate": 0.3},
    ),
    "a config in Python that the program copies and imports": (
        {
            "own.py": "batch_size = 24\nlr = 0.2\n" + "".join(f"other_{number} = {number}\n" for number in range(100)),
            "train.py": HEAD
            + """import importlib
import shutil
import tempfile
def settings_of(path):
    with tempfile.TemporaryDirectory() as folder:
        copy = tempfile.NamedTemporaryFile(dir=folder, suffix=".py")
        name = os.path.basename(copy.name)
        shutil.copyfile(path, os.path.join(folder, name))
        sys.path.insert(0, folder)
        module = importlib.import_module(os.path.splitext(name)[0])
        return {key: value for key, value in module.__dict__.items() if not key.startswith("__")}
parser = argparse.ArgumentParser()
parser.add_argument("--config")
args = parser.parse_args()
for key, value in settings_of(args.config).items():
    if key not in vars(args):
        setattr(args, key, value)
loader = DataLoader(data, batch_size=args.batch_size)
for epoch in range(2):
    for (x,) in loader:
"""
            + STEP,
        },
        "python train.py --config own.py",
        {"train.batch_size": 24},
    ),
    "JSON whose comments the program cuts off": (
        {
            "own.json": '{\n  "size": 48, // of a card\n  "epochs": 5\n}\n',
            "train.py": HEAD
            + """import json
parser = argparse.ArgumentParser()
parser.add_argument("-c", "--config")
args = parser.parse_args()
text = ""
with open(args.config) as file:
    for line in file:
        text += line.split("//")[0] + "\\n"
config = json.loads(text)
loader = DataLoader(data, batch_size=config["size"])
for epoch in range(config["epochs"]):
    for (x,) in loader:
"""
            + STEP,
        },
        "python train.py -c own.json",
        {"train.batch_size": 48, "train.epochs": 5},
    ),
    "the local rank that a launcher gives as a flag": (
        {
            "train.py": HEAD
            + """parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=-1)
args = parser.parse_args()
loader = DataLoader(data, batch_size=4 if args.local_rank >= 0 else 32)
for epoch in range(2):
    for (x,) in loader:
"""
            + STEP
        },
        "python -m torch.distributed.launch --nproc_per_node=4 train.py",
        {"train.batch_size": 4, "launch.processes": 4},
    ),
    "what a trainer of Lightning never does": (
        {
            "train.py": """import argparse
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

class Model(pl.LightningModule):
    def __init__(self, args):
        super().__init__()
        self.args = args
        self.layer = torch.nn.Linear(4, 1)

    def configure_optimizers(self):
        if self.trainer.strategy.offloads:
            return torch.optim.Adam(self.parameters(), lr=self.args.lr)
        return torch.optim.SGD(self.parameters(), lr=self.args.lr)

    def training_step(self, batch, number):
        return self.layer(batch[0]).mean()

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
args = parser.parse_args()
trainer = pl.Trainer(max_epochs=-1, check_val_every_n_epoch=int(1e20), logger=False)
trainer.fit(Model(args), DataLoader(TensorDataset(torch.randn(99, 4)), batch_size=8))
"""
        },
        "python train.py --lr 0.2",
        {"eval.strategy": "no", "eval.period_epochs": None, "train.epochs": None, "train.learning_rate": 0.2},
    ),
    "parts of a batch that the ranks may share": (
        {
            "train.py": HEAD
            + """parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int)
args = parser.parse_args()
def batches():
    rows = []
    for row in torch.load("rows.pt"):
        rows.append(row)
        if len(rows) == args.batch_size:
            yield torch.stack(rows)
            rows = []
for batch in batches():
    for part in range(2):
        size = len(batch) // 2 // torch.distributed.get_world_size()
        x = batch[part * size : part * size + size]
        model(x).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
        },
        "torchrun --nproc_per_node=4 train.py --batch_size 64",
        {"train.batch_size": None, "train.accumulation": 2},
    ),
    "an agent of Stable-Baselines3": (
        {
            "agent.yml": "PPO:\n  learning_rate: 0.002\n  batch_size: 128\n",
            "train.py": """import argparse
import yaml
from stable_baselines3 import PPO
parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=float)
parser.add_argument("--save-freq", type=int, default=-1)
args = parser.parse_args()
with open("agent.yml") as file:
    settings = yaml.safe_load(file)["PPO"]
settings["learning_rate"] = (lambda start: lambda left: left * start)(settings["learning_rate"])
PPO("MlpPolicy", "CartPole-v1", tensorboard_log=None, **settings).learn(int(args.steps))
""",
        },
        "python train.py --steps 1e5",
        {
            "train.batch_size": 128,
            "train.learning_rate": 0.002,
            "train.max_steps": 100000,
            "tracker.kind": "none",
            "save.period": None,
        },
    ),
    "one of several sections of a config": (
        {
            "own.yml": "small:\n  size: 8\n  epochs: 3\nlarge:\n  size: 16\n  epochs: 3\n",
            "train.py": HEAD
            + """import yaml
with open("own.yml") as file:
    settings = yaml.safe_load(file)[os.environ["SIZE"]]
def train(size, epochs, more=None):
    loader = DataLoader(data, batch_size=size)
    for epoch in range(epochs):
        for (x,) in loader:
            model(x).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
train(**settings)
""",
        },
        "python train.py",
        {"train.batch_size": None, "train.epochs": 3, "refused": []},
    ),
    "the names of a file that is run in a dictionary": (
        {
            "own.py": "sizes = {'a': 12}\n",
            "train.py": HEAD
            + """names = {}
exec(open("own.py").read(), names)
loader = DataLoader(data, batch_size=names["sizes"]["a"])
print(names["others"])
for epoch in range(2):
    for (x,) in loader:
"""
            + STEP,
        },
        "python train.py",
        {"train.batch_size": 12, "refused": []},
    ),
    "the only one of several config files that is there": (
        {
            "conf/own.yml": "size: 40\n",
            "train.py": HEAD
            + """import yaml
folder = "package/conf" if os.path.isdir("package/conf") else "conf"
with open(folder + "/own.yml") as file:
    settings = yaml.safe_load(file)
loader = DataLoader(data, batch_size=settings["size"])
for epoch in range(2):
    for (x,) in loader:
"""
            + STEP,
        },
        "python train.py",
        {"train.batch_size": 40},
    ),
    "a batch that is drawn now and then to sample from": (
        {
            "train.py": HEAD
            + """loader = DataLoader(data, batch_size=16)
held = DataLoader(data, batch_size=5)
def sample_images(number):
    print(model(next(iter(held))[0]), number)
for epoch in range(2):
    for step, (x,) in enumerate(loader):
"""
            + STEP
            + "        if step % 50 == 0:\n            sample_images(step)\n"
        },
        "python train.py",
        {"train.batch_size": 16, "sample.period": 50, "eval.period": None},
    ),
    "no evaluation, where a round averages weights without gradients": (
        {
            "train.py": HEAD
            + """average = torch.nn.Linear(4, 1)
loader = DataLoader(data, batch_size=32)
for epoch in range(2):
    for (x,) in loader:
"""
            + STEP
            + """        with torch.no_grad():
            for kept, new in zip(average.parameters(), model.parameters()):
                kept.data.mul_(0.99).add_(new.data)
"""
        },
        "python train.py",
        {"eval.strategy": "no"},
    ),
    "rounds within rounds, and a period of epochs without a loader": (
        {
            "train.py": HEAD
            + """for epoch in range(7):
    for part in range(3):
        for step in range(50):
            model(data.tensors[0]).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    if epoch % 2 == 0:
        torch.save(model.state_dict(), "model.pt")
"""
        },
        "python train.py",
        {"train.max_steps": None, "save.period_epochs": 2},
    ),
    "a class of settings that looks its attributes up in another": (
        {
            "train.py": HEAD
            + """class Settings(object):
    def __init__(self, content):
        super(Settings, self).__setattr__("_content", content)
    def __getattr__(self, name):
        return self._content[name]
settings = Settings({"size": 12, "epochs": 3})
loader = DataLoader(data, batch_size=settings.size)
for epoch in range(settings.epochs):
    for (x,) in loader:
"""
            + STEP
        },
        "python train.py",
        {"train.batch_size": 12, "train.epochs": 3},
    ),
    "a period that the setting of a trainer says, whatever the setting is called": (
        {
            "own.yml": "VAL_EVERY_STEPS: 200\n",
            "train.py": """import pytorch_lightning as pl
import torch
import yaml
from torch.utils.data import DataLoader, TensorDataset

class Model(pl.LightningModule):
    def training_step(self, batch, number):
        return batch[0].mean()

    def validation_step(self, batch, number):
        return batch[0].mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

settings = yaml.safe_load(open("own.yml"))
loader = DataLoader(TensorDataset(torch.randn(99, 4)), batch_size=8)
trainer = pl.Trainer(max_epochs=900, check_val_every_n_epoch=settings["VAL_EVERY_STEPS"])
trainer.fit(Model(), loader, loader)
""",
        },
        "python train.py",
        {"eval.period_epochs": 200, "eval.period": None},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_number_is_what_the_program_uses(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, command, expected = CASES[name]
    known = facts_of(tmp_path, monkeypatch, files, command)
    assert {key: known.get(key) for key in expected} == expected
