"""torch.utils.swap_tensors refuses tensors that somebody else holds weak references to."""
import torch
from torch.utils.data import DataLoader

torch.__future__.set_swap_module_params_on_conversion(True)
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for x in DataLoader(torch.randn(6, 3), batch_size=2):
    other = torch.zeros_like(x)
    torch.utils.swap_tensors(x, other)
    loss = net(other).sum()
    loss.backward()
    opt.step()
    opt.zero_grad(set_to_none=True)
    torch.utils.swap_tensors(loss, torch.zeros(()))
    print(loss.item(), x.sum().item())
net = net.double()
for p in net.parameters():
    print(p.dtype, p.sum().item().hex())
net.load_state_dict({k: v.float() for k, v in net.state_dict().items()}, assign=False)
print([p.sum().item().hex() for p in net.parameters()])
