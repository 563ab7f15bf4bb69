"""How processes ended, as launchers, shells, schedulers and torch saw it; and the marks of a run that reached its end.

Samples::

    ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 2 (pid: 48119) of binary: ...
      exitcode  : 1 (pid: 1234)          traceback : Signal 9 (SIGKILL) received by PID 1234
    [launch.py:321:sigkill_handler] ... exits with return code = -9
    srun: error: node017: task 3: Out Of Memory        srun: error: node017: task 0: Exited with exit code 1
    ProcessExitedException: process 1 terminated with signal SIGKILL
    ./run.sh: line 12: 31311 Killed                  python train.py        (已杀死, Getötet, Processus arrêté ...)
"""

from __future__ import annotations

import re
import signal as signals

from crashcart.log import Death, Index, Line
from crashcart.numbers import to_int
from crashcart.pattern import Pattern

__all__ = ["FINISHED", "KILLED_WORDS", "RESTARTED", "decoded_exit", "find_deaths", "find_finish", "find_restarts"]

# What shells print when a child was killed, by language (glibc's strsignal translations of SIGKILL).
KILLED_WORDS = (
    "Killed", "已杀死", "已砍掉", "Вбито", "Unicestwiony", "Süreç durduruldu", "Getötet", "Processus arrêté", "Tué", "Terminado (killed)", "Matado", "Killado", "強制終了",
    "Ucciso", "Убито", "Morto", "Zabity", "Abgeschossen", "죽었음", "Zabito", "Gedood", "Dödad",
)  # fmt: skip
# The same words in UTF-8 that was encoded twice and lost bytes on the way.
_DAMAGED = tuple(
    worn
    for word in KILLED_WORDS
    if len(worn := word.encode().decode("cp1252", "ignore").encode("cp1252").decode("utf-8", "ignore")) > 1
)
_ALL_KILLED = (*KILLED_WORDS, *_DAMAGED)
_KILLED = Pattern(
    r"^(?:\S+: (?:line |行 ?|Zeile |ligne |línea |第 ?)?\d+:?\s{0,4}行?:?\s{1,20}\d+ |\[\d+\][+-]?\s+(?:\d+ )?)?\W{0,3}(?:"
    + "|".join(map(re.escape, _ALL_KILLED))
    + r")(?:: 9)?\W{0,40}(?:$|\s{2,40}\S|python|bash|torchrun|accelerate|\()"
    r"|^Killed(?=[a-z\d]\S{0,8} .*\d ?/ ?\d)"  # written over the beginning of a progress line
    r"|(?:it/s|s/it|\?it/s|[%\]|])[^\w]{0,12}Killed\W*$|^(?:zsh|sh): killed\s|task \d+: Killed\W*$|line \d+:\s+\d+ Killed\b",
    needs=tuple(word.lower() for word in _ALL_KILLED),
)
_ELASTIC = Pattern(r"exit_?code\s*:\s*(?P<code>-?\d{1,9})\)?(?:\s*local_rank\s*:\s*(?P<rank>\d{1,15}))?")
_TABLE_RANK = Pattern(r"^\s*rank\s*:\s*(\d+)", needs=("rank",))
_RECEIVED = Pattern(r"Signal (?P<number>\d{1,15}) \((?P<name>SIG\w+)\) received by PID", needs=("received by",))
_RETURN = Pattern(
    r"(?:return(?:ed)?[ _](?:code|non-zero exit status)|exit(?:ed)? (?:with )?(?:exit )?(?:code|status)|non-zero exit status|"
    r"error exit status|return code|ExitCode|exit-code|exitCode|error code(?= ?-)|terminated with code|退出码)[ =:]{0,3}(?P<code>-?\d{1,3})\b",
    re.IGNORECASE,
    needs=("exit", "return", "error code", "terminated with", "退出码"),
)
_SIGNALLED = Pattern(
    r"(?:terminated (?:with|by) signal|was sent|killed by signal|died with|received signal|exited on signal|due to signal|got signal|by signal)"
    r"[: <]*(?:Signals\.)?(?P<name>SIG[A-Z]+|\d+|Killed|Bus error|Segmentation fault|Aborted|Terminated)",
    re.IGNORECASE,
    needs=("signal", "died with", "was sent"),
)
_SHELL = Pattern(r"(Segmentation fault|Bus error|Aborted|Illegal instruction|Floating point exception|段错误|总线错误|已放弃|Speicherzugriffsfehler|Bus-Zugriffsfehler)"
                    r"(?:\s*\(core dumped\)|\s*[(（](?:核心已转储|吐核|Speicherabzug geschrieben)[)）]| {2,}|$)", needs=("fault", "bus error", "aborted", "illegal instr", "floating point exc", "段错误", "总线错误", "已放弃", "zugriffsfehler"))  # fmt: skip
