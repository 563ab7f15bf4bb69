import math
import shutil

from transformers import TrainerCallback


class Kitchen(TrainerCallback):
    """A line for a human after each evaluation, and a look at the disk before a checkpoint."""

    def on_evaluate(self, args, state, control, metrics=None, **more):
        print(f"step {state.global_step}: perplexity {math.exp(min(metrics['eval_loss'], 20)):.1f}", flush=True)

    def on_save(self, args, state, control, **more):
        free = shutil.disk_usage(args.output_dir).free / 2**30
        print(f"step {state.global_step}: checkpoint kept, {free:.0f} GiB free", flush=True)
        if free < 1:
            print("little room on the disk", flush=True)
