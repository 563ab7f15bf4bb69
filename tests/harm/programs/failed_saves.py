import logging
import os
import pickle
import threading
import traceback

import torch

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
torch.manual_seed(0)
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(1, 2)).sum().backward()
optimizer.step()

# a folder that is not there
try:
    torch.save(model.state_dict(), "no/such/folder/model.pt")
except Exception:
    traceback.print_exc()
# something that cannot be pickled
try:
    torch.save({"model": model, "lock": threading.Lock()}, "locked.pt")
except TypeError:
    logging.exception("cannot save the lock")
except Exception as error:
    print("other", type(error))
print(os.path.exists("locked.pt"))
# a missing and a broken checkpoint
for path in ("missing.pt", "broken.pt"):
    if path == "broken.pt":
        open(path, "wb").write(b"not a checkpoint")
    try:
        torch.load(path)
    except (FileNotFoundError, pickle.UnpicklingError, RuntimeError) as error:
        print(type(error).__name__, str(error)[:60])
        print(traceback.format_exc().count("\n") > 3)
        traceback.print_exc()
try:
    torch.save(model.state_dict(), "/dev/full")
except Exception as error:
    print(type(error).__name__)
try:
    torch.load("locked.pt" if os.path.exists("locked.pt") else "missing.pt", weights_only=True)
except Exception as error:
    print(type(error).__name__)
torch.save(model.state_dict(), "good.pt")
print(sorted(torch.load("good.pt")))
