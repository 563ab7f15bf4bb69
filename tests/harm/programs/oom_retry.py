"""Finds a batch size by trying: out of memory is caught, and training continues with half."""
import gc
import torch
from torch.utils.data import DataLoader, TensorDataset

cuda = torch.cuda.is_available()
device = torch.device("cuda" if cuda else "cpu")
if cuda:
    torch.cuda.set_per_process_memory_fraction(0.02)

def attempt(batch_size, epochs):
    torch.manual_seed(0)
    model = torch.nn.Linear(64, 64).to(device)
    optimizer = torch.optim.Adam(model.parameters())
    data = TensorDataset(torch.randn(64, 64))
    last = None
    for _ in range(epochs):
        for i, (x,) in enumerate(DataLoader(data, batch_size=16, num_workers=2, pin_memory=cuda)):
            if i > 0:  # both workers have sent something: none ends while it looks for a temporary folder and leaves its probe there
                huge = torch.empty(batch_size * (2 ** 40 if not cuda else 2 ** 28), dtype=torch.uint8, device=device)
                del huge
            loss = model(x.to(device)).square().mean()
            loss.backward(); optimizer.step(); optimizer.zero_grad()
            last = loss.item()
    return last

batch_size = 4096 if not cuda else 256
while True:
    try:
        print("loss", attempt(batch_size, 2).hex(), "with", batch_size)
        break
    except (torch.OutOfMemoryError, RuntimeError) as error:
        print(type(error).__name__, "at", batch_size)
        gc.collect()
        if cuda:
            torch.cuda.empty_cache()
        batch_size = batch_size // 2 if cuda else 0
