"""What the belt's scales, cameras and readers saw of each parcel, and in which tray it ended."""
import argparse

import torch

FEATURES = ["length", "width", "height", "grams", "label_angle", "postcode", "priority", "fragile"]


def day(g, count):
    x = torch.rand(count, len(FEATURES), generator=g)
    x[:, 3] = (x[:, 0] * x[:, 1] * x[:, 2] * 4 + 0.1 * torch.rand(count, generator=g)).clamp(0, 1)
    x[:, 6:] = (x[:, 6:] > 0.8).float()
    region = (x[:, 5] * 5).long()
    big = (x[:, :3].prod(1) > 0.15).long()
    tray = region * 2 + big
    tray[x[:, 6] > 0] = 10
    tray[(x[:, 7] > 0) & (x[:, 3] < 0.3)] = 11
    return x, tray


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--days", type=int)
    parser.add_argument("--out")
    options = parser.parse_args()
    g = torch.Generator().manual_seed(31)
    days = [day(g, 400) for _ in range(options.days)]
    torch.save({"x": torch.cat([d[0] for d in days]), "tray": torch.cat([d[1] for d in days])}, options.out)
    print(f"{options.days} days, {400 * options.days} parcels")


if __name__ == "__main__":
    main()
