"""A Lightning module: python lightning_module.py [STRATEGY [DEVICES]]"""
import logging, sys, warnings
warnings.filterwarnings("ignore")
import torch
import lightning as L
from torch.utils.data import DataLoader, TensorDataset

class Module(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.save_hyperparameters()
        self.net = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(16, 1))
    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = torch.nn.functional.mse_loss(self.net(x), y)
        self.log("train_loss", loss)
        return loss
    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("val_loss", torch.nn.functional.mse_loss(self.net(x), y), sync_dist=True)
    def on_train_epoch_end(self):
        if self.trainer.is_global_zero:
            print("epoch", self.current_epoch, self.trainer.callback_metrics["train_loss"].item().hex(), self.trainer.callback_metrics["val_loss"].item().hex(), flush=True)
    def configure_optimizers(self):
        o = torch.optim.Adam(self.parameters(), lr=1e-2)
        return {"optimizer": o, "lr_scheduler": torch.optim.lr_scheduler.StepLR(o, 1, 0.5)}

class Data(L.LightningDataModule):
    def setup(self, stage):
        g = torch.Generator().manual_seed(0)
        x = torch.randn(96, 6, generator=g)
        self.ds = TensorDataset(x, x.sum(1, keepdim=True))
    def train_dataloader(self): return DataLoader(self.ds, 16, shuffle=True, num_workers=2, multiprocessing_context="fork")
    def val_dataloader(self): return DataLoader(self.ds, 32, num_workers=1, multiprocessing_context="fork")

def main():
    strategy = sys.argv[1] if len(sys.argv) > 1 else "auto"
    devices = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    L.seed_everything(1, workers=True)
    cuda = torch.cuda.is_available()
    trainer = L.Trainer(max_epochs=3, strategy=strategy, devices=devices, accelerator="gpu" if cuda else "cpu", logger=False, enable_progress_bar=False,
                        precision="16-mixed" if cuda else 32, deterministic=True, gradient_clip_val=1.0, default_root_dir=".", enable_model_summary=False,
                        callbacks=[L.pytorch.callbacks.ModelCheckpoint(dirpath="ckpts", monitor="val_loss", save_last=False, filename="best")])
    model = Module()
    trainer.fit(model, Data())
    if trainer.is_global_zero:
        import os
        print(sorted(os.listdir("ckpts")), trainer.global_step)
    if strategy == "auto":
        print(trainer.validate(model, Data(), verbose=False)[0]["val_loss"].hex(), sum(p.double().sum().item() for p in model.parameters()).hex())
    import shutil
    if trainer.is_global_zero: shutil.rmtree("ckpts")

if __name__ == "__main__":
    main()