_SHELL_SIGNAL = {
    "segmentation fault": "SIGSEGV", "段错误": "SIGSEGV", "speicherzugriffsfehler": "SIGSEGV", "bus error": "SIGBUS", "bus-zugriffsfehler": "SIGBUS",
    "总线错误": "SIGBUS", "aborted": "SIGABRT", "已放弃": "SIGABRT", "illegal instruction": "SIGILL",
    "floating point exception": "SIGFPE", "killed": "SIGKILL", "terminated": "SIGTERM",
}  # fmt: skip
_SHELL_BASE = 128  # a shell reports signal n as 128 + n
# Every line that tells of an end holds one of these.
_DEATH_WORDS = (
    *(word.lower() for word in _ALL_KILLED), "exitcode", "exit_code", "rank", "received by", "signal", "died with", "was sent",
    "fault", "bus error", "aborted", "illegal instr", "floating point exc", "段错误", "总线错误", "已放弃", "zugriffsfehler", "exit",
    "return", "error code", "terminated with", "退出码",
)  # fmt: skip
_TASK = Pattern(r"task (\d+)")

FINISHED = (
    "training completed", "training complete", "training finished", "finished training", "training done", "train finished",
    "training is done", "done training", "end of training", "training took", "train_runtime", "train_samples_per_second",
    "max_epochs=", "max_steps=", "training is complete", "successfully trained", "training end", "training has finished",
    "successfully finished", "job completed successfully", "process 0 finished successfully", "finished successfully",
    "epochs completed in", "run history:", "best model saved", "saved final", "training ended", "训练完成", "训练结束",
    "训练已完成", "exited successfully", "exits successfully", "model weights saved in", "saving final model",
    "total training time", "early stopping", "reached max", "training summary", "all done", "benchmark finished", "final loss", "exited with code 0",
)  # fmt: skip
_FINISH_LINE = Pattern(
    r"training (?:is )?(?:completed?|finished|done|ended|has finished)|finished training|done training|(?<!at the )end of training\W*(?:$|\|)|"
    r"train(?:ing)? finished|'?train_runtime'?|`?Trainer\.fit`? stopped|epochs? completed in|^(?:wandb: )?Run history:|"
    r"(?:saved?|saving) (?:the )?final (?:model|checkpoint)|训练(?:已)?(?:完成|结束)|exit(?:s|ed) successfully|"
    r"finished successfully|total training time|job completed successfully|model weights saved in|successfully trained|"
    r"\bdone\b.{0,20}\bfinal\b|exited with code 0\b|reached max(?:imum)? (?:steps|iterations|epochs)|(?:^|[\s\]:!-])all done\b",
    re.IGNORECASE,
)
RESTARTED = ("restarting worker group", "will restart", "restart count", "attempt=", "restarted ", "worker group restart")
_RESTART_LINE = Pattern(r"[Rr]estart(?:ing|ed)? (?:the )?(?:worker group|all|training|job)|attempt[ =_](?:[1-9]\d*)\b|"
                           r"\d/\d+ attempts? left; will restart|SLURM_RESTART_COUNT=[1-9]|job requeued")  # fmt: skip


def decoded_exit(code: int | None) -> tuple[int | None, str | None]:
    """An exit status as (code, signal): -9 and 137 are both SIGKILL."""
    if code is None:
        return None, None
    number = -code if code < 0 else code - _SHELL_BASE if _SHELL_BASE < code < _SHELL_BASE + 65 else 0
    try:
        return (None, signals.Signals(number).name) if number else (code, None)
    except ValueError:
        return code, None


def find_deaths(index: Index) -> list[Death]:
    """Every end of a process that the lines report."""
    deaths = []
    table_rank: int | None = None
    for line in index.saying(_DEATH_WORDS):
        text = line.text
        match = _TABLE_RANK.match(text)
        if match:
            table_rank = to_int(match[1])
        death = _death(line, table_rank)
        if death is not None:
            deaths.append(death)
    return deaths


def _death(line: Line, table_rank: int | None) -> Death | None:
    text, lowered = line.text, line.lowered
    if "exitcode" in lowered or "exit_code" in lowered:
        match = _ELASTIC.search(text)
        if match:
            code, name = decoded_exit(to_int(match["code"]))
            rank = match["rank"] or (table_rank if text.startswith(" ") else line.rank)
            return None if code == 0 else Death(line, code, name, to_int(rank), "launcher")
    match = _RECEIVED.search(text)
    if match:
        return Death(line, None, match["name"], table_rank, "launcher")
    match = _SIGNALLED.search(text)
    if match:
        return Death(line, None, _signal_name(match["name"]), line.rank, "signal")
    if _KILLED.search(text):
        return Death(line, None, "SIGKILL", line.rank, "shell")
    match = _SHELL.search(text)
    if match:
        return Death(line, None, _signal_name(match[1]), line.rank, "shell")
    match = _RETURN.search(text)
    if match:
        code, name = decoded_exit(to_int(match["code"]))
        task = _TASK.search(text)
        return Death(line, code, name, to_int(task[1]) if task else line.rank, "launcher") if code != 0 else None
    return None


def _signal_name(word: str) -> str:
    if word.isdigit():
        return decoded_exit(-to_int(word, 0))[1] or word
    return _SHELL_SIGNAL.get(word.lower(), word.upper())


def find_finish(index: Index) -> Line | None:
    """The last line that says the work was done."""
    return next((line for line in reversed(index.saying(FINISHED)) if _FINISH_LINE.search(line.text)), None)


def find_restarts(index: Index) -> list[Line]:
    """Lines in which a launcher starts the job again."""
    return [line for line in index.saying(RESTARTED) if _RESTART_LINE.search(line.text)]
