"""How a program will be started: its arguments, the variables that it sees, how many ranks there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.record import field, record, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crashcart.model import Fact

__all__ = ["OWN_LAUNCHER", "Launch", "launch_of", "with_setting"]

# These set RANK, LOCAL_RANK and WORLD_SIZE for every process.
OWN_LAUNCHER = "a launcher of the project's own"
_SETTING_RANKS = {"torchrun", "accelerate", "deepspeed", "torch.distributed.launch", "torch.distributed.run", OWN_LAUNCHER}


@record
class Launch:
    """What is known of a launch.

    ``arguments`` are the words behind the program, each with whether it is known; None where nobody said how it is called.
    ``flags`` has the place of each flag by its spelling. ``environment`` holds the variables that the launch sets; with
    ``sets_ranks`` the launcher sets RANK and its like. ``ranks`` is None where the number is not known. ``asked_config`` is the config
    that was asked about where nobody said how the program is started: it stands for the first path that is not known.
    """

    arguments: list[tuple[str, bool]] | None = None
    flags: dict[str, Fact] = field(default_factory=dict)
    environment: dict[str, Fact] = field(default_factory=dict)
    variables: frozenset[str] = frozenset()  # those that the launch sets, also where nobody may know to what
    sets_ranks: bool = False
    ranks: int | None = None
    folders: list[str] = field(default_factory=list)
    program: Fact | None = None
    configs: dict[str, list[Fact]] = field(default_factory=dict)
    rank_facts: tuple[Fact, ...] = ()
    numeric_files: set[str] = field(default_factory=set)  # configs whose loader reads 1e-4 as a number
    commented_files: set[str] = field(default_factory=set)  # JSON files from whose lines the program cuts ``// ...`` first
    config: str = ""  # the config that the user named without a command
    kind: str = ""
    starters: list[int] = field(default_factory=list)  # the places that start ranks from inside the program


def launch_of(facts: Sequence[Fact], folders: Sequence[str]) -> Launch:
    """A launch from what its script or command says."""
    last = {fact.name: fact for fact in facts}
    kind = str(last["launch.kind"].value) if "launch.kind" in last else ""
    words, program, processes = last.get("launch.arguments"), last.get("launch.script"), last.get("launch.processes")
    count = processes.value if processes is not None else None
    ranks = count if type(count) is int and count > 0 else 1 if kind in {"python", "program"} else None
    return Launch(
        arguments=list(words.value) if words is not None else None,
        flags={fact.spelling: fact for fact in facts if fact.spelling and fact.origin == "flag"},
        environment={fact.spelling: fact for fact in facts if fact.origin == "environment" and fact.spelling},
        variables=frozenset(str(name) for fact in facts if fact.name == "launch.variables" for name in fact.value),
        sets_ranks=kind in _SETTING_RANKS,
        ranks=ranks,
        folders=list(folders),
        program=program,
        rank_facts=(processes,) if processes is not None else (),
        kind=kind,
    )


def with_setting(launch: Launch, setting: Fact, value: object) -> Launch:
    """The same launch with another value of one of its flags, variables or settings in a config file."""

    def change(fact: Fact) -> Fact:
        return (
            replace(fact, value=value) if fact.spelling == setting.spelling and fact.evidence == setting.evidence else fact
        )

    words = list(launch.arguments or ())
    for number, (word, known) in enumerate(words):
        if setting.origin == "flag" and word == f"{setting.spelling}={setting.value}":
            words[number] = (f"{setting.spelling}={value}", known)
        elif setting.origin == "flag" and word == str(setting.value) and number and words[number - 1][0] == setting.spelling:
            words[number] = (str(value), known)
    return replace(
        launch,
        arguments=words if launch.arguments is not None else None,
        environment={name: change(fact) for name, fact in launch.environment.items()},
        configs={path: [change(fact) for fact in facts] for path, facts in launch.configs.items()},
    )
