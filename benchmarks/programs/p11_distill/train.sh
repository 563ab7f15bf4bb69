#!/bin/bash
set -u
export HYDRA_FULL_ERROR=1
python tools_check.py || true
python run.py optim=large_batch trainer.epochs=5 hydra.run.dir=outputs/large_batch
rc=$?
echo "run.py ended with $rc"
exit $rc
