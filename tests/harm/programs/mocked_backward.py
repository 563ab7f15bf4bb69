import copy, inspect, pickle, types
from unittest import mock
import torch
torch.manual_seed(0)
def loss():
    m = torch.nn.Linear(3, 1)
    return m, m(torch.ones(2, 3)).mean()
plain = vars(torch.Tensor)["backward"]
print(isinstance(plain, types.FunctionType), inspect.isfunction(plain), inspect.isroutine(plain), callable(plain), inspect.signature(plain), plain.__name__, plain.__qualname__, plain.__module__)
print(inspect.getsource(plain)[:40], plain.__code__.co_varnames, plain.__defaults__, plain.__kwdefaults__, sorted(plain.__annotations__), plain.__doc__ == torch.Tensor.backward.__doc__)
print(pickle.loads(pickle.dumps(torch.Tensor.backward)) is torch.Tensor.backward)
print(copy.copy(plain).__name__, copy.deepcopy(plain).__name__, pickle.loads(pickle.dumps(plain)).__name__)
print(repr(plain).split(" at ")[0], hash(plain) == hash(plain), plain == plain)
for options in ({"autospec": True}, {"wraps": torch.Tensor.backward}, {"new": lambda self, *a, **k: None}):
    m, l = loss()
    with mock.patch.object(torch.Tensor, "backward", **options) as stand_in:
        try:
            l.backward()
        except Exception as error:
            print(type(error).__name__, error)
        print(getattr(stand_in, "call_count", "-"), m.weight.grad)
    l.backward()
    print([x.hex() for x in m.weight.grad.flatten().tolist()])
with mock.patch.object(torch.Tensor, "backward", autospec=True, side_effect=plain) as stand_in:
    m, l = loss(); l.backward(retain_graph=True)
    print([x.hex() for x in m.weight.grad.flatten().tolist()], stand_in.call_args.kwargs)
    try: l.backward(nonsense=1)
    except TypeError as error: print(error)
plain(loss()[1])
with mock.patch("torch.Tensor.backward", autospec=True): pass
print(vars(torch.Tensor)["backward"] is plain)
class Mine(torch.Tensor):
    def backward(self, *a, **k):
        print("mine"); return super().backward(*a, **k)
x = torch.ones(3, requires_grad=True)
(x * 2).sum().as_subclass(Mine).backward()
print(x.grad)
