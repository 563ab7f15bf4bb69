import numpy as np
import torch

from waves.options import Options
from waves.picker import Picker, smooth_target

torch.set_num_threads(1)


def main(o):
    torch.manual_seed(o.seed)
    table = torch.from_numpy(np.load(o.traces))
    traces, onset = table[:, :-1].to(o.dtype), table[:, -1].long()
    held = slice(1000, None)
    model = Picker().to(o.dtype)
    optimizer = torch.optim.AdamW(model.parameters(), o.lr, o.betas, o.eps, o.decay)
    warm = torch.optim.lr_scheduler.LinearLR(optimizer, 0.05, 1.0, o.warmup)
    for step in range(o.steps):
        rows = torch.randint(0, 1000, (o.batch,))
        scores = model(traces[rows]).float()
        target = smooth_target(onset[rows], scores.shape[-1], o.spread)
        loss = -(target * scores.log_softmax(-1)).sum(-1).mean()
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        warm.step()
        if step % 20 == 0:
            print(f"step={step} loss={loss.item():.4f} norm={norm.item():.3f}", flush=True)
    with torch.no_grad():
        scores = model(traces[held]).float()
    error = (scores.argmax(-1) - onset[held]).abs().float()
    expected = (scores.softmax(-1) * torch.arange(scores.shape[-1])).sum(-1)
    print(f"median error {error.median():.1f} samples, within 5: {(error <= 5).float().mean():.3f}")
    print(f"mean pick {int(expected.mean())}")
    torch.save(model.state_dict(), "picker.pt")


if __name__ == "__main__":
    main(Options.from_arguments())
