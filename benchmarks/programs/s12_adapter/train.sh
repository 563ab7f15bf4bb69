#!/bin/bash
set -eo pipefail
python -m chem_ft.pretrain trunk.pt
python -m chem_ft.finetune run.yaml
