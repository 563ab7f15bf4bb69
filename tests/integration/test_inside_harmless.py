"""A program cannot tell that the inside part is there."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest
from inside_job import SET_UP, SITE, environment, run

if TYPE_CHECKING:
    from pathlib import Path
pytest.importorskip("torch")

pytestmark = pytest.mark.processes


def test_the_program_computes_the_same_to_the_bit_and_prints_the_same(tmp_path: Path) -> None:
    code = (
        SET_UP
        + """
scaler = torch.amp.GradScaler("cpu")
for epoch in range(3):
    for inputs, targets in DataLoader(data, batch_size=8, shuffle=True, num_workers=epoch % 2):
        loss = step(inputs, targets)
        print(loss.item().hex())
        optimizer.zero_grad()
        scaler.scale((model(inputs) - targets).square().mean()).backward()
        scaler.step(optimizer)
        scaler.update()
    evaluate(DataLoader(data, batch_size=8))
torch.save(model.state_dict(), "model.pt")
print([p.double().sum().item().hex() for p in model.parameters()], torch.get_rng_state().sum(), sys.excepthook.__name__)
import inspect, pickle
print(inspect.signature(torch.save), inspect.signature(torch.Tensor.backward), inspect.signature(nn.Module.train))
print(pickle.loads(pickle.dumps(torch.save)) is torch.save, inspect.getsourcefile(torch), torch.__loader__.exec_module.__name__)
try:
    import sitecustomize
except ModuleNotFoundError as error:
    print(error)
sys.exit(3)
"""
    )
    with_us, bare = run(tmp_path, code), run(tmp_path, code, inside=False)
    assert (with_us.code, with_us.out, with_us.err) == (bare.code, bare.out, bare.err)
    assert with_us.code == 3


def test_the_program_s_own_sitecustomize_and_hooks_still_work(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text(
        "import sys\nsys.mine = __name__, __file__\nsys.times = getattr(sys, 'times', 0) + 1\n"
    )
    job = run(
        tmp_path,
        """
        import signal, sys, sitecustomize, threading
        print(sys.mine, sys.times, sitecustomize.__file__)
        def mine(kind, error, trace):
            print("mine", error)
        sys.excepthook = mine
        seen = []
        signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))
        signal.raise_signal(signal.SIGUSR1)
        print(seen)
        raise ValueError("theirs")
        """,
        PYTHONPATH=str(own),
    )
    file = str(own / "sitecustomize.py")
    assert job.out.splitlines() == [f"{('sitecustomize', file)} 1 {file}", "[1]", "mine theirs"]
    assert job.err == ""
    assert [e["message"] for e in job.first.of("exception")] == ["theirs"]


def test_a_sitecustomize_that_fails_is_reported_as_without_us(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import json\nraise ValueError('their mistake')\n")
    job = run(tmp_path, "print('goes on')", PYTHONPATH=str(own))
    assert job.out == "goes on\n"
    assert "ValueError: their mistake" in job.err


@pytest.mark.parametrize("flags", [["-I"], ["-E"], ["-S"], ["-s"], ["-B"], ["-X", "dev"], ["-W", "error"]])
def test_interpreter_flags_do_no_harm(tmp_path: Path, flags: list[str]) -> None:
    job = run(tmp_path, "print('fine')", *flags)
    assert (job.code, job.out, job.err) == (0, "fine\n", "")


@pytest.mark.parametrize("live", ["/does/not/exist", "", "/dev/null", "/proc"])
def test_a_live_folder_that_cannot_be_used_is_no_matter(tmp_path: Path, live: str) -> None:
    variables = {**environment(tmp_path / "live"), "CRASHCART_LIVE": live}
    done = subprocess.run(
        [sys.executable, "-c", "import threading, os; os.fork() and os.wait(); os.write(1, b'fine\\n')"],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\nfine\n", "")


def test_the_pth_line_starts_the_same_once_and_nothing_without_being_asked(tmp_path: Path) -> None:
    line = (SITE.parent / "crashcart_inside.pth").read_text()
    program = f"""
import sys
import textwrap
for _ in range(2):
    exec({line!r})
