"""Found through PYTHONPATH in every Python process of a job: starts the inside part, then whatever would have run instead.

Loads the folder above by its path under a name of its own: crashcart itself may not be installed in this interpreter. If there
is no other sitecustomize this one is not there either: importing it fails as it would have without us.
"""


def _start(folder: str) -> None:
    import sys

    package = sys.modules.get("_crashcart_inside")
    if package is None:
        package = type(sys)("_crashcart_inside")
        package.__path__ = [folder]
        sys.modules["_crashcart_inside"] = package
    __import__("_crashcart_inside.boot")
    sys.modules["_crashcart_inside.boot"].start()


def _other(folder: str):  # type: ignore[no-untyped-def]
    """The next sitecustomize on the path that has not run yet."""
    import os
    import sys
    from _frozen_importlib_external import PathFinder

    package = sys.modules.get("_crashcart_inside")
    done = package.__dict__.setdefault("chained", set()) if package else set()
    here = os.path.realpath(folder)
    for entry in sys.path:
        if os.path.realpath(entry or ".") == here:
            continue
        spec = PathFinder.find_spec("sitecustomize", [entry])
        if spec is not None and spec.loader is not None and spec.origin not in done:
            done.add(spec.origin)
            return spec
    return None


def _run(spec) -> None:  # type: ignore[no-untyped-def]
    import sys
    from _frozen_importlib import module_from_spec

    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _both() -> None:
    folder = __file__.rpartition("/")[0] or "."
    try:  # noqa: SIM105 - contextlib is not loaded in a bare interpreter
        _start(folder.rpartition("/")[0] or "..")
    except Exception:
        pass
    try:
        spec = _other(folder)
    except Exception:
        spec = None
    if spec is None:
        raise ModuleNotFoundError("No module named 'sitecustomize'", name="sitecustomize")
    _run(spec)


_both()
