from torch import nn


class Tagger(nn.Module):
    def __init__(self, vocab=60, dim=48):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=0)
        self.mix = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, vocab)

    def forward(self, src):
        return self.out(self.mix(self.embed(src))[0])
