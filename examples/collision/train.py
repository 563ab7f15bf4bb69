"""A small denoiser that trains well until a checkpoint and sampling fall on the same step, and memory runs out.

Each alone fits: a checkpoint is a copy of weights and optimizer until it is written at the end of the step, sampling draws a
large batch. The limit stands for a small machine, so that the example dies anywhere in the same way.
"""

import argparse
import resource

import torch


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--train_batch_size", type=int, default=16)
    parser.add_argument("--sample_batch_size", type=int, default=8192)
    parser.add_argument("--sample_period", type=int, default=40)
    parser.add_argument("--checkpointing_period", type=int, default=60)
    parser.add_argument("--max_train_steps", type=int, default=240)
    parser.add_argument("--learning_rate", type=float, default=1e-3)
    parser.add_argument("--memory_gb", type=float, default=0.22)
    parser.add_argument("--output_dir", default="out")
    return parser.parse_args()


def limit_memory(gigabytes: float) -> None:
    """So much more than is in use now, and no further."""
    with open("/proc/self/status", encoding="ascii") as status:
        used = next(int(line.split()[1]) for line in status if line.startswith("VmData")) << 10
    most = used + int(gigabytes * (1 << 30))
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def copied(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict:
    """What a checkpoint holds, as it is at this step."""
    return {
        "model": {name: value.clone() for name, value in model.state_dict().items()},
        "optimizer": [{name: value.clone() for name, value in one.items()} for one in optimizer.state.values()],
    }


@torch.no_grad()
def sample(model: torch.nn.Module, count: int) -> torch.Tensor:
    """Draw images; all of them at once, as one does with little time to write a loop."""
    return model(torch.randn(count, 2048))


def main() -> None:
    options = arguments()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(2048, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 2048))
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.learning_rate)
    images = torch.utils.data.TensorDataset(torch.randn(2048, 2048).cumsum(1) / 30)
    loader = torch.utils.data.DataLoader(images, batch_size=options.train_batch_size, shuffle=True)
    step = 0
    state = None
    while step < options.max_train_steps:
        for (batch,) in loader:
            loss = (model(batch + torch.randn_like(batch)) - batch).pow(2).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            if step == 1:
                limit_memory(options.memory_gb)
            if step % 20 == 0:
                print(f"step {step}/{options.max_train_steps} loss {loss.item():.4f}")
            if step % options.checkpointing_period == 0:
                print(f"saving checkpoint {options.output_dir}-{step}.pt")
                state = copied(model, optimizer)
            if step % options.sample_period == 0:
                print(f"sampling {options.sample_batch_size} images")
                model.eval()
                mean = sample(model, options.sample_batch_size).mean()
                model.train()
                print(f"sampled, mean {mean:.3f}")
            if state is not None:
                torch.save(state, f"{options.output_dir}-{step}.pt")
                state = None
            if step >= options.max_train_steps:
                break


if __name__ == "__main__":
    main()
