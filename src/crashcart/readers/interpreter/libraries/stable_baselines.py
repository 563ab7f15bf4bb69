"""Stable-Baselines3: agents that train themselves.

model = PPO("MlpPolicy", env, learning_rate=3e-4, batch_size=64, tensorboard_log="logs")
model.learn(total_timesteps=100_000)              steps of the environment; the rate may be a function of what is left, 1.0 at first
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.readers.interpreter.libraries import models
from crashcart.readers.interpreter.libraries.trainers import record_settings
from crashcart.readers.interpreter.store import NONE
from crashcart.readers.interpreter.values import Constant, Function, Instance, Partial, Result, Unknown, Value, constant_of

if TYPE_CHECKING:
    from crashcart.readers.interpreter.interpreter import Interpreter
    from crashcart.readers.interpreter.trace import Call

# The default rate of an agent, and the place and default of its batch; that of A2C is what it has gathered.
_AGENTS: dict[str, tuple[float, int | None, int | None]] = {
    "PPO": (3e-4, 4, 64), "A2C": (7e-4, None, None), "SAC": (3e-4, 5, 256), "TD3": (1e-3, 5, 256), "DDPG": (1e-3, 5, 256),
    "DQN": (1e-4, 5, 32),
}  # fmt: skip
_RATE = 2  # behind the policy and the environment


@models(*(f"stable_baselines3.{name}.learn" for name in _AGENTS))
def learn(interpreter: Interpreter, call: Call) -> Value:
    """The numbers with which an agent trains."""
    agent = call.receiver
    made = agent.call if isinstance(agent, Result) else None
    if interpreter.quiet or made is None:
        return agent if agent is not None else Unknown()
    rate, place, size = _AGENTS[made.method]
    settings: dict[str, Value | None] = {
        "train.max_steps": call.argument(0, "total_timesteps"),
        "train.learning_rate": _first_rate(interpreter, made.argument(_RATE, "learning_rate", Constant(rate)), call),
        "train.accumulation": Constant(1),
    }
    if place is not None:
        settings["train.batch_size"] = made.argument(place, "batch_size", Constant(size))
    folder = made.keywords.get("tensorboard_log", NONE if made.complete else None)
    if isinstance(folder, Constant):
        settings["tracker.kind"] = Constant("tensorboard" if folder.value else "none")
    record_settings(interpreter, call.node, settings)
    return agent if agent is not None else Unknown()


def _first_rate(interpreter: Interpreter, rate: Value | None, call: Call) -> Value | None:
    """The rate at the start, where it may be a function of the part that is left."""
    if isinstance(rate, Result) and rate.name.endswith("ConstantSchedule"):
        return rate.argument(0)
    if isinstance(rate, (Function, Instance, Partial)):
        found = interpreter.call(rate, [Constant(1.0)], {}, call.node)
        return found if isinstance(constant_of(found), float) else None
    return rate
