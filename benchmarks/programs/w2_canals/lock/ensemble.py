"""A month ahead, from many starts: the net's canal against the true one."""
import torch

from lock.reaches import REACHES, flow


@torch.no_grad()
def spread(model, levels, gates, rains, starts, horizon):
    gaps = []
    for first in torch.linspace(0, len(levels) - horizon - 1, starts).long().tolist():
        guess = truth = levels[first]
        worst = 0.0
        for hour in range(first, first + horizon):
            truth = flow(truth, gates[hour], rains[hour])
            guess = (guess + model(torch.cat([guess, gates[hour], rains[hour]])[None])[0]).clamp(-5, 5)
            worst = max(worst, (guess - truth).abs().max().item())
        gaps.append(worst)
    return torch.tensor(gaps).quantile(torch.tensor([0.1, 0.5, 0.9])).tolist()


def bars(model, levels):
    """Which reaches the first layer looks at."""
    return model[0].weight[:, :REACHES].abs().mean(0).tolist()
