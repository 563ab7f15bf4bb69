"""The start in every Python process of a job: its files, its stacks, its last words, and hooks for what it will import.

At most 5 ms, so nothing is imported here that a bare interpreter does not need; all else waits for torch. There are two ways in:
`site/sitecustomize.py` on PYTHONPATH for any interpreter, and `crashcart_inside.pth` where crashcart is installed, which works
where PYTHONPATH does not (`-I`, `-E`, `export PYTHONPATH=.`). Both load this folder under the same name, so that whichever comes
second finds everything done, and neither loads crashcart itself.
"""

from __future__ import annotations

import os
import sys

from . import layout

HOOKS = {
    "traceback": "our_frames",
    "inspect": "our_frames",
    "threading": "uncaught_threads",
    "signal": "stacks",
    "argparse": "settings",
    "yaml": "settings",
    "omegaconf.omegaconf": "settings",
    "hydra.core.utils": "settings",
    "transformers.training_args": "settings",
    "accelerate.accelerator": "settings",
    "lightning.pytorch.trainer.trainer": "settings",
    "pytorch_lightning.trainer.trainer": "settings",
    "torch.optim.lr_scheduler": "schedules",
    "torch": "torch_ready",
    "torch.optim.optimizer": "steps",
    "torch.nn.modules.module": "modes",
    "torch._tensor": "losses",
    "torch.amp.grad_scaler": "scaling",
    "torch.cuda.amp.grad_scaler": "scaling",
    "torch.distributed.fsdp.sharded_grad_scaler": "scaling",
    "torch.utils.data.dataloader": "batches",
    "torch.utils.data._utils.worker": "workers",
    "torch.serialization": "checkpoints",
    "torch.distributed.checkpoint.state_dict_saver": "checkpoints",
    "safetensors.torch": "checkpoints",
    "lightning.fabric.utilities.cloud_io": "checkpoints",
    "lightning_fabric.utilities.cloud_io": "checkpoints",
    "torch.distributed.distributed_c10d": "collectives",
    "torch._dynamo.callback": "compiling",
    "torch._dynamo.eval_frame": "untraced",
    "transformers.generation.utils": "sampling",
    "diffusers.pipelines.pipeline_utils": "sampling",
    "wandb.sdk.wandb_init": "trackers",
    "wandb.sdk.wandb_run": "trackers",
    "mlflow.tracking.fluent": "trackers",
    "torch.utils.tensorboard.writer": "trackers",
    "tensorboardX.writer": "trackers",
}
_started = False


def start() -> None:
    """Begin, once; does nothing where `crashcart run` did not ask for it, and never raises."""
    global _started  # noqa: PLW0603 - once a process
    if _started:
        return
    _started = True
    try:
        folder = os.environ.get(layout.FOLDER, "")
        switched_off = os.environ.get(layout.SWITCH) == layout.OFF
        # Without the signal we are to stay outside.
        if folder and not switched_off and layout.SIGNAL in os.environ and os.path.isdir(folder):
            _start(folder)
    except Exception:
        try:
            from .mistakes import ours

            ours("start")
        except Exception:  # nothing of ours may be seen
            pass


def _start(folder: str) -> None:
    from . import after_import, our_frames, own_output, page, printed, stacks, uncaught
    from .mistakes import ours

    def attempt(what: object, *arguments: object) -> None:
        try:
            what(*arguments)  # type: ignore[operator]
        except Exception:
            ours("start")

    def after_in_child() -> None:
        attempt(page.open_page, folder)
        attempt(stacks.register)
        for renew in page.after_fork:
            attempt(renew)
        attempt(page.write_page)
        attempt(_hello, "fork")

    attempt(our_frames.disguise)
    attempt(page.open_page, folder)
    attempt(own_output.ask, folder)  # before anything is printed
    attempt(stacks.register)
    attempt(uncaught.watch)
    attempt(after_import.hook, HOOKS)
    attempt(lambda: os.register_at_fork(after_in_child=after_in_child))
    attempt(printed.keep)
    attempt(page.write_page)
    attempt(_hello, "start")


def _hello(how: str) -> None:
    from . import arguments, events

    events.write("hello", how=how, python=sys.version.split()[0], argv=arguments.shown(), parent=os.getppid())
