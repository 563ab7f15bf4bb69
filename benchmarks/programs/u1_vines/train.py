import json
import logging
import os

import hydra
import torch
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf
from torch.nn import functional as F

from vines.data import loaders
from vines.net import build

log = logging.getLogger(__name__)


def parts(model, decay):
    """No weight decay for biases and norms."""
    flat = [p for p in model.parameters() if p.requires_grad and p.ndim < 2]
    rest = [p for p in model.parameters() if p.requires_grad and p.ndim >= 2]
    return [{"params": flat, "weight_decay": 0.0}, {"params": rest, "weight_decay": decay}]


@torch.no_grad()
def held_out(model, loader):
    model.eval()
    right, seen, total = 0, 0, 0.0
    for outline, kind in loader:
        scores = model(outline)
        total += F.cross_entropy(scores, kind, reduction="sum").item()
        right += int((scores.argmax(-1) == kind).sum())
        seen += len(kind)
    model.train()
    return {"loss": round(total / seen, 4), "accuracy": round(right / seen, 4)}


@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(cfg: DictConfig):
    torch.manual_seed(cfg.seed)
    torch.set_num_threads(1)
    log.info("\n%s", OmegaConf.to_yaml(cfg))
    train, val = loaders(cfg.data, cfg.seed)
    model = build(cfg.model, cfg.data.kinds)
    log.info("model of %d parameters", sum(p.numel() for p in model.parameters()))
    optimizer = torch.optim.AdamW(parts(model, cfg.optimizer.weight_decay), cfg.optimizer.lr)
    total = cfg.epochs * len(train)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda n: min(1.0, (n + 1) / cfg.optimizer.warmup) * (1 - n / (total + 2))
    )
    scores, step = [], 0
    for epoch in range(cfg.epochs):
        for outline, kind in train:
            schedule.step()
            loss = F.cross_entropy(model(outline), kind)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            step += 1
            if step % cfg.log_every == 0:
                log.info("step %d loss %.4f lr %.2e", step, loss.item(), schedule.get_last_lr()[0])
        scores.append({"epoch": epoch, **held_out(model, val)})
        log.info("held out: %s", scores[-1])
    out = HydraConfig.get().runtime.output_dir
    torch.save({"model": model.state_dict(), "cfg": OmegaConf.to_container(cfg)}, os.path.join(out, "last.pt"))
    with open(os.path.join(out, "scores.json"), "w") as f:
        json.dump(scores, f)


if __name__ == "__main__":
    main()
