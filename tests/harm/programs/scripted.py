"""TorchScript, tracing, fx, functional transforms, checkpointing, vmap; all of them look into functions."""
import torch, torch.fx, torch.utils.checkpoint
from torch.func import functional_call, grad, vmap, jacrev
torch.manual_seed(0)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 3)
    def forward(self, x):
        if self.training:
            x = torch.dropout(x, 0.5, True)
        return torch.utils.checkpoint.checkpoint(self.fc, x, use_reentrant=False) if not torch.jit.is_scripting() else self.fc(x)

class Simple(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 2)
    def forward(self, x):
        return self.fc(x).relu()

s = Simple()
for f in (torch.jit.script, lambda m: torch.jit.trace(m, torch.ones(1, 3)), torch.fx.symbolic_trace):
    try:
        g = f(s)
        print(g(torch.ones(2, 3)).sum().item().hex(), str(g.graph).count("\n"))
    except Exception as error:
        print(type(error).__name__)
n = Net(); o = torch.optim.Adagrad(n.parameters())
for _ in range(3):
    l = n(torch.randn(4, 3)).pow(2).sum(); o.zero_grad(); l.backward(); o.step()
print(l.item().hex())
n.eval()
params = dict(s.named_parameters())
def loss(p, x): return functional_call(s, p, (x,)).sum()
per_sample = vmap(grad(loss), (None, 0))(params, torch.randn(5, 3))
print({k: v.shape for k, v in per_sample.items()}, jacrev(s)(torch.ones(3)).shape)
with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
    s(torch.ones(1, 3)).sum().backward()
with torch.autograd.set_detect_anomaly(True):
    try:
        x = torch.zeros(1, requires_grad=True)
        (torch.sqrt(x) * 0).backward()
    except RuntimeError as e:
        print(e)
print(torch.autograd.gradcheck(lambda t: (t ** 3).sum(), torch.ones(2, dtype=torch.double, requires_grad=True)))
print(torch.autograd.functional.hessian(lambda t: (t ** 3).sum(), torch.ones(2)).tolist())
m = torch.ao.quantization.quantize_dynamic(s, {torch.nn.Linear}) if "fbgemm" in torch.backends.quantized.supported_engines else s
print(type(m.fc).__name__)
