import json, pathlib, statistics, sys
v = [json.loads(p.read_text())["elbo"] for p in sorted(pathlib.Path(sys.argv[1]).glob("seed*/result.json"))]
print(f"{len(v)} seeds, -elbo {statistics.mean(v):.3f} +- {statistics.pstdev(v):.3f}")
