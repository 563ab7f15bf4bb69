import torch
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.utils import ModelOutput


class PairConfig(PretrainedConfig):
    model_type = "recipe-pair"

    def __init__(self, words=100, width=64, heads=4, layers=1, pairs=16, tau=0.1, longest=18, **rest):
        super().__init__(**rest)
        self.words, self.width, self.heads, self.layers = words, width, heads, layers
        self.pairs, self.tau, self.longest = pairs, tau, longest


class Tower(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed = nn.Embedding(config.words, config.width, padding_idx=0)
        layer = nn.TransformerEncoderLayer(config.width, config.heads, config.width * 2, 0.1, batch_first=True)
        self.body = nn.TransformerEncoder(layer, config.layers)

    def forward(self, ids):
        blank = ids == 0
        states = self.body(self.embed(ids), src_key_padding_mask=blank)
        states = states.masked_fill(blank.unsqueeze(-1), 0)
        return nn.functional.normalize(states.sum(1) / (~blank).sum(1, keepdim=True), dim=-1)


class RecipePair(PreTrainedModel):
    """A title has to find its ingredients among those of the batch."""

    config_class = PairConfig

    def __init__(self, config):
        super().__init__(config)
        self.title, self.ingredients = Tower(config), Tower(config)
        self.register_buffer("target", torch.arange(config.pairs), persistent=False)
        self.post_init()

    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)

    def forward(self, title_ids, ingredients_ids):
        scores = self.title(title_ids) @ self.ingredients(ingredients_ids).T / self.config.tau
        there = nn.functional.cross_entropy(scores, self.target)
        back = nn.functional.cross_entropy(scores.T, self.target)
        return ModelOutput(loss=(there + back) / 2, scores=scores)
