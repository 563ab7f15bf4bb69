import argparse

import lightning as L
import torch
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint

from fold.net import Turnover
from fold.pockets import Pockets

parser = argparse.ArgumentParser()
parser.add_argument("--train", type=int, default=4800)
parser.add_argument("--val", type=int, default=750)
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--lr", type=float, default=2e-3)
parser.add_argument("--clip", type=float, default=1.0)
o = parser.parse_args()
L.seed_everything(12, verbose=False)
torch.set_num_threads(1)
trainer = L.Trainer(
    max_epochs=o.epochs,
    accelerator="cpu",
    precision="32-true",
    logger=False,
    enable_progress_bar=False,
    num_sanity_val_steps=1,
    gradient_clip_val=o.clip,
    val_check_interval=75,
    callbacks=[ModelCheckpoint("kept", monitor="val_error"), EarlyStopping("val_error", patience=5)],
)
trainer.fit(Turnover(lr=o.lr), Pockets(o.train, o.val, o.batch))
print("best", trainer.checkpoint_callback.best_model_path)
