"""The ranks cannot reach each other, or lose the connection: interface, firewall, InfiniBand, routing.

What happens: the first collective never ends, or a running job stops at once on all ranks with a transport error.

Why: NCCL or gloo chose an interface that leads nowhere (docker0, loop-back, a host name that resolves to 127.0.0.1); a
firewall between the nodes blocks the random ports; InfiniBand or RoCE is set up wrongly (GID index, locked memory, rails
that do not see each other), or a link went down; peer-to-peer copies between the cards of one node are broken (IOMMU).

How it shows: codes of the transport: ``NET/IB : Got completion with error 12``, ``Call to ibv_... failed``, ``No route to
host``, ``no socket interface found``, gloo's ``timed out connecting``. "Connection reset by peer", "closed by remote
peer" and "Broken pipe" alone are what a survivor sees of any death, and no evidence of a network fault.

What to do: ``NCCL_DEBUG=INFO`` shows the interface that was chosen; ``NCCL_SOCKET_IFNAME``/``GLOO_SOCKET_IFNAME`` choose
another; ``NCCL_IB_DISABLE=1`` and ``NCCL_P2P_DISABLE=1`` tell InfiniBand and peer-to-peer apart; ``ulimit -l unlimited``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import decisive, strong, weak
from crashcart.causes._cards import known_cards, per_node, typed_here
from crashcart.causes.distributed._watchdog import signs
from crashcart.model import Edit, Experiment, Fix, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case

title = "The network between the ranks does not work"
alike = ("distributed/desync", "distributed/rendezvous")
_OURS = r"NCCL|NET/|Net :|gloo|pair\.cc|socket\.(?:cc|h|cpp)|c10d|client socket|UCX|HCCL"
phrases = (
    decisive(
        "is neither af_inet", "no socket interface found", "no usable listening interface", "bootstrap : no socket interface",
        "unable to find address for", "ifindex", "no ip address found",
        says="the network interface set for NCCL or gloo does not exist",
        pattern=r"AF_INET|interface|Unable to find address|ifa_|no IP address", any_level=True, unless=r"NCCL INFO",
    ),
    decisive(
        "got completion with error", "got completion from peer",
        pattern=r"NET/IB.{0,200}(?:error |status=)(?!5\b)\d{1,20}|error (?!5\b)\d{1,20}.{0,200}(?:vendor|opcode)",
        says="InfiniBand gave up on a transfer", any_level=True,
    ),
    decisive("call to ibv_", "ibv_modify_qp", "ibv_create_", "ibv_reg_mr", pattern=r"ibv_\w{1,60}.{0,20}(?:failed|error)",
             unless=r"NCCL INFO|polling again|retry", says="a call to the InfiniBand driver failed", any_level=True),
    decisive("net/ofi", "net/gib", "net/ucx", pattern=r"completed with error|UNDELIVERABLE|RC: -?\d{1,20}.{0,200}rror",
             says="the network plug-in failed",
             any_level=True),
    strong("failed to open cuda ipc handle", "peer access is not supported between", says="two GPUs cannot access each other directly",
           any_level=True, unless=r"NCCL INFO|disabling"),
    decisive("transport retry count exceeded", "remote access error on mlx", says="UCX gave up on a transfer",
             any_level=True),
    decisive(
        "no socket interface found", "unable to find address for:", "unable to find interface for:",
        "no interface found in the same subnet", "invalid nccl_socket_ifname",
        says="the requested network interface does not exist", any_level=True,
    ),
    decisive(
        "no route to host", "network is unreachable", "host is unreachable", "network is down",
        pattern=_OURS, says="the ranks' hosts cannot reach each other", any_level=True,
    ),
    decisive(
        "connect to ", "call to connect", "socketstartconnect", "socketpollconnect",
        pattern=r"NCCL WARN.{0,100}connect.{0,100}(?:failed|timeout|timed out|refused|returned)|socket(?:Start|"
        r"Poll)Connect.{0,100}(?:failed|returned)",
        unless=r"retrying", says="NCCL cannot connect to another rank", any_level=True,
    ),
    decisive("connectfullmesh failed", "timed out connecting", "connect timeout [",
             pattern=r"gloo|connectFullMesh|pair\.cc|SO_ERROR",
             unless=r"reset by peer|closed by peer", says="gloo cannot connect to another rank"),
    strong("client socket has failed to connect", pattern=r"errno: (?:110|113|101)\b",
           says="the host of the TCP store does not respond"),
    strong("pair.cc", says="gloo cannot connect to another rank", pattern=r"pair\.cc.{0,20}connect \S+ Connection refused"),
    strong("ucx  error", "ucx error", says="UCX lost a connection",
           pattern=r"UCX +ERROR.{0,200}(?:timeout|timed out|unreachable|retry|refused|failed to connect|connection reset)"),
    strong("ssh: connect to host", "unable to complete a tcp connection", "getting socket times out",
           says="a node cannot be reached"),
    strong("async event", pattern=r"NET/IB.{0,200}(?:port error|device fatal)", unless=r"recovered|port active",
           says="an InfiniBand port reported an error",
           any_level=True),
    strong("unhandled system error", "ncclsystemerror", says="a system call in NCCL failed"),
    weak("ncclinternalerror", "ncclremoteerror", "remote process exited or there was a network error",
         says="NCCL failed; a process that died looks the same"),
    weak("failed : connection timed out", says="a connection timed out"),
)  # fmt: skip


def in_log(case: Case) -> Iterator[Sign]:
    """Everybody in the same first collective: the ranks have met, the data does not move."""
    yield from signs(case, "network")


def in_machine(case: Case) -> Iterator[Sign]:
    """Before a run: variables that name an interface which this machine has not."""
    cards = known_cards(case)
    unused = cards is None or not cards.value["count"]  # NCCL is for cards
    for fact in case.all("machine.interface"):
        name, text, told = fact.value["variable"], fact.value["text"], fact.value["told"]
        if fact.value["chosen"] or per_node(case) == 1 or (name.startswith("NCCL") and case.facts and unused):
            continue
        there = ", ".join(fact.value["there"]) or "none"
        says = f"{name}={text} matches no interface on this machine (it has {there})"
        evidence = (told, fact.evidence)
        if name == "NCCL_IB_HCA":
            yield Sign("weak", f"{says}: NCCL uses slow sockets instead", evidence)
            continue
        library = "NCCL" if name.startswith("NCCL") else "gloo"
        backends = [one.value for one in case.all("code.group_backend")]
        used = [backend is not None and library.lower() in backend for backend in backends]
        if backends and None not in backends and not any(used):
            continue
        sure = bool(used) and all(used) and per_node(case) is not None and typed_here(case)
        condition = "" if sure else f" where {library} is used here"
        yield Sign(
            "decisive" if sure else "strong", f"{says}: the ranks fail in their first collective{condition}", evidence
        )
    for fact in case.all("machine.meeting_test"):
        if fact.value["failed"]:
            yield Sign("strong", f"two ranks on this machine could not connect: {fact.value['failed']}", (fact.evidence,))


def fix(case: Case) -> Iterator[Fix]:
    """On one machine the loop-back joins all ranks, where the name stands in a file; else words."""
    nodes = case.number("launch.nodes")
    edits = tuple(
        Edit(fact.value["span"], "lo")
        for fact in case.all("machine.interface")
        if not fact.value["chosen"] and fact.value["span"] is not None and fact.value["variable"] != "NCCL_IB_HCA"
    )
    if edits and nodes == 1:
        yield Fix(
            "Use the loopback interface", "exact", "all ranks are on one machine; the training is the same", edits=edits
        )
    yield from by_hand


by_hand = (
    Fix(
        "Set the network interface that connects the nodes",
        "by-hand",
        "run `ip -br addr` on each node, then set NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME; for RoCE the right NCCL_IB_GID_INDEX "
        "(`show_gids`); open the ports between the nodes",
    ),
    Fix(
        "Test without InfiniBand and without peer-to-peer",
        "exact",
        "slower, but the same training; it shows which connection is broken",
        environment={"NCCL_IB_DISABLE": "1", "NCCL_P2P_DISABLE": "1"},
    ),
)
experiment = Experiment(
    title="Run nccl-tests (all_reduce_perf) on the same nodes, once unchanged, once with NCCL_IB_DISABLE=1, once with "
    "NCCL_P2P_DISABLE=1",
    start_from="the beginning",
    stop_after="the first all-reduce of 1 GB",
    confirms="it also fails or hangs without the training program, and one of the variables fixes it",
    refutes="it works unchanged on the same nodes: then look for a rank that died or took another path",
)
