#!/bin/bash
# an environment of its own, made on the spot, and one that conda would have made
set -eu
python -m venv --without-pip --symlinks env
. env/bin/activate
python -c 'import sys; print(sys.prefix != sys.base_prefix, sys.prefix.endswith("/env"))'
python -I -c 'import sys; print(sys.flags.isolated)'
printf 'import sys\nprint("pth ran", file=sys.stderr)\n' > hello.py
site=$(python -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
cp hello.py "$site/hello_mod.py"; echo 'import hello_mod' > "$site/hello.pth"
python -c 'print("after the pth")'
env/bin/python -E -s -c 'import sys; print(sys.flags.ignore_environment)'
deactivate
mkdir -p miniconda/envs/train/bin
ln -s "$(command -v python)" miniconda/envs/train/bin/python
export CONDA_PREFIX=$PWD/miniconda/envs/train CONDA_DEFAULT_ENV=train
PATH=$CONDA_PREFIX/bin:$PATH
python -c 'import os, sys; print(os.environ["CONDA_DEFAULT_ENV"], len(sys.argv))'
rm -rf env miniconda
