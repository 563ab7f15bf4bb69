"""
Character-level language model in the spirit of nanoGPT: one file, no trainer.
Epochs of training with a validation loader and a sample after each of them.
"""
import hashlib
import math
import os

import torch
import torch.nn as nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

# -----------------------------------------------------------------------------
batch_size = 8
block_size = 32
n_layer, n_head, n_embd = 2, 2, 32
max_epochs = 3
learning_rate = 1e-3
device = 'cuda' if torch.cuda.is_available() else 'cpu'
# -----------------------------------------------------------------------------
torch.manual_seed(1337)
torch.use_deterministic_algorithms(True)

text = ("It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness. " * 8)
chars = sorted(set(text))
stoi = {c: i for i, c in enumerate(chars)}
itos = {i: c for c, i in stoi.items()}


class CharDataset(Dataset):
    def __init__(self, data):
        self.data = data

    def __len__(self):
        return 64

    def __getitem__(self, i):
        chunk = self.data[i * 7 % (len(self.data) - block_size - 1):][:block_size + 1]
        ids = torch.tensor([stoi[c] for c in chunk])
        return ids[:-1], ids[1:]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.qkv = nn.Linear(n_embd, 3 * n_embd)
        self.proj = nn.Linear(n_embd, n_embd)
        self.mlp = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.GELU(), nn.Linear(4 * n_embd, n_embd), nn.Dropout(0.1))
        self.register_buffer('mask', torch.tril(torch.ones(block_size, block_size)))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(self.ln1(x)).split(n_embd, dim=2)
        q, k, v = (t.view(B, T, n_head, C // n_head).transpose(1, 2) for t in (q, k, v))
        att = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
        att = att.masked_fill(self.mask[:T, :T] == 0, float('-inf'))
        y = (F.softmax(att, dim=-1) @ v).transpose(1, 2).reshape(B, T, C)
        x = x + self.proj(y)
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, vocab):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, n_embd), nn.Embedding(block_size, n_embd)
        self.blocks = nn.Sequential(*[Block() for _ in range(n_layer)])
        self.head = nn.Linear(n_embd, vocab)

    def forward(self, idx, targets=None):
        x = self.wte(idx) + self.wpe(torch.arange(idx.size(1), device=idx.device))
        logits = self.head(self.blocks(x))
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.reshape(-1))
        return logits, loss

    @torch.no_grad()
    def generate(self, idx, n):
        for _ in range(n):
            logits, _ = self(idx[:, -block_size:])
            probs = F.softmax(logits[:, -1, :], dim=-1).cpu()
            idx = torch.cat((idx, torch.multinomial(probs, 1).to(idx.device)), dim=1)
        return idx


train_loader = DataLoader(CharDataset(text[:600]), batch_size=batch_size, shuffle=True, num_workers=2, pin_memory=(device == 'cuda'))
val_loader = DataLoader(CharDataset(text[600:]), batch_size=batch_size, num_workers=2)
model = GPT(len(chars)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
best = 1e9
for epoch in range(max_epochs):
    model.train()
    for it, (x, y) in enumerate(train_loader):
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        logits, loss = model(x, y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if it % 4 == 0:
            print(f"epoch {epoch} iter {it}: loss {loss.item():.6f}")
    model.eval()
    losses = []
    with torch.no_grad():
        for x, y in val_loader:
            losses.append(model(x.to(device), y.to(device))[1].item())
    val = sum(losses) / len(losses)
    print(f"epoch {epoch}: val loss {val.hex()}")
    if val < best:
        best = val
        os.makedirs('out', exist_ok=True)
        torch.save({'model': model.state_dict(), 'optimizer': optimizer.state_dict(), 'epoch': epoch}, 'out/ckpt.pt')
    sample = model.generate(torch.zeros((1, 1), dtype=torch.long, device=device), 40)[0].tolist()
    print(''.join(itos[i] for i in sample))
digest = hashlib.sha256(b''.join(p.detach().cpu().numpy().tobytes() for p in model.parameters())).hexdigest()
print(loss.item().hex(), digest)
