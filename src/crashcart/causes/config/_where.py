"""Where an exception came from, as the causes of this family ask it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled

if TYPE_CHECKING:
    from crashcart.case import Case
    from crashcart.log import Raised

# Settings on their way into the program: a parser's or a config library's frame, or a value read from such an object.
SETTINGS = (
    r"argparse|hf_argparser|omegaconf|hydra|yacs|jsonargparse|draccus|tyro|/configs?/|config\w{0,60}\.py|options?\.py|"
    r"arguments\.py|"
    r"parse_args|parse_config|load_config|get_config|build_from_cfg|from_config|\b(?:args|opts?|cfg|conf|config|hparams|"
    r"hyp|flags|data_dict|data_cfg|data_config|settings|params|model_cfg|train_cfg|\w{1,60}_(?:args|opts?|cfg|conf|config|params|settings))\b[.\[]"
)


def says(raised: Raised, pattern: str) -> bool:
    """Whether the exception's own message fits a pattern."""
    return compiled(pattern).search(raised.message) is not None


def trained(case: Case, raised: Raised) -> bool:
    """Whether training steps were logged before the exception."""
    return sum(metric.line.order < raised.line.order and metric.get("loss") is not None for metric in case.log.metrics) > 1
