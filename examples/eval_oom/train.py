"""A small denoiser that trains well and dies when it samples: the sampling batch is larger, and keeps what it makes.

    python train.py --train_batch_size 64 --sample_batch_size 4096 --sample_period 50 --checkpointing_period 200

`train.log` beside this file is what it printed on an H200 with 16 % of the card's memory allowed.
"""

import argparse
import logging
import pathlib

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--train_batch_size", type=int, default=64)
parser.add_argument("--sample_batch_size", type=int, default=4096)
parser.add_argument("--num_sample_batches", type=int, default=2)
parser.add_argument("--sample_period", type=int, default=50)
parser.add_argument("--checkpointing_period", type=int, default=200)
parser.add_argument("--max_train_steps", type=int, default=2000)
parser.add_argument("--learning_rate", type=float, default=1e-4)
parser.add_argument("--output_dir", default="out")
parser.add_argument("--memory_share", type=float, default=0.16)
options = parser.parse_args()

logging.basicConfig(format="%(asctime)s - %(levelname)s - %(name)s - %(message)s", level=logging.INFO)
logger = logging.getLogger("train")


class Denoiser(nn.Module):
    """Convolutions at full resolution, as the outer layers of a U-Net are."""

    def __init__(self, width: int = 64, depth: int = 6) -> None:
        super().__init__()
        layers = [nn.Conv2d(3, width, 3, padding=1), nn.GELU()]
        for _ in range(depth):
            layers += [nn.Conv2d(width, width, 3, padding=1), nn.GroupNorm(8, width), nn.GELU()]
        self.body = nn.Sequential(*layers, nn.Conv2d(width, 3, 3, padding=1))

    def forward(self, noisy: torch.Tensor) -> torch.Tensor:
        return self.body(noisy)


@torch.no_grad()
def log_sample(model: nn.Module, device: torch.device, history: list) -> None:
    """Denoise pure noise, and keep every sample to compare the periods with each other."""
    model.eval()
    for index in range(options.num_sample_batches):
        images = torch.randn(options.sample_batch_size, 3, 64, 64, device=device)
        for _ in range(4):
            images = images - 0.25 * model(images)
        history.append(images)
        logger.info("sampled batch %d of %d", index + 1, options.num_sample_batches)
    model.train()


def save_checkpoint(model: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    folder = pathlib.Path(options.output_dir) / f"checkpoint-{step}"
    folder.mkdir(parents=True, exist_ok=True)
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, folder / "state.pt")
    logger.info("Saved state to %s", folder)


def train() -> None:
    device = torch.device("cuda")
    torch.cuda.set_per_process_memory_fraction(options.memory_share)
    model = Denoiser().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.learning_rate)
    history: list = []
    logger.info("***** Running training *****")
    logger.info("  Batch size per device = %d, sampling batch = %d", options.train_batch_size, options.sample_batch_size)
    for step in range(1, options.max_train_steps + 1):
        clean = torch.rand(options.train_batch_size, 3, 64, 64, device=device)
        noise = torch.randn_like(clean)
        loss = nn.functional.mse_loss(model(clean + noise), noise)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 25 == 0:
            logger.info("step=%d loss=%.4f lr=%g", step, loss.item(), options.learning_rate)
        if step % options.checkpointing_period == 0:
            save_checkpoint(model, optimizer, step)
        if step % options.sample_period == 0:
            log_sample(model, device, history)


train()
