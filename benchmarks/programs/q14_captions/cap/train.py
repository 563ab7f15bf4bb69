import sys
import warnings
import torch
from cap.model import Captioner
from cap.schedule import WarmupCosine
from cap.settings import read


def pairs(c, g):
    topic = torch.randint(0, 8, (c.batch,), generator=g)
    feats = torch.eye(8)[topic].repeat(1, 4) + 0.2 * torch.randn(c.batch, 32, generator=g)
    words = (topic[:, None] * 3 + torch.arange(9)[None] * (1 + topic[:, None] % 3)) % c.vocab
    return feats, words


def main(path):
    c = read(path)
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(0)
    if c.use_tf32:
        warnings.warn("TF32 was asked for, but this machine has no GPU; ignored")
    model = Captioner(c.vocab, c.dim)
    optimizer = torch.optim.NAdam(model.parameters(), lr=c.schedule.lr)
    schedule = WarmupCosine(optimizer, c.schedule, c.max_steps)
    for step in range(1, c.max_steps + 1):
        lr = schedule.step()
        feats, words = pairs(c, g)
        logits = model(feats, words)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), words[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % c.log_every == 0:
            print(f"{c.name} | {step:>4}/{c.max_steps} | loss {loss.item():.4f} | lr {lr:.2e}")
    torch.save(model.state_dict(), f"{c.name}.pt")


if __name__ == "__main__":
    main(sys.argv[1])
