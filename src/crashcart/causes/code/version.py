"""A library's version does not match the code: an import fails or an interface has changed.

What happens: the program dies at an import, or at the first call of a function that was renamed, removed or got other
arguments.

Why: a library was updated (or pinned too low) while the code, or another library, was not; a binary wheel was built
against another torch or numpy; a package is not installed in this environment.

How it shows: ``cannot import name``, ``No module named``, ``module 'x' has no attribute``, ``unexpected keyword
argument``, ``undefined symbol``, ``compiled using NumPy 1.x``, ``was removed in``.

What to do: ``pip show`` the package that the message names and compare with what the code was written for; install that
version, or change the call. Rebuild binary wheels after every change of torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import Stack, compiled, decisive, strong, weak
from crashcart.model import Experiment, Fix

if TYPE_CHECKING:
    from crashcart.case import Case

title = "A library is missing, or its version does not match the code"
alike = ("code/bug", "config/missing-or-wrong")
_KNOWN = (
    r"torch\w{0,60}|numpy|np|transformers|datasets|accelerate|peft|trl|diffusers|deepspeed|lightning|pytorch_lightning|"
    r"huggingface_hub|tokenizers|"
    r"scipy|pandas|PIL|cv2|mm\w{1,60}|timm|apex|xformers|flash_attn\w{0,60}|triton|bitsandbytes|wandb|keras|tensorflow|sklearn|"
    r"skimage|fairseq|"
    r"megatron\w{0,60}|vllm|ray|hydra|omegaconf|einops|kornia|monai|albumentations|imgaug|google|jax|flax|gym\w{0,60}|collections|"
    r"inspect|time|"
    r"distutils|imp|pkg_resources|setuptools|tensorboardX?|typing|asyncio|yaml|networkx|dgl|spacy|nltk|librosa|detectron2"
)
_LIBRARY = r"lib(?:cu(?:da|dnn|dart|blas|fft|rand|solver|sparse|pti)|nccl|nv|c10_cuda)|__nv|ncclComm|cublas|cudnn"
NO_MODULE = r"ModuleNotFoundError: No module named '([\w.]{1,200})'"
phrases = (
    decisive("cannot import name", unless=r"Warning:|partially initialized",
             says="the installed version of the library does not have this name"),
    decisive("no module named", pattern=rf"No module named '?(?:{_KNOWN})\.", unless=r"Warning:",
             says="the installed version of the library does not have this module"),
    strong("no module named", pattern=r"(?:ModuleNotFoundError|ImportError)\w{0,60}: No module named",
           unless=r"Warning:|named '?(?:utils?|models?|data(?:sets?)?|src|lib|configs?|core|modules?|train|tools|common|"
           r"networks?|options|helpers?)\b",
           says="a package is missing"),
    decisive("has no attribute", pattern=rf"module '(?:{_KNOWN})[\w.]*' has no attribute", unless=r"Warning:",
             says="the library does not have this function"),
    strong("has no attribute", pattern=r"Error: module '[\w.]+' has no attribute|type object '\w+' has no attribute",
           says="the module does not have this name"),
    strong("unexpected keyword argument", says="a function does not accept this argument", unless=r"Warning:"),
    weak("undefined symbol", says="a binary library was built against another version", pattern=r"libbitsandbytes_cpu", fatal=False),
    decisive("undefined symbol", "_array_api not found", "dtype size changed", "multiarray failed to import",
             "failed to import numpy",
             unless=rf"Warning:|torch_extensions|libbitsandbytes_cpu|{_LIBRARY}", says="a binary was built against another version"),
    decisive("was removed in the numpy", "was a deprecated alias for the builtin", "descriptors cannot be created directly",
             "does not recognize this architecture", "is required for a normal functioning of this module",
             "upgrade torch to at least",
             "versionconflict", "distributionnotfound", "torchvision::nms does not exist", "is used but incompatible",
             "failed to import transformers", "failed to import diffusers", says="the versions do not match"),
    decisive("glibcxx_", "glibc_2", "cxxabi_", pattern=r"not found|required by", says="a system library is too old"),
    strong("dll load failed", "cannot open shared object file", "specified module could not be found",
           unless=rf"{_LIBRARY}|Warning|torch_extensions|Unable to initialize backend|libtpu|^[IW]\d{{4}} ",
           says="a binary library is missing"),
    strong("seems to be not installed", "is not installed", "requires the following packages", "requires accelerate",
           "to be installed",
           "could not be imported", "install it with", "library but it was not found", "please install", "pip install",
           pattern=r"(?:Error|Exception)\b.{0,200}(?:install|import|requires|not found)", says="a package is missing"),
    strong("has been removed", "was removed in", "no longer supported", "is not supported in", "please upgrade",
           "please downgrade", "is deprecated and",
           pattern=r"(?:Error|Exception)\b.{0,30}:.{0,100}(?:removed|no longer supported|upgrade|downgrade|version|deprecated)",
           unless=r"Warning:|CUDA|GPU",
           says="the interface was removed or needs another version"),
    strong("requires ", "required", "but found", "you need", "please install", "please use",
           pattern=r"(?:Error|Exception):.{0,60}(?:requires?|need|install|found|"
           r"expected) .{0,60}(?:>=|==|<=|<|>|~=) ?v?\d{1,9}\.\d",
           unless=r"Warning:|Ampere|bf16|tf32|world_size|assert |capability",
           says="a required version is not installed"),
    strong("registry", pattern=r"is not in the \S+ registry",
           says="a plug-in that registers this name was not imported, or is of another version"),
    weak("positional argument", pattern=r"TypeError.{0,100}takes .{0,100} positional arguments? but",
         says="a function takes different arguments"),
    weak("no module named", says="a module is missing"),
)  # fmt: skip
stacks = (
    Stack(
        r"<frozen importlib|importlib/__init__\.py:import_module|importlib/util\.py|:_LazyModule|import_utils\.py:_get_module",
        "the traceback ends where a module is imported",
    ),
)


def fix(case: Case) -> tuple[Fix, ...]:
    """A module that is not there has a name."""
    for raised in case.log.uncaught():
        match = compiled(NO_MODULE).search(f"{raised.kind}: {raised.message}")
        if match is not None:
            name = match[1].partition(".")[0]
            why = f"`pip install` the package that provides {name}; if it is a folder of the project, start in its parent folder, or set PYTHONPATH to that folder"
            return (Fix(f"Make the module {name} importable", "by-hand", why),)
    return fixes


fixes = (
    Fix(
        "Install the version the code was written for",
        "by-hand",
        "`pip show PACKAGE` shows the installed version; the project's requirements or the date of its last commit show which one "
        "fits. Binary wheels "
        "(flash-attn, apex, mmcv, xformers) must match torch and CUDA",
    ),
)
experiment = Experiment(
    title="Import the module, or call the function, alone in a fresh environment with the project's pinned versions",
    start_from="the beginning",
    stop_after="the failing line",
    confirms="it works with the pinned versions and fails with the installed ones",
    refutes="it fails in both: then the error is in the code",
)
