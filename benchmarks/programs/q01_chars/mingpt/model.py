import torch
from torch import nn
from torch.nn import functional as F


class GPT(nn.Module):
    def __init__(self, vocab, block, n_embd=64, n_layer=2):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, n_embd), nn.Embedding(block, n_embd)
        layer = nn.TransformerEncoderLayer(n_embd, 4, 4 * n_embd, 0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, n_layer, enable_nested_tensor=False)
        self.head = nn.Linear(n_embd, vocab)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(block), persistent=False)

    def forward(self, x, y):
        h = self.blocks(self.tok(x) + self.pos.weight[: x.size(1)], mask=self.mask)
        logits = self.head(h)
        return logits, F.cross_entropy(logits.flatten(0, 1), y.flatten())
