#!/bin/bash
# a project with its own layout: PYTHONPATH, a sitecustomize of its own, packages, zip files
set -eu
mkdir -p lib/mypkg site app
echo 'def f(): return "from lib"' > lib/mypkg/__init__.py
echo 'import sys; print("main of", __name__, sys.argv[1:], __package__)' > lib/mypkg/__main__.py
echo 'print("my own sitecustomize"); import sys; sys.my_mark = 1' > site/sitecustomize.py
echo 'print("my own usercustomize")' > site/usercustomize.py
printf 'import sys\nprint("zipped", sys.argv, __name__, __file__.endswith("__main__.py"))\nraise SystemExit(3)\n' > app/__main__.py
export PYTHONPATH=lib
python -c 'import mypkg; print(mypkg.f())'
python -m mypkg a b
PYTHONPATH=site:lib python -c 'import sys, sitecustomize; print(sys.my_mark, sitecustomize.__file__)'
PYTHONPATH=site python -s -c 'import sys; print(sys.flags.no_user_site)'
python -m zipapp app -o app.pyz
python app.pyz x || echo "exit $?"
python app y || echo "exit $?"
export PYTHONPATH=""
python -c 'import importlib.util; print(importlib.util.find_spec("mypkg"))'
unset PYTHONPATH
(cd lib && python -c 'import mypkg, runpy; runpy.run_module("mypkg", run_name="other", alter_sys=True); print(runpy.run_path("../app/__main__.py")["sys"])' || echo "exit $?")
PYTHONSTARTUP=nothing.py PYTHONDONTWRITEBYTECODE=1 python -c 'import sys; print(sys.dont_write_bytecode)'
PYTHONSAFEPATH=1 python -c 'import sys; print("" in sys.path)'
PYTHONUNBUFFERED=1 python -c 'import sys; print(sys.stdout.write_through)'
PYTHONWARNINGS=error python -c 'import warnings
try: warnings.warn("x")
except UserWarning as e: print("raised", e)'
echo 'print("from stdin", __name__)' | python
echo 'print("from stdin", __name__)' | python - arg
rm app.pyz
find . -name '*.py' | sort
