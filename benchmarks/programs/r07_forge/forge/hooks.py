import torch

from forge.registry import HOOKS


class Hook:
    def before_epoch(self, runner): ...

    def after_epoch(self, runner): ...


@HOOKS.register("progress")
class Progress(Hook):
    def after_epoch(self, runner):
        print(f"epoch {runner.epoch} loss {runner.mean_loss:.4f}", flush=True)


@HOOKS.register("swa")
class Swa(Hook):
    def __init__(self):
        self.average = None

    def before_epoch(self, runner):
        if runner.epoch == runner.cfg["swa"]["start"]:
            print("swa begins", flush=True)
            self.average = torch.optim.swa_utils.AveragedModel(runner.model)
            for group in runner.optimizer.param_groups:
                group["lr"] = runner.cfg["swa"]["lr"]

    def after_epoch(self, runner):
        if self.average is not None:
            self.average.update_parameters(runner.model)
