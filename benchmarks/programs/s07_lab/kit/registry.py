TASKS, HEADS, SCHEDULES = {}, {}, {}


def into(table):
    def wrap(item):
        table[item.__name__] = item
        return item

    return wrap
