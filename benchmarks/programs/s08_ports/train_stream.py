import argparse

import torch
from accelerate import Accelerator
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from stream.model import SpeedNet


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--clips")
    parser.add_argument("--init")
    parser.add_argument("--steps", type=int)
    args = parser.parse_args()
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(1)
    clips = torch.load(args.clips)
    model = SpeedNet()
    model.load_state_dict(torch.load(args.init))
    loader = DataLoader(TensorDataset(clips["frames"], clips["speed"]), 20, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    step = 0
    while step < args.steps:
        for frames, speed in loader:
            loss = cross_entropy(model(frames), speed)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            step += 1
            if step % 20 == 0:
                mean = accelerator.gather(loss.detach()[None]).mean().item()
                if accelerator.is_main_process:
                    print(f"step {step} loss {mean:.4f}", flush=True)
                    with open("progress.txt", "a") as f:
                        f.write(f"{step} {mean}\n")
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        torch.save(accelerator.unwrap_model(model).state_dict(), "stream.pt")
    accelerator.end_training()


if __name__ == "__main__":
    main()
