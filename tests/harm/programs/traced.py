"""Counts what tracers and profilers see of a training step: python traced.py TOOL own|all (files). TOOL `each` is one after the other."""
import collections
import sys
import threading

import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
how, files = sys.argv[1:]
model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout(0.1), torch.nn.Linear(3, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.LinearLR(optimizer)
loader = DataLoader(TensorDataset(torch.randn(12, 3)), batch_size=4)
scaler = torch.amp.GradScaler("cpu")


def epoch():
    model.train()
    for (x,) in loader:
        loss = model(x).pow(2).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        scheduler.step()
    model.eval()
    with torch.no_grad():
        for (x,) in loader:
            model(x)
    torch.save(model.state_dict(), "model.pt")
    torch.load("model.pt")
    t = threading.Thread(target=model, args=(x,))
    t.start()
    t.join()
    return loss


def seen(event, code):
    every[event] += 1
    if code.co_filename == __file__:
        own[event, code.co_name] += 1


def by_settrace():
    def tracer(frame, event, arg):
        seen(event, frame.f_code)
        return tracer
    sys.settrace(tracer); loss = epoch(); sys.settrace(None)
    return loss


def by_setprofile():
    def profiler(frame, event, arg):
        if event in ("call", "return"):
            seen(event, frame.f_code)
    sys.setprofile(profiler); loss = epoch(); sys.setprofile(None)
    return loss


def by_monitoring():
    m = sys.monitoring
    m.use_tool_id(3, "mine")
    m.register_callback(3, m.events.PY_START, lambda code, offset: seen("start", code))
    m.register_callback(3, m.events.LINE, lambda code, line: seen("line", code))
    m.set_events(3, m.events.PY_START | m.events.LINE); loss = epoch(); m.set_events(3, 0)
    m.free_tool_id(3)
    return loss


def by_cprofile():
    import cProfile, pstats
    p = cProfile.Profile(); loss = p.runcall(epoch)
    stats = pstats.Stats(p)
    if files == "all":
        print(stats.total_calls, stats.prim_calls)
    for (file, line, name), (calls, *_) in sorted(stats.stats.items()):
        if file == __file__ or files == "all" and name in ("step", "__next__", "backward", "save", "load", "train", "eval"):
            print(calls, name)
    return loss


def by_tracemalloc():
    import tracemalloc
    tracemalloc.start(); loss = epoch(); s = tracemalloc.take_snapshot(); tracemalloc.stop()
    print(len(s.filter_traces([tracemalloc.Filter(True, __file__)]).statistics("lineno")) > 0)
    return loss


epoch()
tools = ["settrace", "setprofile", "cprofile"] + ["monitoring"] * hasattr(sys, "monitoring") if how == "each" else [how]
for tool in tools:
    own, every = collections.Counter(), collections.Counter()
    loss = globals()["by_" + tool]()
    print(tool, sorted(own.items()))
    if files == "all":
        print(sorted(every.items()))
    print(loss.item().hex())
