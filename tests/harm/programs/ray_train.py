import os, warnings; warnings.filterwarnings("ignore")
os.environ.update(RAY_DEDUP_LOGS="0", RAY_USAGE_STATS_ENABLED="0", RAY_DISABLE_DOCKER_CPU_WARNING="1", RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0")
import logging, ray, torch
ray.init(num_cpus=2, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False, _temp_dir=os.environ["TMPDIR"] + "/r" if len(os.environ["TMPDIR"]) < 40 else None)
@ray.remote
def train(seed):
    torch.manual_seed(seed); m = torch.nn.Linear(3, 1); o = torch.optim.SGD(m.parameters(), 0.1)
    for _ in range(5): l = m(torch.randn(4, 3)).pow(2).mean(); o.zero_grad(); l.backward(); o.step()
    return l.item().hex()
@ray.remote
class Actor:
    def __init__(self): self.n = 0
    def add(self, k): self.n += k; return self.n
    def fail(self): raise ValueError("in the actor")
print(ray.get([train.remote(i) for i in range(3)]))
a = Actor.remote(); print(ray.get([a.add.remote(i) for i in range(4)]))
try: ray.get(a.fail.remote())
except ValueError as e: print(type(e.cause).__name__ if hasattr(e, "cause") else type(e).__name__)
ray.shutdown(); print("down")
import shutil; shutil.rmtree(os.path.expanduser("~/.ray"), ignore_errors=True)
