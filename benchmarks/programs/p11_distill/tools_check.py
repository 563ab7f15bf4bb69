import importlib
for name in ("apex", "flash_attn"):
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as e:
        print("ERROR tools_check:", e)
        raise
