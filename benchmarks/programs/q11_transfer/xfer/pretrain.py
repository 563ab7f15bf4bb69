import torch
from xfer.backbone import SmallNet, sample

torch.manual_seed(0)
x, y = sample(2000, 10, 0)
net = SmallNet(10)
opt = torch.optim.Adam(net.parameters(), 1e-3)
for i, rows in enumerate(torch.randperm(2000).split(50)):
    loss = torch.nn.functional.cross_entropy(net(x[rows]), y[rows])
    opt.zero_grad(); loss.backward(); opt.step()
    if i % 10 == 0:
        print(f"pretrain {i} loss {loss.item():.3f}")
torch.save(net.state_dict(), "base.pt")
