"""Data or weights could not be downloaded from a hub or over the network.

What happens: the run dies at its start, or in the middle of streaming, because a server refused, did not answer, or was not
reached; or because several processes wrote the same cache at once.

Why: every rank asks the hub at the same time and the address is rate-limited (429); compute nodes have no way out; names are
not resolved; a proxy or certificate stands between; a cache folder is shared by jobs that clean up after each other.

How it shows: ``429 Client Error: Too Many Requests``, ``couldn't connect to 'https://huggingface.co'``, ``Max retries
exceeded with url`` and a host of data, ``Read timed out``, ``Consistency check failed``, a missing file that ends in
``.incomplete``. A single "Retrying in 1s" that is followed by progress is nothing.

What to do: download once, on one process, before the job; let ranks read the cache (``HF_HUB_OFFLINE=1``); a token raises
the rate limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import Stack, compiled, decisive, strong, weak
from crashcart.causes._joined import edits_of, launched_with, ranks
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.model import Fact, Strength

title = "Data or weights could not be downloaded"
piece = "load_once"
alike = ("data/corrupt-or-missing", "distributed/network")
TRACKERS = (
    r"wandb|mlflow|comet|neptune|clearml|swanlab|aim\b|tensorboard|api\.bandw|c10d|socket\.cpp|NCCL|pypi\.org|"
    r"files\.pythonhosted|conda\."
)
CLIENTS = r"fsspec|aiohttp|huggingface_hub|datasets/|urllib3?/|requests/|botocore|gcsfs|s3fs|httpx|streaming_download"
# The innermost frame of a stack whose last line is missing: what fails there is the answer of a server, mostly.
ASKING = (
    r"huggingface_hub/|/requests/|/urllib3?/|/httpx/|/httpcore/|/aiohttp/|fsspec/implementations/http|botocore/|/s3fs/|"
    r"/gcsfs/|"
    r"hub\.py (?:download_url_to_file|load_state_dict_from_url|_get_cache_or_reload|_validate_not_a_forked_repo)|"
    r"torchvision/datasets/utils\.py (?:download|_urlretrieve|_get_redirect)|datasets/(?:load|utils/file_utils|"
    r"download/\w+)\.py|"
    r"transformers/utils/hub\.py cached_files?|modelscope/hub/|gdown/|wget\.py|tensorflow_datasets/core/download"
)
GAVE_UP = frozenset({
    "TimeoutError", "ConnectionError", "ReadTimeout", "ConnectTimeout", "ConnectionResetError", "SSLError",
    "ReadTimeoutError",
})  # fmt: skip
OFFLINE = ("environment.HF_HUB_OFFLINE", "environment.HF_DATASETS_OFFLINE", "environment.TRANSFORMERS_OFFLINE")

phrases = (
    strong("429 client error", "429 too many requests", "http error 429", "too many requests for url",
           says="a server rejected the request because of its rate limit"),
    decisive(
        "we had to rate limit your ip", "couldn't connect to 'https://huggingface", "couldn't connect to the hub",
        "locate the file on the hub", "locate the files on the hub", "localentrynotfounderror", "offlinemodeisenabled",
        "consistency check failed: file should be", "http error 403: rate limit", "couldn't reach 'http",
        "couldn't reach http", "cannot reach https://huggingface", "on the hub (connectionerror)", "on the hub (localentry",
        "we couldn't connect to", "http error 503", "http error 502", "http error 504",
        "connection error, and we cannot find the requested files", "fstimeouterror", "serverdisconnectederror",
        "clientpayloaderror", "gateway time-out for url", "gateway timeout for url", "service unavailable for url",
        "internal server error for url", "endpointconnectionerror", "could not connect to the endpoint url",
        says="a data or weight server refused the request or could not be reached",
        unless=TRACKERS + "|thrown while requesting",
    ),
    decisive(".incomplete", says="the cache was changed by another process during a download",
             pattern=r"(?:Error|Errno|Failed to open|No such file).{0,200}\.incomplete|\.incomplete.{0,200}No such file"),
    strong(
        "max retries exceeded with url", "failed to resolve '", "temporary failure in name resolution",
        "httpsconnectionpool(host=", "httpconnectionpool(host=", "<urlopen error", "read timed out.", "incompleteread(",
        "chunkedencodingerror", "certificate_verify_failed", "name or service not known", "remotedisconnected",
        "connection reset by peer", "invalid hash value (expected", "getaddrinfo failed", "reqwest error",
        "error loading http", "client error: forbidden for url", "server error: ", "file not found or corrupted.",
        "network is unreachable", "http error 4", "http error 5", "failed to download", "download failed",
        "error while downloading",
        says="the network or a server failed during a download",
        unless=TRACKERS + r"|MASTER_ADDR|TCPStore|rendezvous|ProcessGroup|store->get|errno: 104|nslookup|-master-\d|"
                          r"thrown while requesting",
        pattern=r"https?:|urlopen|resolve|HTTP|retries|timed out|IncompleteRead|Chunked|hash value|getaddrinfo|"
                r"name resolution|Name or service|Reqwest|corrupted|download|RemoteDisconn",
    ),
    weak("thrown while requesting", "retrying in", says="a request to the hub is retried", fatal=False,
         pattern=r"thrown while|Retry \d"),
)  # fmt: skip
stacks = (
    Stack(
        r"/datasets/(?:load|builder|utils/file_utils|download/.{0,200})\.py:|/huggingface_hub/|/requests/|/urllib3?/|"
        r"/urllib/request\.py|/http/client\.py|transformers/utils/hub\.py|/aiohttp/|/fsspec/|/s3fs/|/boto\w{0,60}/|"
        r"torch/hub\.py:(?:download|_get_cache_or_reload)|gdown/",
        "the traceback ends where something is downloaded",
    ),
)


def in_log(case: Case) -> Iterator[Sign]:
    """Time-outs inside a client of the network, and retries after which nothing comes."""
    for raised in case.log.uncaught(cut=True):
        if raised.stack_only and compiled(ASKING).search(raised.stack(1)) and not compiled(TRACKERS).search(raised.stack()):
            says = "the stack ends in a client of a hub or server; its last line was cut off"
            yield Sign("strong", says, (evidence(raised.line),), order=raised.line.order)
            continue
        fetching = compiled(CLIENTS).search(raised.stack(6)) and not compiled(TRACKERS).search(raised.stack())
        if raised.kind in GAVE_UP and fetching:
            says = "a network client gave up during a download"
            yield Sign("strong", says, (evidence(raised.line),), order=raised.line.order)
    yield from _retries_to_the_end(case)


def _retries_to_the_end(case: Case) -> Iterator[Sign]:
    last = case.log.lines[-12:]
    for line in last:
        if "thrown while requesting" in line.lowered or (
            "max retries exceeded" in line.lowered and not compiled(TRACKERS).search(line.text)
        ):
            since = [metric for metric in case.log.metrics if metric.line.order > line.order]
            if not since and case.log.finished is None:
                yield Sign(
                    "strong",
                    "requests are retried again and again, and nothing else follows",
                    (evidence(line),),
                    order=line.order,
                )
                return


def in_code(case: Case) -> Iterator[Sign]:
    """What every rank fetches or builds by itself, at the same time as the others."""
    for fact in case.all("code.fetched_by_all"):
        strength = _by_all(case, fact)
        if strength is not None:
            yield Sign(strength, _told(case, fact), (fact.evidence, *launched_with(case)), fatal=strength != "weak")


def _by_all(case: Case, fact: Fact) -> Strength | None:
    """How much it matters: own files break, a hub's own cache is locked but its server counts requests."""
    seen, count = fact.value, ranks(case)
    if count == 1 or seen["cached"]:
        return None
    if seen["if_address"] and not any(str(one.value).startswith("http") for one in case.facts.values()):
        return "weak"
    if seen["how"] != "hub":
        return "strong" if count is not None and seen.get("reached", True) else "weak"
    if count is None or any(str(case.facts[name].value) in {"1", "True"} for name in OFFLINE if name in case.facts):
        return None
    whole = seen["library"].endswith("snapshot_download")  # asks for every file of it, whoever leads the ranks
    if not seen["name"] or not (whole or seen["library"].endswith("load_dataset")):
        return None
    return (
        "strong" if whole else "weak"
    )  # of the processes of a node that load a data set, one fetches it behind the library's lock


