import torch
from detector.matcher import match


def criterion(out, targets):
    loss = 0.0
    for o, t in zip(out, targets):
        loss = loss + (o[match(o, t)] - t).abs().sum()
    return loss / len(out)


def train_one_epoch(accelerator, model, loader, optimizer, epoch, max_norm=0.1):
    model.train()
    for i, (img, centres) in enumerate(loader):
        loss = criterion(model(img), centres)
        optimizer.zero_grad()
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        if i % 5 == 0:
            accelerator.print(f"Epoch: [{epoch}]  [{i:3d}/{len(loader)}]  loss_center: {loss.item():.4f}", flush=True)


@torch.no_grad()
def evaluate(accelerator, model, loader):
    model.eval()
    errors = []
    for img, centres in loader:
        out = model(img)
        err = torch.stack([(o[match(o, t)] - t).abs().mean() for o, t in zip(out, centres)])
        errors.append(accelerator.gather_for_metrics(err))
    return torch.cat(errors).mean().item()
