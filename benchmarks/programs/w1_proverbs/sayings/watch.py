"""What is written next to each checkpoint, and the early end when the loss does not fall any more."""
import json
import math
import pathlib
import time

from transformers import TrainerCallback


class Card(TrainerCallback):
    def __init__(self, title, patience=6):
        self.title, self.patience = title, patience
        self.start, self.best, self.bad = time.time(), math.inf, 0

    def on_evaluate(self, args, state, control, metrics=None, **more):
        loss = metrics["eval_loss"]
        if not math.isfinite(loss):
            print("evaluation gave no finite loss, kept for the record")
        self.bad = 0 if loss < self.best else self.bad + 1
        self.best = min(self.best, loss)
        if self.bad >= self.patience:
            control.should_training_stop = True

    def on_save(self, args, state, control, **more):
        last = state.log_history[-1]
        folder = pathlib.Path(args.output_dir) / f"checkpoint-{state.global_step}"
        card = {
            "title": self.title,
            "step": state.global_step,
            "epoch": round(state.epoch, 2),
            "loss": round(last["loss"], 4),
            "rate": last["learning_rate"],
            "best_eval": None if math.isinf(self.best) else round(self.best, 4),
            "minutes": round((time.time() - self.start) / 60, 1),
        }
        (folder / "card.json").write_text(json.dumps(card, indent=1))
