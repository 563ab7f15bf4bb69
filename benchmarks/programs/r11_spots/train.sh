#!/bin/bash
set -euo pipefail
python -m spots.generate --root pollen
python -u -m spots.main --config pollen.yaml
