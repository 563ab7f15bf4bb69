import torch

def step(model, x):
    y = model(x)
    loss = y.sum()
    loss.backward()
    return loss

torch.manual_seed(0)
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.utils.data.DataLoader(torch.ones(4, 2), batch_size=2):
    loss = step(model, x)
    optimizer.step()
    optimizer.zero_grad()
print("loss", loss.item().hex())