def _told(case: Case, fact: Fact) -> str:
    count = ranks(case)
    who = f"{count} ranks" if count is not None else "every rank"
    if fact.value["how"] == "build":
        says = f"{who} build the same file at the same time if it does not exist yet: "
        if fact.value["renamed"]:
            return f"{says}they write the same temporary file, and the second rename fails because it is gone"
        return f"{says}one may read what another has only half written"
    if fact.value["how"] == "write":
        return f"{who} call {fact.value['what']}() at the same time: they overwrite each other's files if those do not exist yet"
    return (
        f"{who} request {fact.value['name']} from the hub at the same time if it is not in the cache: "
        "requests fail or time out if the server has a rate limit"
    )


def fix(case: Case) -> Iterator[Fix]:
    """One process at a time, where the code allows; then the general remedies."""
    edits = edits_of(fact for fact in case.all("code.fetched_by_all") if _by_all(case, fact) == "strong")
    if edits:
        why = (
            "the first process of a node downloads or builds, the others use the result; on several nodes with one shared folder "
            "do it once before the job"
        )
        yield Fix("Download with one process at a time", "exact", why, edits=edits)
    if case.before and all(fact.value["how"] == "build" for fact in case.all("code.fetched_by_all")):
        yield BUILT_ONCE
    else:
        yield from fixes


BUILT_ONCE = Fix(
    "Build it once before the job, or on the first rank before the others",
    "by-hand",
    "use a small script before the launch; or let rank 0 build it, followed by a barrier, with a long enough process group timeout; "
    "on several nodes with separate folders, once per node",
)
fixes = (
    Fix(
        "Download once before the job, and let every rank read the cache",
        "same-recipe",
        "`huggingface-cli download ...` on a node with network, then offline mode; or rank 0 first and the others after "
        "it, with a long enough timeout; a "
        "token raises the rate limit; give each job that writes its own cache folder",
        environment={"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"},
    ),
)
experiment = Experiment(
    title="Load data and weights in one process on the same node, then once more with offline mode on",
    start_from="the beginning",
    stop_after="dataset and model are built",
    confirms="one process loads them, or fails with the same host; with a full cache and offline mode all ranks start",
    refutes="it fails in offline mode with a full cache: then the name or path is wrong (config/missing-or-wrong)",
)
