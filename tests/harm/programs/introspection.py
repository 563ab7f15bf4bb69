"""Tools that look at torch itself: signatures, sources, pickles, copies."""
import copy, inspect, pickle, pydoc, sys
import torch
from torch.utils.data import DataLoader
import torch.utils.data.dataloader as dl

targets = {
    "save": torch.save, "load": torch.load, "backward": torch.Tensor.backward, "autograd": torch.autograd.backward,
    "sgd": torch.optim.SGD.step, "init": torch.optim.Optimizer.__init__, "train": torch.nn.Module.train, "eval": torch.nn.Module.eval,
    "next": dl._BaseDataLoaderIter.__next__, "iter": DataLoader.__iter__, "scale": torch.amp.GradScaler.step, "update": torch.amp.GradScaler.update,
    "call": torch.nn.Module.__call__, "compile": torch.compile, "seed": torch.manual_seed,
}
for name, f in targets.items():
    print(name, f.__module__, f.__qualname__, inspect.signature(f), type(f).__name__, len(inspect.getsource(f).splitlines()), bool(f.__doc__))
    if "--code" in sys.argv:
        print(hasattr(f, "__wrapped__"), inspect.getsourcefile(f).rsplit("/", 1)[-1], f.__code__.co_name, f.__code__.co_firstlineno, f.__code__.co_varnames[:3], f.__defaults__ and len(f.__defaults__))
    try:
        print(pickle.loads(pickle.dumps(f)) is f)
    except Exception as e:
        print(type(e).__name__)
print(len(pydoc.render_doc(torch.save, renderer=pydoc.plaintext)))
m = torch.nn.Linear(2, 1); o = torch.optim.AdamW(m.parameters())
m(torch.ones(1, 2)).sum().backward(); o.step()
c = copy.deepcopy((m, o)); print(c[1].state_dict()["state"][0]["step"], len(pickle.dumps(o)), sorted(vars(o)), sorted(vars(m)))
print(len(o._optimizer_step_post_hooks), len(o._optimizer_step_pre_hooks), len(m._forward_hooks), len(torch.nn.modules.module._global_forward_hooks))
print(len(pickle.dumps(DataLoader([1, 2]))), sorted(vars(DataLoader([1, 2])))[:5])
print(torch.__spec__.loader.__class__.__name__, torch.optim.__loader__.__class__.__name__, inspect.getmodule(torch.save).__name__, vars(dl.__loader__).keys())
class Mine(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        print("tf", func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})
t = torch.ones(2, requires_grad=True).as_subclass(Mine)
(t * 2).sum().backward()
print(len(gcs) if (gcs := __import__("gc").callbacks) else "no collector callbacks", torch.get_default_dtype(), torch.is_grad_enabled(), torch.initial_seed() != 0, torch.get_num_threads())
print([n for n in dir(torch) if "crash" in n.lower()], torch.random.get_rng_state().sum().item() > 0)
