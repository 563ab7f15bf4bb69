"""Synthetic rainfall-runoff records: twelve gauges, daily values."""
import argparse

import numpy as np


def gauge(rng, days):
    season = 1.2 + np.sin(np.arange(days) * 2 * np.pi / 365)
    rain = rng.gamma(0.4, 6.0, days) * season
    temp = 9 + 11 * np.sin(np.arange(days) * 2 * np.pi / 365 - 1.8) + rng.normal(0, 2, days)
    store, flow = 10.0, np.empty(days)
    for t in range(days):
        store += rain[t]
        flow[t] = 0.08 * store
        store -= flow[t] + 0.02 * max(temp[t], 0)
        store = max(store, 0.1)
    return rain, temp, flow


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--out")
    p.add_argument("--years", type=int)
    a = p.parse_args()
    rng = np.random.default_rng(17)
    days = 365 * a.years
    rows = [gauge(rng, days) for _ in range(12)]
    rain, temp, flow = (np.stack(x).astype(np.float32) for x in zip(*rows))
    for g in range(12):
        for start in rng.integers(0, days - 20, 5):
            flow[g, start : start + int(rng.integers(3, 18))] = np.nan
    flow[7, 210:905] = np.nan
    rain[3, rng.integers(0, days, 40)] = np.nan
    np.savez(a.out, rain=rain, temp=temp, flow=flow)


if __name__ == "__main__":
    main()
