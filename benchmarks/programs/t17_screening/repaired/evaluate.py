import argparse
import json

import numpy as np
import torch

from lesions.cnn import load


def roc(score, label):
    """False and true positive rates, from the strictest threshold on."""
    order = np.argsort(-score)
    hit = label[order]
    tpr = np.concatenate([[0], np.cumsum(hit) / hit.sum()])
    fpr = np.concatenate([[0], np.cumsum(1 - hit) / (1 - hit).sum()])
    return fpr, tpr


def partial_area(fpr, tpr, limit):
    """Area up to a false positive rate, as a share of what is possible."""
    inside = fpr <= limit
    return np.trapezoid(tpr[inside], fpr[inside]) / limit


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--data")
    p.add_argument("--model")
    args = p.parse_args()
    net = torch.load(args.model, weights_only=False).eval()
    images, label = load(args.data, "test")
    with torch.no_grad():
        score = net(images).numpy()
    fpr, tpr = roc(score, label.numpy())
    at_90 = float(fpr[np.searchsorted(tpr, 0.9)])
    print(f"{len(label)} cases, false positives at 90 % sensitivity: {at_90:.3f}")
    report = {"fpr_at_90": at_90, "area": partial_area(fpr, tpr, 1.0), "area_20": partial_area(fpr, tpr, 0.2)}
    with open("report.json", "w") as f:
        json.dump(report, f)
    print(" ".join(f"{k} {v:.3f}" for k, v in report.items()))


if __name__ == "__main__":
    main()
