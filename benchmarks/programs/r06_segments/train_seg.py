import argparse

import torch
import torch.nn.functional as F

from seg import state
from seg.net import Segmenter

torch.set_num_threads(1)
parser = argparse.ArgumentParser()
parser.add_argument("--clips")
parser.add_argument("--scratch")
parser.add_argument("--until", type=int)
args = parser.parse_args()

torch.manual_seed(1)
clips = torch.load(args.clips)
net = Segmenter()
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
step = state.read(args.scratch, net, optimizer)
print(f"from step {step} until {args.until}, {sum(p.numel() for p in net.parameters())} weights")
while step < args.until:
    pick = torch.randint(len(clips["wave"]), (16,))
    loss = F.binary_cross_entropy_with_logits(net(clips["wave"][pick]), clips["speech"][pick])
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 5.0)
    optimizer.step()
    step += 1
    if step % 10 == 0:
        print(f"step {step} loss {loss.item():.4f}")
state.write(args.scratch, net, optimizer, step)
