from __future__ import annotations

import torch
from torch import Tensor, nn, optim
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Stream(IterableDataset):
    """Shards of a stream; each worker reads its own."""

    def __init__(self, shards: int, length: int) -> None:
        self.shards, self.length = shards, length
        self.epoch = 0

    def __iter__(self):
        info = get_worker_info()
        first, stride = (0, 1) if info is None else (info.id, info.num_workers)
        for shard in range(first, self.shards, stride):
            generator = torch.Generator().manual_seed(1000 * self.epoch + shard)
            for _ in range(self.length):
                x = torch.randn(4, generator=generator)
                yield x, x.sum().sin()


def collate(pairs: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    xs, ys = zip(*pairs)
    return torch.stack(xs), torch.stack(ys)


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(3)
    stream = Stream(6, 10)
    net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1)).to(device)
    optimizer = optim.RMSprop(net.parameters(), lr=1e-3)
    for epoch in range(3):
        stream.epoch = epoch
        count = 0
        for x, y in DataLoader(stream, batch_size=5, num_workers=3, collate_fn=collate, prefetch_factor=1):
            loss = nn.functional.smooth_l1_loss(net(x.to(device)).squeeze(1), y.to(device))
            net.zero_grad()
            loss.backward()
            optimizer.step()
            count += len(x)
        print(f"{epoch=} {count=} loss={loss.item().hex()}")


main()
