import torch
from torch import nn

from abc_model.settings import LETTERS


class TinyGPT(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.block = s.block
        self.token = nn.Embedding(len(LETTERS), s.n_embd)
        self.place = nn.Embedding(s.block, s.n_embd)
        layer = nn.TransformerEncoderLayer(s.n_embd, 4, 2 * s.n_embd, 0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, s.n_layer, enable_nested_tensor=False)
        self.out = nn.Linear(s.n_embd, len(LETTERS))

    def forward(self, ids):
        t = ids.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(t)
        return self.out(self.layers(self.token(ids) + self.place.weight[:t], mask=mask, is_causal=True))

    @torch.no_grad()
    def sing(self, ids, count):
        self.eval()
        for _ in range(count):
            probs = self(ids[:, -self.block :])[:, -1].softmax(-1)
            ids = torch.cat([ids, torch.multinomial(probs, 1)], 1)
        return "".join(LETTERS[i] for i in ids[0])
