import os, shutil, sys
os.environ["WANDB_MODE"] = "offline"; os.environ["WANDB_SILENT"] = "true"; os.environ["WANDB_DIR"] = os.getcwd(); os.environ["WANDB_CONSOLE"] = sys.argv[1] if len(sys.argv) > 1 else "off"
import torch, wandb
torch.manual_seed(0)
run = wandb.init(project="p", config={"lr": 0.1}, settings=wandb.Settings(_disable_stats=True, disable_git=True))
m = torch.nn.Linear(2, 1); o = torch.optim.SGD(m.parameters(), lr=wandb.config.lr)
for step in range(5):
    l = m(torch.ones(1, 2)).pow(2).sum(); l.backward(); o.step(); o.zero_grad(); wandb.log({"loss": l.item()}, step=step)
    print(step, l.item().hex())
wandb.finish()
print(len([f for _, _, fs in os.walk("wandb") for f in fs if f.endswith(".wandb")]))
shutil.rmtree("wandb", ignore_errors=True)
