"""Policy gradient with environments in processes of their own, talking through pipes."""
import multiprocessing as mp
import random
import torch

def environment(pipe, seed):
    rng = random.Random(seed); state = 0.0
    while True:
        cmd, action = pipe.recv()
        if cmd == "close": pipe.close(); return
        if cmd == "reset": state = rng.uniform(-1, 1)
        else: state += 0.1 * (1 if action else -1)
        pipe.send((state, -abs(state)))

def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    policy = torch.nn.Sequential(torch.nn.Linear(1, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2)).to(device); opt = torch.optim.Adam(policy.parameters(), 1e-2)
    for generation in range(2):
        ctx = mp.get_context("fork"); envs = []
        for i in range(3):
            ours, theirs = ctx.Pipe(); p = ctx.Process(target=environment, args=(theirs, i), daemon=True); p.start(); theirs.close(); envs.append((ours, p))
        for episode in range(4):
            for e, _ in envs: e.send(("reset", None))
            states = torch.tensor([[e.recv()[0]] for e, _ in envs], device=device); logs, rewards = [], []
            for t in range(6):
                logits = policy(states).log_softmax(-1); actions = torch.multinomial(logits.exp().cpu(), 1).to(device); logs.append(logits.gather(1, actions).squeeze(1))
                for (e, _), a in zip(envs, actions.tolist()): e.send(("step", a[0]))
                got = [e.recv() for e, _ in envs]; states = torch.tensor([[s] for s, _ in got], device=device); rewards.append(torch.tensor([r for _, r in got], device=device))
            loss = -(torch.stack(logs) * torch.stack(rewards)).mean(); opt.zero_grad(); loss.backward(); opt.step()
        for e, p in envs: e.send(("close", None)); p.join(); assert p.exitcode == 0, p.exitcode
        print(generation, loss.item().hex(), torch.stack(rewards).sum().item().hex())

main()
