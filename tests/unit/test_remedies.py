"""Patches that are made at the scene: each of what happened, in a small program, and the program after the patch."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from history import START, History

from crashcart.case import Case
from crashcart.flight import Event
from crashcart.model import Evidence, Fact
from crashcart.patch import apply
from crashcart.places import Spot
from crashcart.readers.code.program import Program
from crashcart.readers.code.source import Source
from crashcart.readers.job.config import read_config_text
from crashcart.readers.remedies import remedies_of
from crashcart.readers.remedies._scene import REMEDY, Raise, Scene

if TYPE_CHECKING:
    from pathlib import Path

    from crashcart.model import Fix


def scene(files: dict[str, str], **seen: Any) -> Scene:
    """The scene of a program in the working folder; ``seen`` is what a recording would have told."""
    for path, text in files.items():
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    sources = [Source(path, text) for path, text in files.items() if path.endswith(".py")]
    plan: Any = SimpleNamespace(program=Program(sources, sources[0].path if sources else None), files={*files}, case=Case(), execution=None)  # fmt: skip
    made = Scene(Case(), plan)
    defaults: dict[str, Any] = {"raises": [], "thread_raises": [], "stacks": [], "main_command": [], "has_trained": True}
    for name, value in {**defaults, **seen}.items():
        made.__dict__[name] = value
    return made


def offered(files: dict[str, str], cause: str, **seen: Any) -> list[tuple[Fix, dict[str, str]]]:
    """The fixes for a cause, each with the files as they are after it."""
    found = [fact.value for fact in remedies_of(scene(files, **seen)) if fact.name == REMEDY]
    fixes = [fix for causes, fix in found if cause in causes]
    return [(fix, apply(fix.edits)) for fix in fixes]


def raised(kind: str, words: str, *frames: tuple[str, int, str]) -> Raise:
    """An exception with its own frames."""
    return Raise(kind, words, [Spot(*frame) for frame in frames])


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_renamed_function_is_written_by_its_new_name_everywhere() -> None:
    files = {"m.py": "import numpy as np\n\ndef area(y):\n    return np.trapz(y) + np.trapz(y * 2)\n"}
    error = raised("AttributeError", "module 'numpy' has no attribute 'trapz'", ("m.py", 4, "area"))
    ((fix, after),) = offered(files, "code/version", raises=[error])
    assert after["m.py"].count("np.trapezoid(") == 2
    assert fix.safety == "exact"


def test_a_renamed_argument_is_written_by_its_new_name() -> None:
    text = "from transformers import TrainingArguments\nargs = TrainingArguments('out', evaluation_strategy='steps')\n"
    words = "TrainingArguments.__init__() got an unexpected keyword argument 'evaluation_strategy'"
    ((_, after),) = offered({"t.py": text}, "code/version", raises=[raised("TypeError", words, ("t.py", 2, "<module>"))])
    assert "TrainingArguments('out', eval_strategy='steps')" in after["t.py"]


KINDS = 'import enum\n\nclass Kind(enum.Enum):\n    COSINE = "cosine"\n    RESTARTS = "cosine_restarts"\n\ndef pick(name):\n    return Kind(name)\n'


def test_a_refused_word_becomes_the_one_that_is_spelled_most_like_it() -> None:
    files = {"kinds.py": KINDS, "conf/a.json": '{"phases": [{"schedule": "cosine_restart"}]}\n'}
    error = raised("ValueError", "'cosine_restart' is not a valid Kind", ("kinds.py", 8, "pick"))
    ((_, after),) = offered(files, "config/missing-or-wrong", raises=[error])
    assert after == {"conf/a.json": '{"phases": [{"schedule": "cosine_restarts"}]}\n'}


def test_a_word_that_stands_at_two_places_stays() -> None:
    files = {"kinds.py": KINDS, "a.yaml": "schedule: cosine_restart\n", "b.yaml": "schedule: cosine_restart\n"}
    error = raised("ValueError", "'cosine_restart' is not a valid Kind", ("kinds.py", 8, "pick"))
    assert not offered(files, "config/missing-or-wrong", raises=[error])


def test_an_item_at_which_a_thread_died_is_left_out_and_still_counted() -> None:
    text = "import queue\n\nq = queue.Queue()\n\ndef work():\n    while True:\n        item = q.get()\n        send(item)\n        q.task_done()\n"
    ((_, after),) = offered(
        {"w.py": text}, "hang/dead-thread", thread_raises=[raised("TypeError", "no", ("w.py", 8, "work"))]
    )
    assert (
        "        try:\n            send(item)\n        except Exception:\n            traceback.print_exc()\n        q.task_done()\n"
        in after["w.py"]
    )
    compile(after["w.py"], "w.py", "exec")


def test_a_loop_that_waits_for_nothing_is_not_guarded() -> None:
    text = "def work():\n    while True:\n        send(1)\n"
    assert not offered({"w.py": text}, "hang/dead-thread", thread_raises=[raised("OSError", "no", ("w.py", 3, "work"))])


DRAWN = """import queue, threading

