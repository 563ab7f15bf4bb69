import torch

weights = torch.load("clicks.pt")["embed.weight"]
print("items nearest to item 7:", (weights @ weights[7]).topk(4).indices.tolist())
