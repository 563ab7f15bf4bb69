import warnings; warnings.filterwarnings("ignore")
import torch
from lightning.fabric import Fabric, seed_everything
from torch.utils.data import DataLoader
seed_everything(3)
fabric = Fabric(accelerator="auto", devices=1, precision="bf16-mixed"); fabric.launch()
model = torch.nn.Linear(5, 5); opt = torch.optim.SGD(model.parameters(), lr=0.1)
model, opt = fabric.setup(model, opt)
loader = fabric.setup_dataloaders(DataLoader(torch.randn(40, 5), batch_size=8, num_workers=2, pin_memory=torch.cuda.is_available()))
for epoch in range(3):
    for x in loader:
        loss = (model(x) - x).pow(2).mean(); fabric.backward(loss); fabric.clip_gradients(model, opt, max_norm=1.0); opt.step(); opt.zero_grad()
    fabric.print(epoch, loss.item().hex())
fabric.save("fabric.ckpt", {"model": model, "opt": opt})
print(sorted(fabric.load("fabric.ckpt")))
