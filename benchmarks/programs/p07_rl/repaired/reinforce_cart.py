# docs and experiment results can be found at the wiki of the group
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim
from torch.distributions.categorical import Categorical

from rl_utils.env import VecCart
from rl_utils.store import Uploader


def parse_args():
    # fmt: off
    parser = argparse.ArgumentParser()
    parser.add_argument("--exp-name", type=str, default="cart")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--total-updates", type=int, default=60)
    parser.add_argument("--num-envs", type=int, default=8)
    parser.add_argument("--num-steps", type=int, default=64)
    parser.add_argument("--learning-rate", type=float, default=2.5e-2)
    parser.add_argument("--gamma", type=float, default=0.99)
    parser.add_argument("--upload-dir", type=str, default="store")
    parser.add_argument("--report-every", type=int, default=10)
    # fmt: on
    return parser.parse_args()


def layer_init(layer, std=np.sqrt(2), bias_const=0.0):
    torch.nn.init.orthogonal_(layer.weight, std)
    torch.nn.init.constant_(layer.bias, bias_const)
    return layer


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Sequential(layer_init(nn.Linear(4, 64)), nn.Tanh(), layer_init(nn.Linear(64, 2), std=0.01))

    def get_action(self, x):
        d = Categorical(logits=self.actor(x))
        a = d.sample()
        return a, d.log_prob(a), d.entropy()


if __name__ == "__main__":
    args = parse_args()
    run_name = f"{args.exp_name}__{args.seed}__{int(time.time())}"
    torch.manual_seed(args.seed)
    envs = VecCart(args.num_envs, args.seed)
    agent = Agent()
    optimizer = optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)
    uploader = Uploader(args.upload_dir)
    obs = torch.from_numpy(envs.s.astype("float32"))
    milestone = 40.0
    returns = []
    for update in range(1, args.total_updates + 1):
        logps, rewards, dones, ents = [], [], [], []
        for step in range(args.num_steps):
            action, logp, ent = agent.get_action(obs)
            nxt, r, done, lengths = envs.step(action.numpy())
            obs = torch.from_numpy(nxt)
            logps.append(logp)
            ents.append(ent)
            rewards.append(torch.from_numpy(r))
            dones.append(torch.from_numpy(done.astype("float32")))
            returns += lengths.tolist()
        R = torch.zeros(args.num_envs)
        loss = 0.0
        for t in reversed(range(args.num_steps)):
            R = rewards[t] + args.gamma * R * (1 - dones[t])
            loss = loss - (logps[t] * (R - 15.0) / 20.0).mean() - 0.005 * ents[t].mean()
        optimizer.zero_grad()
        (loss / args.num_steps).backward()
        nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
        optimizer.step()

        episodic = np.mean(returns[-50:])
        uploader.add(kind="scalars", update=update, episodic_return=float(episodic))
        if episodic > milestone:
            uploader.add(kind="milestones", run=run_name, update=update, reached=float(episodic))
            milestone += 10.0
        print(f"update={update}, episodic_return={episodic:.1f}, global_step={update * args.num_steps * args.num_envs}")
        if update % args.report_every == 0:
            uploader.flush()
    uploader.flush()
    torch.save(agent.state_dict(), f"{args.exp_name}.cleanrl_model")
    print(f"model saved, {uploader.sent} records uploaded")
