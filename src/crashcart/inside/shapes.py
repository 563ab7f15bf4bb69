"""What a value looks like from outside: type, length, shape; never what is in it, and no code of the program is run."""

from __future__ import annotations

import sys

_LAYERS = 40
_COUNTED = (list, tuple, dict, set, frozenset, str, bytes, bytearray)


def describe(value: object) -> str:
    """`Tensor[8, 3, 224, 224] float32 cuda:0`, `list of 12`, or the name of the type."""
    kind = type(value)
    if kind in _COUNTED:
        return "%s of %d" % (kind.__name__, len(value))  # type: ignore[arg-type]
    for library, name in (("torch", "Tensor"), ("numpy", "ndarray")):
        module = sys.modules.get(library)
        wanted = getattr(module, name, None)
        if isinstance(wanted, type) and isinstance(value, wanted):
            return _shape(value, kind.__name__)
    return kind.__name__ if kind.__module__ == "builtins" else (kind.__module__ + "." + kind.__qualname__)[:120]


def _shape(value: object, name: str) -> str:
    try:
        sizes = ", ".join([str(int(size)) for size in value.shape])  # type: ignore[attr-defined]
        dtype = str(value.dtype).replace("torch.", "")  # type: ignore[attr-defined]
        device = str(getattr(value, "device", ""))
        return ("%s[%s] %s %s" % (name, sizes, dtype, device)).rstrip()
    except Exception:  # a lazy or a half-built tensor
        return name


def parts(module: object) -> list[tuple[str, str]]:
    """The layers of torch's own kinds in a module, each with its sizes: `("items", "Embedding num_embeddings=499, embedding_dim=32")`."""
    try:
        layers = object.__getattribute__(module, "__dict__").get("_modules")
    except AttributeError:
        return []
    found: list[tuple[str, str]] = []
    for name, layer in list(layers.items())[:_LAYERS] if type(layers) is dict else ():
        kind = type(layer)
        if type(name) is str and kind.__module__.startswith("torch.nn.modules."):
            own = object.__getattribute__(layer, "__dict__")
            sizes = ["%s=%d" % (size, value) for size, value in own.items() if type(value) is int and size[:1] != "_"]
            if sizes:
                found.append((name, "%s %s" % (kind.__name__, ", ".join(sizes[:6]))))
    return found
