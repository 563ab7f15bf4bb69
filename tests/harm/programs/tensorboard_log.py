import shutil, os
import torch
from torch.utils.tensorboard import SummaryWriter
torch.manual_seed(0)
w = SummaryWriter("tb"); m = torch.nn.Linear(3, 1); o = torch.optim.Adam(m.parameters())
for i in range(10):
    l = m(torch.randn(4, 3)).pow(2).mean(); o.zero_grad(); l.backward(); o.step(); w.add_scalar("loss", l, i); w.add_histogram("weight", m.weight, i)
w.add_graph(m, torch.ones(1, 3)); w.add_hparams({"lr": 1e-3}, {"loss": l.item()}); w.close()
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
e = EventAccumulator("tb").Reload(); print(e.Tags()["scalars"], [s.value.hex() for s in e.Scalars("loss")][-2:], e.Tags()["graph"])
shutil.rmtree("tb")