print([name for name in sys.modules if name.endswith(".boot")], sum("_Finder" in repr(finder) for finder in sys.meta_path))
"""
    job = run(tmp_path, program, "-I")
    assert job.out == "['_crashcart_inside.boot'] 1\n"
    assert len(job.first.of("hello")) == 1
    assert run(tmp_path, program).out == "['_crashcart_inside.boot'] 1\n"
    assert run(tmp_path, program, inside=False).out == "[] 0\n"


def test_forks_threads_and_closed_handles(tmp_path: Path) -> None:
    job = run(
        tmp_path,
        """
        import os, threading, sys
        os.closerange(3, 2000)
        files = [open(f"own{n}", "w") for n in range(20)]
        def child():
            pid = os.fork()
            if not pid:
                os._exit(0)
            os.waitpid(pid, 0)
        threads = [threading.Thread(target=child) for _ in range(5)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        os.kill(os.getpid(), int(os.environ["CRASHCART_SIGNAL"]))
        print(sum(os.path.getsize(f"own{n}") for n in range(20)))
        """,
    )
    assert (job.code, job.out) == (0, "0\n")
    assert len(job.processes) == 6
    assert all(process.of("hello") for process in job.processes)


@pytest.mark.sample(1)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_torch_compile_sees_no_difference(tmp_path: Path, backend: str) -> None:
    code = (
        SET_UP
        + f"""
import torch._dynamo.utils as utils

@torch.compile(backend={backend!r})
def change():
    optimizer.step()

try:  # torch's own optimizers break the graph themselves, so a full graph is refused: with the same words
    torch.compile(optimizer.step, backend={backend!r}, fullgraph=True)()
except torch._dynamo.exc.Unsupported as error:
    print(str(error).partition("from user code")[0])

compiled = torch.compile(model, backend={backend!r}, fullgraph=True)
for epoch in range(2):
    for inputs, targets in DataLoader(data, batch_size=6):
        loss = (compiled(inputs) - targets).square().mean()
        loss.backward()
        change()
        optimizer.zero_grad()
        print(loss.item().hex())
    compiled.eval()
    compiled.train()

@torch.compile(backend={backend!r})
def whole(inputs, targets):
    model.train()
    loss = (model(inputs) - targets).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss

for inputs, targets in DataLoader(data, batch_size=6):
    print(whole(inputs, targets).item().hex())
print(dict(utils.counters["graph_break"]), dict(utils.counters["stats"]))
"""
    )
    with_us, bare = run(tmp_path, code), run(tmp_path, code, inside=False)
    assert (with_us.code, bare.code) == (0, 0)
    assert with_us.out == bare.out


def same(folder: Path, code: str, *before: str) -> str:
    """What a program prints, which must be the same with the inside part and without."""
    with_us, bare = run(folder, code, *before), run(folder, code, *before, inside=False)
    assert (with_us.code, with_us.out, with_us.err) == (bare.code, bare.out, bare.err)
    return bare.out + bare.err


def test_our_frames_are_in_no_traceback_and_no_warning(tmp_path: Path) -> None:
    shown = same(
        tmp_path,
        SET_UP
        + """
import faulthandler, logging, traceback, warnings
from torch.utils.data import Dataset
logging.basicConfig(format="%(levelname)s %(message)s")
warnings.simplefilter("always")

class Broken(Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, index):
        if torch.utils.data.get_worker_info() is None:
            traceback.print_stack(limit=4)
        raise KeyError(index)

def attempt(function):
    try:
        function()
    except Exception as error:
        traceback.print_exc()
        logging.exception("it failed")
        print(traceback.format_exc(), traceback.extract_tb(error.__traceback__), sys.exc_info()[2].tb_lineno)

attempt(lambda: torch.save({}, "no/such/folder/model.pt"))
attempt(lambda: torch.load("missing.pt"))
attempt(lambda: torch.optim.SGD([], lr=1.0))
attempt(lambda: list(DataLoader(Broken(), num_workers=0)))
attempt(lambda: list(DataLoader(Broken(), num_workers=1)))

class Reader:
    def __init__(self):
        self.file = open("model.pt", "rb")
    def __getattr__(self, name):
        return getattr(self.file, name)
    def seek(self, *args):
        for level in range(1, 9):
            warnings.warn("seek", stacklevel=level)
        return self.file.seek(*args)
    def tell(self): return self.file.tell()
    def read(self, *args): return self.file.read(*args)
    def readline(self): return self.file.readline()
    def readinto(self, *args): return self.file.readinto(*args)

torch.save({"a": torch.zeros(2)}, "model.pt")
torch.load(Reader())
print(faulthandler.is_enabled())
faulthandler.enable()
print(faulthandler.is_enabled(), faulthandler.disable(), faulthandler.disable(), faulthandler.is_enabled())
""",
    )
    assert "KeyError" in shown
    assert "UserWarning: seek" in shown
    assert "crashcart" not in shown


@pytest.mark.sample(1)
@pytest.mark.parametrize("tool", ["profiler", "function mode", "dispatch mode"])
def test_whoever_counts_operations_counts_only_the_program_s(tmp_path: Path, tool: str) -> None:
    shown = same(
        tmp_path,
        SET_UP
        + f"""
from collections import Counter
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
counted = Counter()

class Functions(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        counted[getattr(function, "__name__", str(function))] += 1
        return function(*args, **(kwargs or {{}}))

class Operations(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        counted[str(function)] += 1
        return function(*args, **(kwargs or {{}}))

tool = {tool!r}
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # where the profiler writes the time of day
scaler = torch.amp.GradScaler("cpu")
mode = torch.profiler.profile() if tool == "profiler" else Functions() if tool == "function mode" else Operations()
with mode:
    for inputs, targets in DataLoader(data, batch_size=6):
        optimizer.zero_grad()
        loss = (model(inputs) - targets).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        step(inputs, targets)
if tool == "profiler":
    counted.update({{event.key: event.count for event in mode.key_averages()}})
print(sorted(counted.items()))
""",
    )
    assert "mse" in shown or "square" in shown or "pow" in shown


def test_what_a_signal_handler_raises_in_one_of_our_hooks_reaches_the_program(tmp_path: Path) -> None:
    """A handler runs between any two instructions, ours included; an alarm in each of many steps meets all of them."""
    job = run(
        tmp_path,
        SET_UP
        + """
import signal

class Preempted(Exception):
    pass

def handler(number, frame):
    met.add("inside" in frame.f_code.co_filename)
    raise Preempted

met, raised, delay = set(), 0, 1e-6
signal.signal(signal.SIGALRM, handler)
batches = list(DataLoader(data, batch_size=8))
while not (True in met and raised > 300) and raised < 20000:
    torch.set_grad_enabled(True)  # torch itself may be interrupted where it has switched them off
    inputs, targets = batches[0]
    loss = (model(inputs) - targets).square().mean()
    try:
        signal.setitimer(signal.ITIMER_REAL, delay)
        loss.backward(retain_graph=True)
        optimizer.step()
        while True:
            loss.backward
    except Preempted:
        raised += 1
        delay = 1e-6 + (delay * 1.37) % 2e-3
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
print(True in met, raised > 300)
""",
    )
    assert (job.code, job.out) == (0, "True True\n"), job.err


def test_a_hook_that_fails_is_switched_off_and_the_program_goes_on(tmp_path: Path) -> None:
    code = """
        import sys, torch
        from torch import nn
        from torch.utils.data import DataLoader
        losses = sys.modules.get("_crashcart_inside.losses")
        batches = sys.modules.get("_crashcart_inside.batches")
        calls = []
        def broken(*_):
            calls.append(1)
            raise ValueError("our bug")
        if losses:
            losses.look = broken
            batches._look_into = broken
        model = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for batch in DataLoader(torch.ones(8, 2), batch_size=2):
            model(batch).sum().backward()
            optimizer.step()
        print(len(calls))
    """
    live = tmp_path / "live"
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=environment(live),
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "2\n", "")
    (events,) = live.glob("*.events")
    failed = [event for line in events.read_text().splitlines() if (event := json.loads(line))["kind"] == "error"]
    assert [(event["place"], event["message"]) for event in failed] == [("batch", "our bug"), ("Tensor.backward", "our bug")]


def test_standard_output_is_written_as_without_us(tmp_path: Path) -> None:
    """Not by lines: what a fork copies, `os._exit` loses and a closed stream notices stays as it was."""
    shown = same(
        tmp_path,
        """
        import io, os, sys
        print(sys.stdout, type(sys.stdout), isinstance(sys.stdout, io.TextIOWrapper), sys.stdout.line_buffering)
        print("printed twice, since it was not yet written", sys.stdout is sys.__stdout__, sys.stdout.buffer.name)
        if not os.fork():
            print("child")
            sys.exit()
        os.wait()
        print("é", file=sys.stdout)
        sys.stdout.writelines(["a", "b\\n"])
        sys.stdout.flush()
        print("lost")
        os._exit(3)
        """,
    )
    assert shown.count("printed twice") == 2
    assert "lost" not in shown
