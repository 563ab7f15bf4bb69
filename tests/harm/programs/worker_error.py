# an exception in a loader worker reaches the training loop, which prints it and goes on with another loader
import gc, logging, sys, traceback
import torch
from torch.utils.data import DataLoader, Dataset

class Broken(Dataset):
    def __init__(self, bad): self.bad = bad
    def __len__(self): return 12
    def __getitem__(self, i):
        if i == self.bad:
            raise FileNotFoundError(2, "No such file or directory", f"images/{i:05d}.png")
        return torch.tensor([float(i)])

logging.basicConfig(format="%(levelname)s:%(name)s:%(message)s")
log = logging.getLogger("train")
w = torch.ones(1, requires_grad=True)
opt = torch.optim.SGD([w], lr=0.01)
def epoch(loader):
    for batch in loader:
        opt.zero_grad(); (batch * w).sum().backward(); opt.step()
for bad, workers in ((7, 1), (None, 2), (3, 0), (None, 0)):
    try:
        epoch(DataLoader(Broken(bad), batch_size=3, num_workers=workers))
    except FileNotFoundError:
        if workers:
            traceback.print_exc()
        else:
            log.exception("could not read the data")
    gc.collect()  # the failed loader's workers end before the next ones start
    print(bad, workers, w.item().hex())

def collate(items):
    raise ValueError(f"cannot collate {len(items)} items")
try:
    next(iter(DataLoader(Broken(None), batch_size=2, num_workers=1, collate_fn=collate)))
except ValueError:
    sys.stdout.write(traceback.format_exc())
def init(worker):
    raise RuntimeError("no licence for worker %d" % worker)
try:
    list(DataLoader(Broken(None), batch_size=2, num_workers=1, worker_init_fn=init))
except RuntimeError as e:
    print(type(e), str(e).splitlines()[-1])
    traceback.print_exception(type(e), e, e.__traceback__, file=sys.stdout)
