"""Hourly sea level of some made-up stations: five constituents, weather, and a storm now and then."""
import argparse

import numpy as np
import yaml

PERIODS = [12.4206, 12.0, 12.6583, 23.9345, 25.8193]
HEIGHTS = [1.0, 0.46, 0.19, 0.58, 0.41]


def station(rng, hours):
    t = np.arange(hours)
    level = np.zeros(hours)
    for period, height in zip(PERIODS, HEIGHTS):
        level += rng.uniform(0.5, 1.5) * height * np.cos(2 * np.pi * t / period + rng.uniform(0, 2 * np.pi))
    weather = np.convolve(rng.normal(0, 1, hours), np.ones(36) / 36, mode="same")
    for start in rng.integers(0, hours - 60, hours // 900):
        level[start : start + 60] += 1.8 * np.hanning(60)
    return level + 0.8 * weather


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", required=True)
    with open(parser.parse_args().config) as f:
        data = yaml.safe_load(f)["data"]
    rng = np.random.default_rng(1953)
    table = np.stack([station(rng, data["hours"]) for _ in range(data["stations"])])
    np.save(data["file"], table.astype(np.float32))
    print(f"{table.shape[0]} stations, {table.shape[1]} hours, highest {table.max():.2f} m")


if __name__ == "__main__":
    main()
