import argparse
import torch
from router.jobs import Jobs
from router.policy import Router, entropy


def update(net, opt, jobs, k, o, base):
    x, full = jobs.batch(k)
    p = net.probs(x, full, o.temperature)
    choice = torch.multinomial(p.detach(), 1)[:, 0]
    r = jobs.reward(x, choice)
    logp = p.gather(1, choice[:, None])[:, 0].clamp_min(1e-8).log()
    terms = -(r - base) * logp - o.entropy * entropy(p)
    loss = torch.nan_to_num(terms).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.item(), r.mean().item(), p.detach().amax(-1).mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--updates", type=int, default=200)
    ap.add_argument("--temperature", type=float, default=1.0)
    ap.add_argument("--entropy", type=float, default=0.02)
    ap.add_argument("--lr", type=float, default=2e-2)
    o = ap.parse_args()
    torch.manual_seed(0)
    net, jobs = Router(), Jobs(5)
    opt = torch.optim.RMSprop(net.parameters(), lr=o.lr)
    base = 0.0
    for k in range(1, o.updates + 1):
        loss, r, top = update(net, opt, jobs, k, o, base)
        base = 0.95 * base + 0.05 * r
        if k % 5 == 0:
            print(f"update {k:4d}  loss {loss:+.4f}  reward {r:+.3f}  baseline {base:+.3f}")
        if k % 20 == 0 and top > 0.5:
            print(f"WARNING mean top probability {top:.2f}, the policy may be collapsing")
    torch.save(net.state_dict(), "router.pt")
    print("finished")


if __name__ == "__main__":
    main()
