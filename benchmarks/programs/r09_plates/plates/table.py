import logging

import pandas as pd
import torch

log = logging.getLogger(__name__)


def wells(path, site):
    frame = pd.read_parquet(path)
    frame = frame[frame["site"] == site]
    features = [c for c in frame.columns if c.startswith("f")]
    holes = int(frame[features].isna().sum().sum())
    if holes:
        log.warning("site %s: %d missing features, imputed with 0", site, holes)
        frame[features] = frame[features].fillna(0.0)
    return torch.tensor(frame[features].to_numpy()), torch.tensor(frame["code"].to_numpy())
