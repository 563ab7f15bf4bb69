import argparse
import numpy as np
import torch
from lib.models import create_model

ap = argparse.ArgumentParser()
ap.add_argument("--checkpoint")
ap.add_argument("--data")
a = ap.parse_args()
ck = torch.load(a.checkpoint, map_location="cpu")
m = create_model(ck["args"]["model"], width=ck["args"]["width"])
m.load_state_dict(ck["state_dict"])
m.eval()
z = np.load(a.data)
x, y = torch.from_numpy(z["x"][-256:]).float(), torch.from_numpy(z["y"][-256:])
with torch.no_grad():
    print("val acc@1 %.2f" % (100 * (m(x)[0].argmax(1) == y).float().mean().item()))
