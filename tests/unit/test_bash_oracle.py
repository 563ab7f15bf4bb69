"""What we read in a script is what bash does with it, or is said to be unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from bash_oracle import compared, passed_by_bash, prepare, read_by_us
from generated_scripts import scripts
from hypothesis import given

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare(tmp_path_factory.mktemp("oracle") / "bash")


def agrees(script: str, folder: Path, arguments: tuple[str, ...] = ()) -> tuple[int, int]:
    theirs = passed_by_bash(script, folder, arguments)
    if theirs is None:  # it runs for ever
        return 0, 0
    tally = compared(read_by_us(script, arguments), theirs)
    assert not tally.problems, script + "\n".join(tally.problems)
    return tally.equal, tally.unknown


@pytest.mark.parametrize(
    "script",
    [
        'SRUN_ARGS=${SRUN_ARGS:-""}\nsrun -p a ${SRUN_ARGS} --nodes=${NODES:-"2"} python t.py\n',
        "GPUS=${GPUS:-32}\nPER=${PER:-8}\nsrun -n $((GPUS / PER)) --x=$(( GPUS % 3 + 0x10 )) python t.py\n",
        'A=(--lr 1e-4)\nA+=(--bs "8 9")\nA[7]=z\npython t.py "${A[@]}" ${#A[@]} ${A[1]} "${A[@]:1:2}"\n',
        'declare -A M=([lr]=1 ["b c"]=2)\npython t.py ${M[lr]} "${M[b c]}"\n',
        'run() { local name=$1; shift; python "$name" "$@"; }\nrun t.py --a "b c"\nrun u.py\n',
        "while [[ $# -gt 0 ]]; do\ncase $1 in\n--lr) LR=$2; shift 2 ;;\n*) shift ;;\nesac\ndone\npython t.py --lr=$LR\n",
        "for lr in 1e-3 1e-4; do for ((i = 0; i < 2; i++)); do python t.py --lr $lr --seed $i; done; done\n",
        "A=1 B=2\nC=3 D=$A\npython t.py $A $B $C $D\n",
        "python ./$OUT/$NAME/ a\\\nb \\ c\n",
        "python - <<'EOF' a b\nx\nEOF\npython t.py >/dev/null --lr 1 2>&1\n",
        'CMD="python t.py --lr 1"\neval "$CMD --b \'c d\'"\n$CMD\n',
        "N=runs/a.b.yaml\npython ${N##*/} ${N%.*} ${N%%.*} ${N#*/} ${N//a/x} ${N/./-} ${N:5:1} ${N: -4} ${N^^} ${#N}\n",
        'if [ -e /dev/null ]; then X=1; else X=2; fi\npython t.py $X\n[ -z "$Y" ] && Y=3\npython u.py $Y\n',
        "python x{1..3} {a,b}c {a} x{1,$A}y devices=[0,1] 'q'\"r\"\\'\n",
        "cat <<EOF\npython no.py\nEOF\n(X=1; python t.py $X)\npython t.py ${X:-no} | :\n",
        "set -e\npython a.py\nfalse\npython b.py\n",
        'IFS=,\nA=a,b\npython t.py $A "$A"\n',
        "f() { [ -d /nowhere ] && return; X=2; }\nX=1\nf\npython t.py $X\n",
        "for i in 1 2 3; do [ -e /nowhere ] && continue; X=$i; done\npython t.py $X\n",
        "N=3\nlet N*=2\n((N += 1))\npython t.py $N $((N > 3 ? N : 0)) $((2 ** 10)) $((-7 / 2)) $((017))\n",
        "export A=1\nunset A\npython t.py \"$A\" ${A-x} ${A:+y}\nset -- p 'q r'\npython u.py \"$@\" $# $2 \"${@:2}\"\n",
        "python t.py --a 1 \\   # note\n  --b 2\n",
        "python t.py a\r\npython t.py b\n",
        "exec python t.py last\npython u.py never\n",
        "set -u\n((N))\npython t.py\n",
        "python t.py $((1 ? 2 : A = 3))\npython u.py $((0 ? 2 : 3))\n",
        'python t.py "${A:=${!B}}" ${C:=1}\npython u.py ${A-x} ${C-y}\n',
        "set -u\ncase $B in\n*) python t.py | :\nesac\npython u.py\n",
        "[ -e /dev/null ] && set -- a\npython t.py ${1:-x}\n",
        "A=(x)\nA=($((1 / 0)) b)\npython t.py ${A[@]}\n",
        "set -e\n{ python a.py\n! true && python b.py\n}\npython c.py\n",
        'python t.py "${C-$((N /= --C))}"\npython u.py "${N-8}" "${C-9}"\n',
        'f() { [ -n "$B" ] && return; python t.py; }\n(f "${!OUT}"\npython u.py)\n',
        "if [ x=1 == a ]; then python t.py; fi\npython u.py\n",
    ],
)  # fmt: skip
def test_what_launch_scripts_do(script: str, folder: Path) -> None:
    agrees(script, folder)
    agrees(script, folder, ("--lr", "0.1", "rest"))


@given(script=scripts())
def test_generated_scripts(folder: Path, script: str) -> None:
    agrees(script, folder)