class Drawer(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        self.jobs = queue.Queue(8)

    def add(self, job):
        self.jobs.put(job)

    def run(self):
        while True:
            job = self.jobs.get()
            try:
                draw(job)
            except Exception as problem:
                print(f"{job}: no picture ({problem})")
                return
            self.jobs.task_done()
"""
FED = """from concurrent.futures import ThreadPoolExecutor

def fill(box, names):
    for name in names:
        box.put(load(name))
    box.put(None)

def start(ready, names):
    ThreadPoolExecutor(2).submit(fill, ready, names)

def batch(ready):
    return ready.get()
"""
AT_PUT, AT_GET = [[Spot("d.py", 9, "add")]], [[Spot("f.py", 12, "batch")]]


def test_a_thread_whose_handler_ends_it_goes_on_with_its_next_item() -> None:
    ((_, after),) = offered({"d.py": DRAWN}, "hang/dead-thread", stacks=AT_PUT, stack_texts=[""])
    assert "                pass\n            self.jobs.task_done()" in after["d.py"]


def test_an_exception_that_a_future_hides_is_printed() -> None:
    ((_, after),) = offered({"f.py": FED}, "hang/dead-thread", stacks=AT_GET, stack_texts=[""])
    assert "        try:\n            box.put(load(name))\n        except Exception:\n" in after["f.py"]


@pytest.mark.parametrize(
    ("name", "text", "stacks"),
    [
        ("d.py", DRAWN.replace("return\n", "pass\n"), AT_PUT),
        ("d.py", DRAWN.replace("draw(job)", "done = draw(job)").replace("self.jobs.task_done()", "self.jobs.task_done(done)"), AT_PUT),
        ("f.py", FED.replace("        box.put(load(name))", "        if not name:\n            return\n        box.put(name)").replace("ThreadPoolExecutor(2).submit(fill, ready, names)", "Thread(target=fill, args=(ready, names)).start()"), [[Spot("f.py", 14, "batch")]]),
        ("f.py", FED.replace("    ThreadPool", "    future = ThreadPool") + "    future.result()\n", AT_GET),
    ],
)  # fmt: skip
def test_how_a_thread_ended_may_be_open_and_that_it_ended_is_said(name: str, text: str, stacks: list[list[Spot]]) -> None:
    found = [*remedies_of(scene({name: text}, stacks=stacks, stack_texts=[""]))]
    assert [fact.name for fact in found] == ["code.ended_thread"]


def test_a_thread_that_stands_in_its_function_has_not_ended() -> None:
    text = 'Thread 0x01 (most recent call first):\n  File "d.py", line 13 in run\n'
    assert not [*remedies_of(scene({"d.py": DRAWN}, stacks=AT_PUT, stack_texts=[text]))]


KEPT = """import math, os, torch

class Keeper:
    def __init__(self, folder):
        self.path, self.best = os.path.join(folder, "best.pt"), math.inf

    def offer(self, model, error):
        if error < self.best:
            torch.save(model.state_dict(), self.path)
"""
CALLED = """import torch

def keep(model):
    torch.save(model.state_dict(), f"{folder}/best.pt")

def main(model):
    for epoch in range(9):
        if epoch % 50 == 49:
            keep(model)
"""


@pytest.mark.parametrize(
    ("text", "test", "writer", "compares"),
    [(KEPT, "k.py:8", "k.py:9", True), (CALLED, "k.py:8", "k.py:4", False)],
)
def test_a_missing_file_leads_to_the_line_that_writes_it_and_the_test_before_it(
    text: str, test: str, writer: str, *, compares: bool
) -> None:
    os.makedirs("out")
    error = raised("FileNotFoundError", "[Errno 2] No such file or directory: 'out/best.pt'", ("k.py", 1, "main"))
    (fact,) = remedies_of(scene({"k.py": text}, raises=[error]))
    assert (fact.evidence.where, fact.value["place"].where, fact.value["compares"]) == (test, writer, compares)


LAMBDA = """from torch.optim.lr_scheduler import LambdaLR

def made(optimizer, warm):
    schedule = LambdaLR(optimizer, lambda step: min(step, warm) // warm)
    return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "epoch"}}
