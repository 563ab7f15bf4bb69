import torch
from torch import nn


class Captioner(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.img = nn.Linear(32, dim)
        self.emb = nn.Embedding(vocab, dim)
        self.rnn = nn.GRUCell(dim, dim)
        self.out = nn.Linear(dim, vocab)

    def forward(self, feats, words):
        h, logits = torch.tanh(self.img(feats)), []
        for t in range(words.shape[1] - 1):
            h = self.rnn(self.emb(words[:, t]), h)
            logits.append(self.out(h))
        return torch.stack(logits, 1)
