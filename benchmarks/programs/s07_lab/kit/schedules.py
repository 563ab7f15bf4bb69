import enum
import math


class Schedule(str, enum.Enum):
    CONSTANT = "constant"
    WARMUP = "warmup"
    COSINE = "cosine"
    RESTARTS = "cosine_restarts"


def factor(schedule, done):
    """By what the learning rate is multiplied when a share of the phase is done."""
    if schedule is Schedule.WARMUP:
        return max(done, 0.01)
    if schedule is Schedule.COSINE:
        return 0.5 + 0.5 * math.cos(math.pi * done)
    if schedule is Schedule.RESTARTS:
        return 0.5 + 0.5 * math.cos(math.pi * (done * 3 % 1))
    return 1.0
