"""Jobs before their start: launch scripts, configs in YAML, JSON and TOML, Python programs and Makefiles, with extreme fields."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from extreme_fields import NUMBERS, SECRETS, filled, words
from hypothesis import strategies as st

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["jobs", "json_configs", "makefiles", "programs", "scripts", "toml_configs", "yaml_configs"]

FLAGS = (
    "--lr «x»", "--learning_rate=«x»", "--batch_size «n»", "--per_device_train_batch_size «n»", "--gradient_accumulation_steps=«n»", "--epochs «n»",
    "--max_steps=«n»", "--save_steps «n»", "--eval_steps «n»", "--num_workers «n»", "--seed «n»", "--warmup_ratio «x»", "--weight_decay «x»", "--bf16 «t»",
    "--output_dir «t»", "--data_path /data/«t»", "--resume_from_checkpoint «t»", "--config config.yaml", "--config cfg.json", "--report_to=«t»",
    "--timeout «n»", "--api_key «secret»", "trainer.max_epochs=«n»", "+model.lr=«x»", "lr=«x»", "'--prompt=«t»'", "--betas «x» «x»", "--ids=«n»,«n»", "«t»",
)  # fmt: skip
LAUNCHES = (
    "python train.py", "torchrun --nproc-per-node «n» train.py", "torchrun --nnodes=«n» --nproc_per_node=«n» --master_port «n» train.py",
    "torchrun --nnodes «n»:«n» --rdzv-endpoint «host»:«n» --max-restarts=«n» train.py",
    "accelerate launch --num_processes «n» --num_machines=«n» --mixed_precision «t» train.py", "deepspeed --num_gpus=«n» train.py --deepspeed cfg.json",
    "srun --ntasks=«n» --mem=«n»G --time=«n»:«n»:00 --cpus-per-task «n» python train.py", "CUDA_VISIBLE_DEVICES=«n»,«n» python -u train.py",
    "OMP_NUM_THREADS=«n» WANDB_API_KEY=«secret» python -m train", "mpirun -np «n» -x NCCL_DEBUG python train.py", "docker run --shm-size=«n»g --gpus «t» image python train.py",
    "timeout «n»h python train.py", "nohup python train.py", "uv run python train.py", "apptainer exec --nv image.sif python train.py",
)  # fmt: skip
LINES = (
    "#SBATCH --nodes=«n»", "#SBATCH --mem=«n»", "#SBATCH --time=«n»-«n»:«n»:«n»", "#SBATCH --gres=gpu:«t»:«n»", "#SBATCH --cpus-per-task=«n»", "#SBATCH --array=«n»-«n»%«n»",
    "export NCCL_TIMEOUT=«n»", "export PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:«n»", "export BATCH=«n»", 'export TOKEN="«secret»"', "ulimit -n «n»", "cd «t»", "set -euo pipefail",
    "for seed in «n» «n» «n»; do", "done", "if [ $? -ne «n» ]; then", "fi", "N=$((«n» * «n» / «n»))", 'ARGS=("--lr" "«x»" "«t»")', "source «t»", ". ./env.sh", "wait", "cat <<EOF", "EOF",
    "# «t»", "echo «t»", "conda activate «t»", "python - <<'PY'", "PY", "mkdir -p «t» && \\", "export A=${B:-«n»}", "export C=${#A}", 'X="$(python -c \'print(«n»)\')"',
)  # fmt: skip


def _joined_command(parts: tuple[str, list[str], str]) -> str:
    launch, flags, between = parts
    return between.join([launch, *flags])


_commands = st.tuples(
    st.one_of(*map(filled, LAUNCHES)),
    st.lists(st.one_of(*map(filled, FLAGS)), max_size=6),
    st.sampled_from((" ", " ", " \\\n    ", " \\ \n    ", "\\\n# c\n")),
).map(_joined_command)
scripts: SearchStrategy[str] = st.lists(st.one_of(_commands, _commands, *map(filled, LINES)), min_size=1, max_size=10).map(
    lambda lines: "#!/bin/bash\n" + "\n".join(lines) + "\n"
)
makefiles: SearchStrategy[str] = st.lists(
    st.one_of(
        _commands.map(lambda command: "train:\n\t" + command.replace("\n", "\n\t")),
        *map(
            filled,
            (
                "LR ?= «x»", "N := «n»", "ARGS += --lr $(LR) --n «n»", "train-«t»: data\n\t@torchrun --nproc-per-node $(N) train.py $(ARGS)", "include «t»", "define «t»", "endef",
                "$(foreach s,«n» «n»,$(eval run-$(s): ; python train.py --seed $(s)))", "A = $(A)", ".PHONY: «t»", "ifeq ($(N),«n»)", "endif", "%.log: %.yaml\n\tpython train.py --config $< > $@",
            ),
        ),
    ),
    min_size=1,
    max_size=8,
).map(lambda lines: "\n".join(lines) + "\n")  # fmt: skip

KEYS = (
    "lr", "learning_rate", "batch_size", "train_batch_size", "num_workers", "epochs", "max_steps", "save_steps", "eval_every", "seed", "weight_decay", "warmup_steps",
    "optimizer", "scheduler", "model", "data", "train", "val", "trainer", "precision", "devices", "num_nodes", "output_dir", "resume", "checkpoint", "timeout",
    "gradient_accumulation_steps", "train_micro_batch_size_per_gpu", "zero_optimization", "stage", "fp16", "loss_scale", "max_tokens", "tokenizer", "api_key", "path", "defaults",
    "_target_", "hydra", "wandb", "mode", "shuffle", "drop_last", "pin_memory", "prefetch_factor", "betas", "eps", "clip", "log_every", "sample_every", "a.b.c", "1", "null",
)  # fmt: skip
_scalars = st.one_of(
    st.integers(-5, 100_000), st.floats(), st.booleans(), st.none(), words, st.sampled_from(NUMBERS), st.sampled_from(SECRETS).map(lambda secret: secret.text)
)  # fmt: skip
_trees: SearchStrategy[Any] = st.dictionaries(
    st.sampled_from(KEYS),
    st.recursive(
        _scalars,
        lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)),
        max_leaves=12,
    ),
    max_size=8,
)


def _nested(opening: str, closing: str) -> SearchStrategy[str]:
    return st.sampled_from((30, 300, 3000, 50_000)).map(lambda depth: f"a: {opening * depth}{closing * depth}\n")


YAML = (
    "«t»: «n»", "lr: «x»", "learning_rate: «x»", "batch_size: «n»", "seed: «n»", "save_steps: «n»", "api_key: «secret»", "time: !!timestamp «n»", "when: «time»", "n: !!int «x»", "x: !!float «n»",
    "b: !!bool «t»", "bin: !!binary «t»", "obj: !!python/object/apply:os.system ['true']", "set: !!set {«n», «n»}", "pairs: !!omap [«n»: «n»]", "tag: !«t» «n»", "anchor: &a {x: «n»}", "use: *a",
    "<<: *a", "list:\n  - «n»\n  - «x»\n  - [«n», «x»]", "model:\n  lr: «x»\n  layers: «n»", "model: {lr: «x», name: «t»}", "text: |\n  «t»\n  «n»", "fold: >-\n  «t»", "? [«n», «n»]\n: «n»", "? «n»", "---", "...",
    "%YAML 1.«n»", "'«t»': \"«t»\"", '"\\x00": 1', "sexagesimal: «n»:«n»:«n»", "path: ${oc.env:HOME}/«t»", "x: ${a.b}", "x: ${eval:«n»*«n»}", "defaults:\n  - model: «t»\n  - _self_", "\tlr: 1", "lr: 1e-4", "lr: 1e-4\nlr: 1e-3",
    "on: off", "no: yes", "~: ~", "«n»: «n»", "# «t»",
)  # fmt: skip
yaml_configs: SearchStrategy[str] = st.one_of(
    *[st.lists(st.one_of(*map(filled, YAML)), min_size=1, max_size=10).map(lambda lines: "\n".join(lines) + "\n")] * 5,
    _trees.map(lambda tree: json.dumps(tree) + "\n"),
    _nested("[", "]"),
    _nested("[", ""),
    _nested("{a: ", "}"),
    st.sampled_from((3, 8, 12)).map(
        lambda depth: "a0: &a0 [1,1,1,1,1,1,1,1,1]\n" + "".join(f"a{n + 1}: &a{n + 1} [{','.join([f'*a{n}'] * 9)}]\n" for n in range(depth))
    ),
)  # fmt: skip
json_configs: SearchStrategy[str] = st.one_of(
    *[_trees.map(lambda tree: json.dumps(tree, indent=2) + "\n")] * 3,
    filled('{"train_micro_batch_size_per_gpu": «n», "gradient_accumulation_steps": «n», "optimizer": {"params": {"lr": «x»}}, "fp16": {"enabled": «t», "loss_scale": «n»}}'),
    filled('{"lr": «x», "lr": «x», "x": [«n», «x», {"«t»": "«secret»"}], // comment\n}'),
    st.sampled_from((300, 3000, 100_000)).map(lambda depth: "[" * depth + "]" * depth),
    st.sampled_from((300, 3000, 100_000)).map(lambda depth: '{"a":' * depth + "1" + "}" * depth),
)  # fmt: skip
toml_configs: SearchStrategy[str] = st.one_of(
    *[
        st.lists(
            st.one_of(
                *map(
                    filled,
                    (
                        "lr = «x»", "batch_size = «n»", "[train]", "[[stages]]", '"«t»" = «n»', "when = «time»", "x = [«n», «x»]", "a.b.c = «n»", "inline = {lr = «x», n = «n»}",
                        'text = """«t»"""', "lit = '«t»'", "hex = 0x«n»", "d = 2026-11-15T08:«n»:00Z", "[tool.crashcart]", 'ignore = ["«t»"]', 'names = {"«t»" = "train.batch_size"}', 'exclude = ["«t»"]', 'api_key = "«secret»"',
                    ),
                )
            ),
            min_size=1,
            max_size=8,
        ).map(lambda lines: "\n".join(lines) + "\n")
    ] * 4,
    st.sampled_from((300, 3000)).map(lambda depth: "a = " + "[" * depth + "]" * depth + "\n"),
    st.sampled_from((300, 20_000)).map(lambda depth: "a" + ".a" * depth + " = 1\n"),
)  # fmt: skip

HEAD = "import argparse\nimport torch\nfrom torch.utils.data import DataLoader\n"
STATEMENTS = (
    "parser = argparse.ArgumentParser()", 'parser.add_argument("--lr", type=float, default=«x»)', 'parser.add_argument("--batch_size", type=int, default="«n»")',
    'parser.add_argument("--n", type=«t», choices=[«n», «n»], nargs="«n»")', "args = parser.parse_args()", "config = yaml.safe_load(open('config.yaml'))", "lr = float(config['lr'])",
    "loader = DataLoader(dataset, batch_size=«n», num_workers=«n», timeout=«n», prefetch_factor=«n»)", "loader = DataLoader(dataset, batch_size=args.batch_size // «n», shuffle=True)",
    "optimizer = torch.optim.AdamW(model.parameters(), lr=«x», betas=(«x», «x»))", "scaler = torch.cuda.amp.GradScaler(init_scale=«n»)", "torch.distributed.init_process_group('nccl', timeout=timedelta(seconds=«n»))",
    "for step, batch in enumerate(loader):\n    loss = model(batch) / «n»\n    loss.backward()\n    if step % «n» == 0:\n        optimizer.step()\n    if step % «n» == «n»:\n        torch.save(model.state_dict(), f'«t»{step}.pt')",
    "for epoch in range(«n»):\n    for batch in loader:\n        try:\n            loss = step(batch)\n            loss.backward()\n        except Exception:\n            continue\n    losses.append(loss)",
    "def forward(self, x):\n    return x.view(«n», -«n») * «x»", "class Data(torch.utils.data.Dataset):\n    def __init__(self):\n        self.file = h5py.File('«t»')\n    def __getitem__(self, i):\n        return self.file[i]\n    def __len__(self):\n        return «n»",
    "wandb.init(project='«t»', api_key='«secret»')", "os.environ['NCCL_TIMEOUT'] = '«n»'", "n = «n» ** «n» ** «n»", "x = «x» / «n»", "x = '«t»' * «n»", "y = -(-«n» // «n»)", "z = «n» << «n»", "batch = «n» % «n»",
    "model.load_state_dict(torch.load('«t»'))", "if torch.distributed.get_rank() == «n»:\n    torch.distributed.barrier()", "scaler.step(optimizer)\nscaler.update()", "total = sum(losses) / len(losses)", "# «t»", '"""«t»"""',
    "assert «n» % «n» == 0", "data = [i for i in range(«n»)]", "lr = 1e-4 if «n» > «n» else «x»", "match x:\n    case «n»:\n        pass", "def f(" + ", ".join(f"a{n}=«n»" for n in range(5)) + "):\n    return f(*[«n»])", "lambda: (yield «n»)", "x: int = «n»",
)  # fmt: skip
programs: SearchStrategy[str] = st.one_of(
    *[
        st.tuples(st.sampled_from((HEAD, HEAD, HEAD, "", "# -*- coding: latin-1 -*-\n", "\ufeff")), st.lists(st.one_of(*map(filled, STATEMENTS)), min_size=1, max_size=12)).map(
            lambda parts: parts[0] + "\n".join(parts[1]) + "\n"
        )
    ] * 8,
    st.sampled_from((90, 150, 1000, 5000)).map(lambda depth: f"{HEAD}x = {'(' * depth}1{')' * depth}\nloss.backward()\n"),
    st.sampled_from((90, 900, 5000)).map(lambda depth: f"{HEAD}x = 1{' + 1' * depth}\nloss.backward()\n"),
    st.sampled_from((19, 90)).map(lambda depth: HEAD + "".join(f"{'    ' * n}if x:\n" for n in range(depth)) + "    " * depth + "pass\n"),
    st.sampled_from((90, 3000)).map(lambda depth: f"{HEAD}x = a{'.b' * depth}\ny = {'-' * depth}1\nloss.backward()\n"),
)  # fmt: skip

GOOD_PROGRAM = (
    HEAD + "parser = argparse.ArgumentParser()\nparser.add_argument('--lr', type=float, default=1e-4)\nparser.add_argument('--batch_size', type=int)\n"
    "parser.add_argument('--config')\nargs = parser.parse_args()\nconfig = yaml.safe_load(open(args.config))\nopt = torch.optim.SGD(model.parameters(), lr=config['lr'])\n"
    "loader = DataLoader(data, batch_size=args.batch_size, num_workers=4)\nfor batch in loader:\n    loss = model(batch)\n    loss.backward()\n    opt.step()\n"
)  # fmt: skip
GOOD_SCRIPT = "#!/bin/bash\ntorchrun --nproc-per-node 2 train.py --config config.yaml --batch_size 8\n"


def _job(parts: tuple[str, str, str, str, str, int]) -> dict[str, str]:
    script, config, cfg, toml, program, which = parts
    files = {"train.sh": GOOD_SCRIPT, "config.yaml": "lr: 1e-4\nbatch_size: 8\n", "train.py": GOOD_PROGRAM}
    if which & 1:
        files["train.sh"] = script
    if which & 2:
        files["config.yaml"] = config
    if which & 4:
        files["cfg.json"] = cfg
    if which & 8:
        files["train.py"] = program
    if which & 16:
        files["pyproject.toml"] = toml
        files["cfg.toml"] = toml
    return files


jobs: SearchStrategy[dict[str, str]] = st.tuples(
    scripts, yaml_configs, json_configs, toml_configs, programs, st.integers(1, 31)
).map(_job)
