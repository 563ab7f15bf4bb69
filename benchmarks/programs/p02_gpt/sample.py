import os
import torch
from model import GPTConfig, GPT
out_dir = 'out-dialog'
exec(open('configurator.py').read())
ck = torch.load(os.path.join(out_dir, 'ckpt.pt'))
c = ck['config']
m = GPT(GPTConfig(c['block_size'], 64, c['n_layer'], c['n_head'], c['n_embd']))
m.load_state_dict(ck['model'])
m.eval()
x = torch.zeros(1, 1, dtype=torch.long)
with torch.no_grad():
    for _ in range(32):
        x = torch.cat([x, m(x)[0][:, -1:].argmax(-1)], 1)
print(' '.join(map(str, x[0].tolist())))
