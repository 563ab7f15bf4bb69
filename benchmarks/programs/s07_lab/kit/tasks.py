import os
import warnings

import torch
import torch.nn.functional as F
from torch import nn

from kit import heads  # noqa: F401
from kit.registry import HEADS, TASKS, into
from kit.schedules import Schedule, factor

USED = {"task", "data", "target", "head", "init", "out", "optimizer", "phases"}


@into(TASKS)
def synthesise(cfg):
    g = torch.Generator().manual_seed(1)
    t = torch.linspace(0, 6.28, 64)
    kind = torch.randint(3, (cfg["count"],), generator=g)
    phase = torch.rand(cfg["count"], cfg["channels"], 1, generator=g) * 6.28
    x = torch.sin((kind + 1)[:, None, None] * t + phase) + 0.3 * torch.randn(cfg["count"], cfg["channels"], 64, generator=g)
    os.makedirs(os.path.dirname(cfg["out"]), exist_ok=True)
    torch.save({"x": x, "kind": kind}, cfg["out"])


def build(cfg, channels, width=32):
    trunk = nn.Sequential(nn.Conv1d(channels, width, 4, stride=4), nn.GELU(), nn.Conv1d(width, width, 3, padding=1), nn.GELU())
    model = nn.ModuleDict({"trunk": trunk, "head": HEADS[cfg["head"]](width, channels)})
    if "init" in cfg:
        state = {k: v for k, v in torch.load(cfg["init"]).items() if k.startswith("trunk.")}
        result = model.load_state_dict(state, strict=False)
        warnings.warn(f"{cfg['init']}: missing keys {result.missing_keys}, unexpected keys {result.unexpected_keys}", stacklevel=2)
    return model


def loss_of(model, cfg, x, kind):
    if cfg["target"] == "mask":
        keep = (torch.rand(len(x), 1, 16) > 0.4).float().repeat_interleave(4, 2)
        return F.mse_loss(model["head"](model["trunk"](x * keep)), x)
    return F.cross_entropy(model["head"](model["trunk"](x)), kind)


@into(TASKS)
def fit(cfg):
    for key in sorted(set(cfg) - USED):
        warnings.warn(f"key {key!r} is unknown and ignored", stacklevel=2)
    data = torch.load(cfg["data"])
    model = build(cfg, data["x"].shape[1])
    options = dict(cfg["optimizer"])
    optimizer = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}[options.pop("kind")](model.parameters(), **options)
    top = options["lr"]
    for number, phase in enumerate(cfg["phases"]):
        schedule = Schedule(phase["schedule"])
        for epoch in range(phase["epochs"]):
            for group in optimizer.param_groups:
                group["lr"] = top * factor(schedule, (epoch + 0.5) / phase["epochs"])
            for part in torch.randperm(len(data["x"])).split(30):
                loss = loss_of(model, cfg, data["x"][part], data["kind"][part])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            print(f"{cfg['head']} phase {number} ({schedule.value}) epoch {epoch} loss {loss.item():.4f}", flush=True)
    torch.save(model.state_dict(), cfg["out"])
