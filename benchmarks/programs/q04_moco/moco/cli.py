import argparse
import lightning as L
from torch.utils.data import DataLoader
from moco.lit import MoCo
from moco.pairs import TwoViews


class Lines(L.Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, i):
        if trainer.global_step % 4 == 0:
            print(f"step={trainer.global_step} loss={outputs['loss'].item():.4f} lr={trainer.optimizers[0].param_groups[0]['lr']:.3f}", flush=True)


def fit(a):
    L.seed_everything(a.seed)
    loader = DataLoader(TwoViews(a.samples), a.batch_size, shuffle=True, num_workers=0)
    trainer = L.Trainer(max_epochs=a.epochs, accelerator="cpu", logger=False, enable_checkpointing=True, enable_progress_bar=False,
                        enable_model_summary=False, callbacks=[Lines()], default_root_dir="lit", precision="32-true")
    trainer.fit(MoCo(queue=a.queue), loader)
    print("encoder at", trainer.checkpoint_callback.best_model_path)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    sub = ap.add_subparsers(required=True)
    f = sub.add_parser("fit")
    f.add_argument("--samples", type=int, default=1600)
    f.add_argument("--batch-size", type=int, default=64)
    f.add_argument("--queue", type=int, default=512)
    f.add_argument("--epochs", type=int, default=3)
    f.add_argument("--seed", type=int, default=2)
    f.set_defaults(run=fit)
    args = ap.parse_args()
    args.run(args)
