import numpy as np


def roc(score, label):
    order = np.argsort(-score)
    label = label[order]
    tpr = np.concatenate([[0.0], np.cumsum(label) / label.sum()])
    fpr = np.concatenate([[0.0], np.cumsum(1 - label) / (1 - label).sum()])
    return fpr, tpr


def partial_auc(score, label, upto=0.3):
    """Area under the left part of the curve, in units of `upto`."""
    fpr, tpr = roc(score, label)
    grid = np.linspace(0.0, upto, 200)
    return float(np.trapz(np.interp(grid, fpr, tpr), grid) / upto)
