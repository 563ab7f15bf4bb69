def freeze(module, prefixes):
    """Freeze what begins with one of the prefixes; how many tensors are left."""
    prefixes = tuple(prefixes.split(","))
    left = 0
    for name, parameter in module.named_parameters():
        parameter.requires_grad = not name.startswith(prefixes)
        left += parameter.requires_grad
    return left
