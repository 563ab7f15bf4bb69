import warnings


class Registry(dict):
    def register(self, name):
        def wrap(item):
            if name in self:
                warnings.warn(f"'{name}' is registered twice, the later one counts", stacklevel=2)
            self[name] = item
            return item

        return wrap

    def build(self, name, **kwargs):
        return self[name](**kwargs)


MODELS, HOOKS = Registry(), Registry()
