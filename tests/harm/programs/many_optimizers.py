"""GAN-like training with two optimizers, an average of the weights, LBFGS, a custom optimizer, hooks and accumulation."""
import copy
import torch
from torch.utils.data import DataLoader, RandomSampler, TensorDataset, WeightedRandomSampler

dev = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(7)
torch.use_deterministic_algorithms(True)
G = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.LeakyReLU(0.2), torch.nn.Linear(16, 2)).to(dev)
D = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.LeakyReLU(0.2), torch.nn.Linear(16, 1)).to(dev)
ema = copy.deepcopy(G).requires_grad_(False).eval()
oG = torch.optim.Adam(G.parameters(), 1e-3, betas=(0.5, 0.999)); oD = torch.optim.Adam(D.parameters(), 1e-3, amsgrad=True)
scheds = [torch.optim.lr_scheduler.CosineAnnealingLR(oG, 20), torch.optim.lr_scheduler.ExponentialLR(oD, 0.99)]
bce = torch.nn.BCEWithLogitsLoss()
calls = []
oG.register_step_pre_hook(lambda o, a, k: calls.append("pre")); oG.register_step_post_hook(lambda o, a, k: calls.append("post"))
data = TensorDataset(torch.randn(64, 2) + 3)
sampler = WeightedRandomSampler(torch.rand(64), 48, generator=torch.Generator().manual_seed(1))
for epoch in range(3):
    for (real,) in DataLoader(data, batch_size=16, sampler=sampler, num_workers=2):
        real = real.to(dev); z = torch.randn(16, 4).to(dev)
        fake = G(z)
        oD.zero_grad(); lD = bce(D(real), torch.ones(16, 1, device=dev)) + bce(D(fake.detach()), torch.zeros(16, 1, device=dev)); lD.backward(); oD.step()
        oG.zero_grad(); lG = bce(D(fake), torch.ones(16, 1, device=dev)); lG.backward(); oG.step()
        [s.step() for s in scheds]
        with torch.no_grad():
            for a, b in zip(ema.parameters(), G.parameters()): a.lerp_(b, 0.1)
    with torch.no_grad():
        print(epoch, lD.item().hex(), lG.item().hex(), [v.hex() for v in ema(torch.ones(1, 4, device=dev))[0].tolist()], len(calls), [g["lr"] for g in oG.param_groups])
class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-2): super().__init__(params, {"lr": lr})
    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad(): loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None: p.sub_(p.grad.sign(), alpha=group["lr"])
        return loss
for kind in (Lion, torch.optim.LBFGS, torch.optim.Rprop, torch.optim.NAdam, torch.optim.ASGD):
    torch.manual_seed(0); w = torch.randn(5, device=dev, requires_grad=True); o = kind([w])
    def closure():
        o.zero_grad(); l = ((w - 1) ** 2).sum(); l.backward(); return l
    for _ in range(4): r = o.step(closure)
    o.add_param_group({"params": [torch.zeros(1, device=dev, requires_grad=True)]}) if kind is not torch.optim.LBFGS else None
    print(kind.__name__, float(r).hex(), w.sum().item().hex(), type(o).step.__name__)
swa = torch.optim.swa_utils.AveragedModel(G); swa.update_parameters(G); print(swa.n_averaged.item())
oG.load_state_dict(oG.state_dict()); print(len(oG.state_dict()["state"]))