"""
RAMP = """class Rate:
    def at(self, n):
        if n < self.warm:
            return self.peak * (n + 1) / (self.warm // self.parts)
        return self.peak * min(1, 9 / n)

    def step(self):
        for group in self.optimizer.param_groups:
            group["lr"] = self.at(self.calls)
"""


def rates(made: float, top: float, steps: int = 500, stepped: int = 5) -> Case:
    """A recorded program with these rates, whose schedule was stepped so often."""
    history = History()
    history.process(5, 1, "program", "python train.py", born=1, steps=steps)
    history.flight.processes[5].page.update({"lr_made": made, "lr_top": top, "lr": top})
    history.flight.events.append(Event(START + 9, "schedule", {"stepped": stepped, "place": "r.py:4 made"}, 5))
    return history.case()


def test_a_warm_up_that_is_always_zero_is_stepped_with_each_batch_and_not_rounded() -> None:
    (fix, after), (alone, _) = offered({"r.py": LAMBDA}, "silent/not-learning", case=rates(0.002, 0.0))
    assert "min(step, warm) / warm)" in after["r.py"]
    assert '"interval": "step"' in after["r.py"]
    assert alone.edits == fix.edits[:1]


@pytest.mark.parametrize(
    ("top", "text"), [(0.12, RAMP), (0.03, RAMP), (0.12, RAMP.replace("(self.warm // self.parts)", "max(1, self.warm)"))]
)
def test_a_ramp_beyond_its_peak_ends_there(top: float, text: str) -> None:
    fixes = offered({"r.py": text}, "numerics/diverged", case=rates(0.03, top))
    assert [after["r.py"] == RAMP.replace("(self.warm // self.parts)", "self.warm") for _, after in fixes] == (
        [True] if top > 0.1 and text is RAMP else []
    )


def test_a_rate_above_that_of_the_optimizer_leads_to_where_it_is_worked_out() -> None:
    found = [fact for fact in remedies_of(scene({"r.py": RAMP}, case=rates(0.03, 0.12))) if fact.name == "code.rate_above"]
    assert [place.where for place in found[0].value["places"]] == ["r.py:9", "r.py:5", "r.py:4"]


PLACES = """from torch import nn

class Net(nn.Module):
    def __init__(self, kinds):
        self.month = nn.Embedding(12, 8)
        self.kind = nn.Embedding(len(kinds), 8)

    def forward(self, code):
        return self.month(code[:, 1]) + self.kind(code[:, 0])
"""


@pytest.mark.parametrize(
    ("columns", "held", "after"),
    [
        ((9, 9, 15, 37), "from 2 to 12", "nn.Embedding(13, 8)"),
        ((9, 9, 40, 61), "from 1 to 12", "nn.Embedding(len(kinds) + 1, 8)"),
        ((9, 9, 40, 61), "from 1 to 99", ""),
        ((9, 9, 15, 37), "from -1 to 11", ""),
    ],
)
def test_an_embedding_gets_a_row_for_the_index_that_came(columns: tuple[int, ...], held: str, after: str) -> None:
    names = {"input": f"Tensor[238] int64 cpu {held}", "weight": "Parameter[12, 8] float32 cpu"}
    history = History(code=1)
    history.process(5, 1, "program", "python train.py", born=1, steps=20)
    history.raised(5, 30, "IndexError", "index out of range in self")
    history.flight.events[-1].details["locals"] = [{"frame": "/torch/functional.py:9 embedding", "names": names}]
    history.gone(5, 30.5, code=1)
    error = raised("IndexError", "index out of range in self", ("n.py", 9, "Net.forward"))
    seen = {"case": history.case(), "raises": [error], "columns": {Spot("n.py", 9, "Net.forward"): columns}}
    assert [after in files["n.py"] for _, files in offered({"n.py": PLACES}, "data/label-range", **seen)] == (
        [True] if after else []
    )


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("def f(s):\n    last = s.history[-1]\n    return last['loss']\n", "last = next(row for row in reversed(s.history) if 'loss' in row)"),
        ("def f(rows):\n    x = 1\n    return rows[0]['loss'] + x\n", "return next(row for row in rows if 'loss' in row)['loss'] + x"),
        ("def f(s):\n    last = s.history[-1] if s.ok else {}\n    return last['loss']\n", ""),
        ("def f(s):\n    last = s.pop()\n    return last['loss']\n", ""),
    ],
)  # fmt: skip
def test_the_nearest_row_with_a_key_is_taken(text: str, after: str) -> None:
    error = raised("KeyError", "'loss'", ("k.py", 3, "f"))
    assert [after in files["k.py"] for _, files in offered({"k.py": text}, "code/bug", raises=[error])] == (
        [True] if after else []
    )
    assert not offered({"k.py": text}, "code/bug", raises=[error], has_trained=False)


LOCKED = """import threading


class Book:
    def __init__(self):
        self.guard = threading.Lock()

    def note(self):
        with self.guard:
            self.flush()

    def flush(self):
        with self.guard:
            pass
"""


def test_a_lock_that_its_thread_takes_twice_becomes_one_that_it_may() -> None:
    stack = [Spot("b.py", 13, "flush"), Spot("b.py", 10, "note")]
    ((_, after),) = offered({"b.py": LOCKED}, "hang/lock-or-io", stacks=[stack])
    assert "self.guard = threading.RLock()" in after["b.py"]


def test_a_file_lock_is_given_back_before_the_call_that_takes_it() -> None:
    text = "def publish(folder):\n    with Guard(folder):\n        write()\n        prune(folder)\n\n\ndef prune(folder):\n    with Guard(folder):\n        remove()\n"
    stack = [Spot("s.py", 8, "prune"), Spot("s.py", 4, "publish")]
    ((_, after),) = offered({"s.py": text}, "hang/lock-or-io", stacks=[stack])
    assert "        write()\n    prune(folder)\n" in after["s.py"]


def test_a_request_gets_a_time_out_where_its_failure_is_caught() -> None:
    text = "import requests\n\ndef send(url):\n    try:\n        requests.post(url, json={})\n    except requests.RequestException:\n        pass\n"
    ((_, after),) = offered({"t.py": text}, "tracker/blocked", stacks=[[Spot("t.py", 5, "send")]])
    assert "requests.post(url, json={}, timeout=10)" in after["t.py"]


def test_a_request_whose_answer_is_used_is_left_alone() -> None:
    text = "import requests\n\ndef rows(urls):\n    for url in urls:\n        answer = requests.get(url)\n        yield answer.json()\n"
    assert not offered({"t.py": text}, "tracker/blocked", stacks=[[Spot("t.py", 5, "rows")]])


def test_the_names_of_a_wrapper_are_taken_off() -> None:
    text = 'import torch\n\ndef load(model, path):\n    model.load_state_dict(torch.load(path)["model"])\n'
    words = 'Error(s) in loading state_dict for Net:\n\tMissing key(s) in state_dict: "a.weight", "a.bias". \n\tUnexpected key(s) in state_dict: "module.a.weight", "module.a.bias". '
    ((fix, after),) = offered({"l.py": text}, "checkpoint/incompatible", raises=[raised("RuntimeError", words, ("l.py", 4, "load"))])  # fmt: skip
    assert '{key.removeprefix("module."): value for key, value in torch.load(path)["model"].items()}' in after["l.py"]
    assert fix.safety == "exact"


def test_another_model_is_not_made_to_fit() -> None:
    text = "def load(model, state):\n    model.load_state_dict(state)\n"
    words = 'Missing key(s) in state_dict: "a.weight". \n\tUnexpected key(s) in state_dict: "b.weight", "c.weight". '
    assert not offered(
        {"l.py": text}, "checkpoint/incompatible", raises=[raised("RuntimeError", words, ("l.py", 2, "load"))]
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x.square().sum(-1).sqrt()", "(x.square().sum(-1) + 1e-12).sqrt()"),
        ("torch.sqrt((x ** 2).sum())", "torch.sqrt((x ** 2).sum() + 1e-12)"),
        ("-(x * x.log()).sum()", "-(x * x.clamp_min(1e-12).log()).sum()"),
        ("-(x * torch.log(x)).sum()", "-(x * torch.log(x.clamp_min(1e-12))).sum()"),
        ("(x - x.mean(0)) / x.std(0)", "(x - x.mean(0)) / (x.std(0) + 1e-8)"),
    ],
)
def test_the_one_unsafe_operation_is_kept_away_from_zero(before: str, after: str) -> None:
    text = f"import torch\n\ndef loss(x):\n    return {before}\n"
    ((_, files),) = offered({"n.py": text}, "numerics/diverged")
    assert f"return {after}\n" in files["n.py"]


@pytest.mark.parametrize(
    "safe", ["(x.square().sum() + 1e-8).sqrt()", "x.clamp(min=1e-6).log()", "x / (x.std(0) + eps)", "math.log(n)"]
)
def test_what_is_bounded_is_left_alone(safe: str) -> None:
    assert not offered({"n.py": f"import math\n\ndef loss(x, n, eps):\n    return {safe}\n"}, "numerics/diverged")


def test_of_two_unsafe_operations_both_are_kept_away_from_zero_and_of_many_nobody_knows() -> None:
    text = "def loss(x, y):\n    return x.log() + y.square().sum().sqrt()\n"
    ((_, after),) = offered({"n.py": text}, "numerics/diverged")
    assert "x.clamp_min(1e-12).log() + (y.square().sum() + 1e-12).sqrt()" in after["n.py"]
    assert not offered({"n.py": text, "m.py": text}, "numerics/diverged")


def test_what_only_prepares_data_is_no_reason_for_a_gradient() -> None:
    loss = "def loss(x):\n    return x.square().sum().sqrt()\n"
    data = "def grow(x):\n    return x / x.mean()\n\ndef main(x):\n    x = grow(x)\n    for i in x:\n        loss(i).backward()\n"
    ((_, after),) = offered({"n.py": loss, "main.py": data}, "numerics/diverged")
    assert [*after] == ["n.py"]


def test_a_file_that_a_daemon_writes_is_waited_for() -> None:
    text = "import threading\n\ndef write(path):\n    open(path, 'wb').write(b'x')\n\ndef save(path):\n    threading.Thread(target=write, args=(path,), daemon=True).start()\n"
    ((_, after),) = offered({"s.py": text}, "checkpoint/corrupt")
    assert "daemon=False" in after["s.py"]


STATES = """import torch

def keep(path, model, optimizer):
    state = {"model": model.state_dict(), "optim": optimizer.state_dict()}
    torch.save(state, path)

def restore(path, model, optimizer):
    state = torch.load(path)
    model.load_state_dict(state["model"])
    for name, thing in (("optimizer", optimizer),):
        if name in state:
            thing.load_state_dict(state[name])
"""


def test_a_state_is_looked_for_under_the_name_that_it_was_saved_under() -> None:
    ((_, after),) = offered({"s.py": STATES}, "silent/resume-state-lost")
    assert """for name, thing in (("optim", optimizer),):""" in after["s.py"]
    for right in ('("optim", optimizer)', '("schedule", optimizer)'):
        assert not offered({"s.py": STATES.replace('("optimizer", optimizer)', right)}, "silent/resume-state-lost")


OPENED = """class Vault:
    def save(self, step, pieces):
        self.stream = open(f"{step}.pt", "wb")
        for piece in pieces:
            self.stream.write(piece)
        print(step)
"""


def test_a_file_that_nobody_closes_is_closed_when_it_is_written() -> None:
    ((_, after),) = offered({"v.py": OPENED}, "checkpoint/corrupt")
    assert "            self.stream.write(piece)\n        self.stream.close()\n        print(step)" in after["v.py"]
    assert not offered({"v.py": OPENED + "\n    def end(self):\n        self.stream.close()\n"}, "checkpoint/corrupt")


def test_a_daemon_that_writes_for_ever_stays_one() -> None:
    text = "import threading\n\ndef write(q):\n    while True:\n        f.write(q.get())\n\nthreading.Thread(target=write, daemon=True).start()\n"
    assert not offered({"s.py": text}, "checkpoint/corrupt")


def test_an_archive_is_read_and_closed() -> None:
    text = "import numpy as np\n\nclass D:\n    def get(self, i):\n        self.open[i] = np.load(f'{i}.npz')\n"
    error = raised("OSError", "[Errno 24] Too many open files: '7.npz'", ("d.py", 5, "get"))
    ((_, after),) = offered({"d.py": text}, "host-memory/fds", raises=[error])
    assert "self.open[i] = dict(np.load(f'{i}.npz'))" in after["d.py"]


def test_a_text_for_a_number_is_written_as_one_where_the_failing_line_names_it() -> None:
    files = {"t.py": "def rate(s, x):\n    return max(s.min_lr, x)\n", "c.yaml": "min_lr: 1e-5\nname: 2e3\n"}
    words = "'>' not supported between instances of 'float' and 'str'"
    ((_, after),) = offered(files, "config/type", raises=[raised("TypeError", words, ("t.py", 2, "rate"))])
    assert after == {"c.yaml": "min_lr: 1.0e-5\nname: 2e3\n"}


def test_samples_of_another_kind_than_the_rest_are_only_left_out_after_steps() -> None:
    text = "class D:\n    def __len__(self):\n        return 3\n\n    def __getitem__(self, i):\n        return read(i)\n"
    error = raised("BadZipFile", "File is not a zip file", ("d.py", 6, "__getitem__"))
    assert not offered({"d.py": text}, "data/corrupt-or-missing", raises=[error], has_trained=False)
    ((_, after),) = offered({"d.py": text}, "data/corrupt-or-missing", raises=[error], has_trained=True)
    assert "return self[(i + 1) % len(self)]" in after["d.py"]


def test_a_flag_of_the_training_is_given_to_the_sampler_too() -> None:
    files = {
        "sample.py": "class S:\n    width: int = 32\n",
        "run.sh": "python train.py --width 40\npython sample.py --bars 4\n",
    }
    words = "size mismatch for a: copying a param with shape torch.Size([10, 40]) from checkpoint, the shape in current model is torch.Size([10, 32])."
    seen = {
        "raises": [raised("RuntimeError", words, ("sample.py", 1, "main"))],
        "main_command": ["python", "sample.py", "--bars", "4"],
    }
    ((_, after),) = offered(files, "checkpoint/incompatible", **seen)
    assert after["run.sh"].endswith("python sample.py --bars 4 --width 40\n")


def test_a_tokenizer_with_added_tokens_is_counted_whole() -> None:
    text = "from transformers import LlamaConfig\nconfig = LlamaConfig(vocab_size=tokenizer.vocab_size)\n"
    error = raised("IndexError", "index out of range in self", ("t.py", 2, "<module>"))
    ((_, after),) = offered({"t.py": text}, "data/label-range", raises=[error])
    assert "vocab_size=len(tokenizer)" in after["t.py"]


@pytest.mark.parametrize(
    ("text", "error", "after"),
    [
        ("LIMIT = 3\n\ndef take(q):\n    return q.get(timeout=LIMIT)\n", raised("Empty", "", ("t.py", 4, "take")), "LIMIT = 30\n"),
        ("import subprocess\n\ndef f():\n    subprocess.run(['x'], timeout=2.5)\n", raised("TimeoutExpired", "Command 'x' timed out after 2.5 seconds", ("t.py", 4, "f")), "timeout=25)"),
        ("from torch.utils.data import DataLoader\n\nloader = DataLoader(data, timeout=5)\n", raised("RuntimeError", "DataLoader timed out after 5 seconds", ("t.py", 9, "f")), "timeout=50)"),
    ],
)  # fmt: skip
def test_a_time_out_that_was_too_short_is_ten_times_as_long(text: str, error: Raise, after: str) -> None:
    ((_, files),) = offered({"t.py": text}, "code/bug", raises=[error])
    assert after in files["t.py"]


def test_a_time_out_of_another_call_stays() -> None:
    text = "def f(q, r):\n    r.get(timeout=3)\n    return q.get()\n"
    assert not offered({"t.py": text}, "code/bug", raises=[raised("Empty", "", ("t.py", 3, "f"))])


def test_a_file_with_almost_the_same_name_is_meant() -> None:
    files = {
        "t.py": "def f(path):\n    return open(path)\n",
        "run.sh": "python t.py --data data/trian.jsonl\n",
        "data/train.jsonl": "",
    }
    error = raised("FileNotFoundError", "[Errno 2] No such file or directory: 'data/trian.jsonl'", ("t.py", 2, "f"))
    ((_, after),) = offered(files, "config/missing-or-wrong", raises=[error])
    assert after == {"run.sh": "python t.py --data data/train.jsonl\n"}


def test_a_file_of_another_number_is_not_meant() -> None:
    files = {"t.py": "def f(path):\n    return open(path)\n", "run.sh": "python t.py runs/seed2.pt\n", "runs/seed1.pt": ""}
    error = raised("FileNotFoundError", "[Errno 2] No such file or directory: 'runs/seed2.pt'", ("t.py", 2, "f"))
    assert not offered(files, "config/missing-or-wrong", raises=[error])


def test_the_folder_of_a_file_is_made_before_it_is_written() -> None:
    text = (
        "import json\n\ndef note(out, row):\n    with open(out + '/log.txt', 'a') as file:\n        json.dump(row, file)\n"
    )
    error = raised("FileNotFoundError", "[Errno 2] No such file or directory: 'out/log.txt'", ("t.py", 4, "note"))
    ((_, after),) = offered({"t.py": text}, "config/missing-or-wrong", raises=[error])
    assert """    os.makedirs(os.path.dirname(out + '/log.txt') or ".", exist_ok=True)\n    with open(""" in after["t.py"]
    assert after["t.py"].startswith("import os\n")


@pytest.mark.parametrize(
    ("line", "words", "after"),
    [
        (
            "y = x.numpy()",
            "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
            "y = x.detach().numpy()",
        ),
        (
            "weight.add_(x)",
            "a leaf Variable that requires grad is being used in an in-place operation.",
            "with torch.no_grad():\n        weight.add_(x)",
        ),
        ("y = net(x)", "mat1 and mat2 must have the same dtype, but got Double and Float", "y = net(x.float())"),
        ("y = F.cross_entropy(x, t)", "expected scalar type Long but found Int", "y = F.cross_entropy(x, t.long())"),
    ],
)
def test_a_line_that_torch_refuses_is_written_as_its_message_asks(line: str, words: str, after: str) -> None:
    text = f"import torch\nimport torch.nn.functional as F\n\ndef f(x, t, net, weight):\n    {line}\n"
    fixes = offered({"t.py": text}, "code/bug", raises=[raised("RuntimeError", words, ("t.py", 5, "f"))])
    assert [files["t.py"].split(":\n", 1)[1] for _, files in fixes] == [f"    {after}\n"]


@pytest.mark.parametrize(
    ("text", "line", "cut"),
    [
        (
            "import torch\n\ndef f(model, loader, h):\n    for x in loader:\n        y, h = model(x, h)\n        y.sum().backward()\n",
            6,
            "y.sum().backward()\n        h = tuple(part.detach() for part in h) if isinstance(h, tuple) else h.detach()",
        ),
        (
            "class L:\n    def step(self, x):\n        y, self.carry = self.net(x, carry=self.carry)\n        y.sum().backward()\n",
            4,
            "y.sum().backward()\n        self.carry = tuple(",
        ),
    ],
)
def test_a_state_that_goes_on_is_cut_off_from_its_graph(text: str, line: int, cut: str) -> None:
    words = "Trying to backward through the graph a second time"
    ((_, after),) = offered({"t.py": text}, "code/autograd", raises=[raised("RuntimeError", words, ("t.py", line, "f"))])
    assert cut in after["t.py"]
    compile(after["t.py"], "t.py", "exec")


def test_two_states_that_go_on_stay() -> None:
    text = (
        "def f(a, b, loader):\n    for x in loader:\n        a = g(x, a)\n        b = g(x, b)\n        (a + b).backward()\n"
    )
    words = "Trying to backward through the graph a second time"
    assert not offered({"t.py": text}, "code/autograd", raises=[raised("RuntimeError", words, ("t.py", 5, "f"))])


ALONE = (
    "import torch\nimport torch.distributed as dist\n\ndef main(model, loader, stop):\n    for epoch in range(9):\n"
    "        for x in loader:\n            model(x).sum().backward()\n        if stop.update(score(model)):\n            break\n    dist.barrier()\n"
)


def test_ranks_leave_a_loop_together() -> None:
    stacks = [[Spot("t.py", 7, "main")], [Spot("t.py", 10, "main")]]
    ((fix, after),) = offered({"t.py": ALONE}, "distributed/desync", stacks=stacks, ranks=2, is_on_gpu=False)
    assert fix.safety == "changes-training"
    assert (
        "        leaving = torch.tensor(float(bool(stop.update(score(model)))))\n"
        "        dist.all_reduce(leaving, op=dist.ReduceOp.MAX)\n        if leaving.item():\n" in after["t.py"]
    )
    ((_, after),) = offered({"t.py": ALONE}, "distributed/desync", stacks=stacks, ranks=2, is_on_gpu=True)
    assert 'device="cuda")' in after["t.py"]


@pytest.mark.parametrize(
    "stacks",
    [
        [[Spot("t.py", 7, "main")], [Spot("t.py", 7, "main")]],  # both are in the loop
        [[Spot("t.py", 10, "main")], [Spot("t.py", 10, "main")]],
    ],
)
def test_a_loop_that_nobody_left_alone_stays(stacks: list[list[Spot]]) -> None:
    assert not offered({"t.py": ALONE}, "distributed/desync", stacks=stacks, ranks=2, is_on_gpu=False)


def test_a_test_that_a_rank_may_not_come_to_is_only_named() -> None:
    text = ALONE.replace("        if stop", "        if epoch % 2:\n            continue\n        if stop")
    stacks = [[Spot("t.py", 7, "main")], [Spot("t.py", 12, "main")]]
    found = remedies_of(scene({"t.py": text}, stacks=stacks, ranks=2, is_on_gpu=False))
    assert [(fact.name, fact.evidence.where) for fact in found] == [("code.loop_left_alone", "t.py:10")]


def without_graph(text: str, line: int) -> list[str]:
    words = "element 0 of tensors does not require grad and does not have a grad_fn"
    fixes = offered({"t.py": text}, "code/autograd", raises=[raised("RuntimeError", words, ("t.py", line, "<module>"))])
    return [after["t.py"] for _, after in fixes]


CUT = "import torch\n\nclass Net(torch.nn.Module):\n    @torch.no_grad()\n    def forward(self, x):\n        return self.f(x)\n\nnet = Net()\nloss = net(x).mean()\nloss.backward()\n"


def test_what_cuts_a_graph_is_taken_away_where_it_is_one_place() -> None:
    (after,) = without_graph(CUT, 10)
    assert "no_grad" not in after
    (after,) = without_graph("import torch\nlosses = f(net(x))\nloss = torch.tensor(losses.item())\nloss.backward()\n", 4)
    assert "loss = losses\n" in after
    assert not without_graph(CUT.replace("net(x).mean()", "net(x).detach().mean()"), 10)  # one of two may be meant


def test_a_metric_is_asked_for_by_the_name_under_which_it_is_logged() -> None:
    text = "trainer = Trainer(callbacks=[EarlyStopping('val_loss', patience=2)])\ntrainer.fit(model)\n"
    words = (
        "Early stopping conditioned on metric `val_loss` which is not available. Pass in or modify your `EarlyStopping` callback "
        "to use any of the following: `valid/loss`, `valid/acc`"
    )
    error = raised("RuntimeError", words, ("t.py", 2, "<module>"))
    ((fix, after),) = offered({"t.py": text}, "silent/eval-empty", raises=[error])
    assert "EarlyStopping('valid/loss', patience=2)" in after["t.py"]
    assert fix.safety == "exact"
    error = raised("RuntimeError", words.replace("`valid/acc`", "`test/loss`"), ("t.py", 2, "<module>"))
    assert not offered({"t.py": text}, "silent/eval-empty", raises=[error])  # two that could be meant


def test_weights_that_came_after_the_optimizer_are_given_to_it() -> None:
    text = "import torch\n\nopt = torch.optim.Adam(model.parameters())\nmodel.head = new\nfor x in data:\n    opt.zero_grad()\n    opt.step()\n"
    ((_, after),) = offered({"t.py": text}, "silent/not-learning", optimizer_without_gradients=True)
    assert 'opt.add_param_group({"params": new})\nfor x in data:' in after["t.py"]
    assert not offered({"t.py": text}, "silent/not-learning", optimizer_without_gradients=False)


def test_a_window_that_is_never_full_steps_at_the_end_of_the_loader() -> None:
    text = "for i, x in enumerate(loader):\n    loss.backward()\n    if (i + 1) % n == 0:\n        optimizer.step()\n"
    ((_, after),) = offered({"t.py": text}, "silent/nothing-trained", has_trained=False)
    assert "if (i + 1) % n == 0 or i + 1 == len(loader):" in after["t.py"]


def test_a_port_of_each_rank_is_its_own() -> None:
    text = "from prometheus_client import start_http_server\n\ndef serve():\n    start_http_server(9100)\n"
    error = raised("OSError", "[Errno 98] Address already in use", ("t.py", 4, "serve"))
    ((_, after),) = offered({"t.py": text}, "code/bug", raises=[error], ranks=2)
    assert 'start_http_server(9100 + int(os.environ.get("LOCAL_RANK", "0")))' in after["t.py"]
    assert not offered({"t.py": text}, "code/bug", raises=[error], ranks=1)


def test_an_array_that_nothing_writes_into_is_read_from_its_file() -> None:
    text = "import numpy as np\n\nclass D:\n    def __init__(self, path):\n        self.x = np.load(f'{path}/x.npy')\n\n    def __getitem__(self, i):\n        return self.x[i]\n"
    ((fix, after),) = offered({"d.py": text}, "host-memory/oom-kill")
    assert "np.load(f'{path}/x.npy', mmap_mode=\"r\")" in after["d.py"]
    assert fix.safety == "exact"
    assert not offered({"d.py": text + "\n    def scale(self):\n        self.x[0] = 1\n"}, "host-memory/oom-kill")


def test_data_that_end_as_float32_are_held_so() -> None:
    text = "import numpy as np\nimport torch\n\nclass D:\n    def __getitem__(self, i):\n        return torch.from_numpy(read(i).astype(np.float64)).float()\n"
    ((_, after),) = offered({"d.py": text}, "host-memory/oom-kill")
    assert "astype(np.float32)" in after["d.py"]


def test_a_number_of_numpy_is_written_as_json() -> None:
    text = "import json\n\ndef put(file, row):\n    json.dump(row, file)\n"
    error = raised("TypeError", "Object of type float32 is not JSON serializable", ("t.py", 4, "put"))
    ((fix, after),) = offered({"t.py": text}, "code/bug", raises=[error])
    assert "json.dump(row, file, default=lambda value: value.tolist())" in after["t.py"]
    assert fix.safety == "exact"


def test_what_is_exact_is_offered_before_what_changes_the_training() -> None:
    text = "import json\n\ndef work(q):\n    while True:\n        row = q.get()\n        json.dumps(row)\n"
    error = raised("TypeError", "Object of type float32 is not JSON serializable", ("t.py", 6, "work"))
    fixes = offered({"t.py": text}, "hang/dead-thread", thread_raises=[error])
    assert [fix.safety for fix, _ in fixes] == ["exact", "changes-training"]


def test_an_iterator_that_has_ended_begins_again() -> None:
    text = "def train(loader):\n    batches = iter(loader)\n    for step in range(90):\n        x, y = next(batches)\n"
    error = raised("StopIteration", "", ("t.py", 4, "train"))
    ((_, after),) = offered({"t.py": text}, "code/bug", raises=[error])
    assert (
        "        except StopIteration:  # the next epoch\n            batches = iter(loader)\n            x, y = next(batches)"
        in after["t.py"]
    )
    assert not offered({"t.py": text}, "code/bug", raises=[error], has_trained=False)


def test_a_schedule_ends_where_it_does() -> None:
    text = "def train(schedule):\n    for step in range(90):\n        schedule.step()\n"
    error = raised("ValueError", "Tried to step 81 times. The specified number of total steps is 80", ("t.py", 3, "train"))
    ((_, after),) = offered({"t.py": text}, "code/bug", raises=[error])
    assert "        if schedule.last_epoch < schedule.total_steps:\n            schedule.step()" in after["t.py"]


def test_a_target_that_marks_nothing_is_left_out_of_the_loss() -> None:
    text = "import torch.nn.functional as F\n\ndef loss(x, y):\n    return F.cross_entropy(x, y)\n"
    ((_, after),) = offered({"t.py": text}, "data/label-range", raises=[raised("IndexError", "Target -1 is out of bounds.", ("t.py", 4, "loss"))])  # fmt: skip
    assert "F.cross_entropy(x, y, ignore_index=-1)" in after["t.py"]
    assert not offered({"t.py": text}, "data/label-range", raises=[raised("IndexError", "Target 10 is out of bounds.", ("t.py", 4, "loss"))])  # fmt: skip


RANKS = """import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def train(net, loader):
    model = DistributedDataParallel(net)
    for x in loader:
        model(x).sum().backward()
    dist.barrier()
"""


def test_a_rank_without_a_batch_answers_the_others() -> None:
    stacks = [[Spot("t.py", 8, "train")], [Spot("t.py", 9, "train")]]
    ((_, after),) = offered({"t.py": RANKS}, "distributed/desync", stacks=stacks)
    assert "    with model.join():\n        for x in loader:\n            model(x)" in after["t.py"]
    assert not offered({"t.py": RANKS}, "distributed/desync", stacks=[stacks[0], stacks[0]])
    counted = RANKS.replace("in loader", "in range(9)")
    assert not offered({"t.py": counted}, "distributed/desync", stacks=stacks)


def test_a_checkpoint_of_the_project_is_read_whole() -> None:
    text = "import torch\n\ndef save(x):\n    torch.save(x, 'a.pt')\n\ndef load():\n    return torch.load('a.pt')\n"
    words = "Weights only load failed. This file can still be loaded"
    ((_, after),) = offered({"t.py": text}, "checkpoint/incompatible", raises=[raised("UnpicklingError", words, ("t.py", 7, "load"))])  # fmt: skip
    assert "torch.load('a.pt', weights_only=False)" in after["t.py"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("(x * mask).sum() / mask.sum()", "(x * mask).sum() / mask.sum().clamp_min(1)"),
        ("x.masked_fill(mask, float('-inf')).softmax(-1)", "x.masked_fill(mask, torch.finfo(x.dtype).min).softmax(-1)"),
    ],
)
def test_a_mask_of_which_nothing_is_left_gives_no_nan(before: str, after: str) -> None:
    ((_, files),) = offered({"n.py": f"import torch\n\ndef f(x, mask):\n    return {before}\n"}, "numerics/diverged")
    assert f"return {after}\n" in files["n.py"]


def test_a_key_that_is_spelled_almost_like_the_one_that_is_asked_for_is_renamed() -> None:
    files = {"t.py": "def f(c):\n    return c['weight_decay'], c['lr']\n", "c.yaml": "lr: 0.1\nweight_deacy: 0.01\n"}
    error = raised("KeyError", "'weight_decay'", ("t.py", 2, "f"))
    ((_, after),) = offered(files, "config/missing-or-wrong", raises=[error])
    assert after == {"c.yaml": "lr: 0.1\nweight_decay: 0.01\n"}


def test_a_process_whose_pipe_is_full_is_read() -> None:
    text = (
        "import subprocess\n\ndef f():\n    process = subprocess.Popen(['x'], stdout=subprocess.PIPE)\n    process.wait()\n"
    )
    ((_, after),) = offered({"t.py": text}, "hang/lock-or-io", stacks=[[Spot("t.py", 5, "f")]])
    assert "    process.communicate()\n" in after["t.py"]


def test_a_queue_that_is_full_takes_more_where_nobody_died() -> None:
    text = "import queue\n\nready = queue.Queue(maxsize=2)\n\ndef f(x):\n    ready.put(x)\n"
    ((_, after),) = offered({"t.py": text}, "hang/lock-or-io", stacks=[[Spot("t.py", 6, "f")]])
    assert "queue.Queue(maxsize=0)" in after["t.py"]
    died = raised("KeyError", "1", ("t.py", 6, "f"))
    assert not offered({"t.py": text}, "hang/lock-or-io", stacks=[[Spot("t.py", 6, "f")]], thread_raises=[died])


def test_a_row_without_a_number_is_left_out_but_no_setting() -> None:
    text = "def read(path, found):\n    for row in open(path):\n        found.append(float(row))\n"
    error = raised("ValueError", "could not convert string to float: 'n/a'", ("t.py", 3, "read"))
    ((_, after),) = offered({"t.py": text}, "data/corrupt-or-missing", raises=[error])
    assert "        try:\n            found.append(float(row))\n        except Exception as problem:" in after["t.py"]
    settings = text.replace("open(path)", "overrides")
    assert not offered({"t.py": settings}, "data/corrupt-or-missing", raises=[error])


@pytest.mark.parametrize(("horizon", "offers"), [(96, True), (64, False)])
def test_a_window_that_no_recording_has_room_for_becomes_the_shortest(horizon: int, offers: bool) -> None:  # noqa: FBT001 - a parameter of the test
    error = raised("RuntimeError", "random_ expects 'from' to be less than 'to', but got from=0 >= to=0", ("t.py", 1, "f"))
    made = scene({"t.py": "f()\n", "c.yaml": f"horizon: {horizon}\nsteps: 80\n"}, raises=[error])
    with open("c.yaml", encoding="utf-8") as file:
        made.plan.case.facts = {fact.name: fact for fact in read_config_text(file.read(), "c.yaml")}
    tables = {"tables": {"": {"kind": "array", "tables": [([40, 7], 1), ([95, 7], 1)]}}}
    made.plan.case.seen["data.tables"] = [Fact("data.tables", tables, Evidence("data", "", "episodes"))]
    fixes = [fix for causes, fix in (fact.value for fact in remedies_of(made)) if "data/empty-or-short" in causes]
    assert [apply(fix.edits)["c.yaml"] for fix in fixes] == (["horizon: 39\nsteps: 80\n"] if offers else [])
