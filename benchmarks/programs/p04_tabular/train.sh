#!/bin/bash
set -euo pipefail
test -d shards || python -m plant.simulate shards
exec python -m plant.fit --config plant/plant.yaml
