import torch


@torch.no_grad()
def hard_tiles(model, store, keep=0.5):
    """Score every tile of the archive with the present model, keep the worst half."""
    model.eval()
    scores = []
    for i in range(len(store)):
        img, lab = store.get(i)
        out = model(torch.from_numpy(img)[None])
        scores.append(torch.nn.functional.cross_entropy(out, torch.from_numpy(lab)[None]).item())
        if i % 60 == 0:
            print(f"[mining] {i}/{len(store)}", flush=True)
    model.train()
    order = sorted(range(len(store)), key=lambda i: -scores[i])
    return sorted(order[: int(keep * len(order))])
