import lightning as L
import torch
from torch import nn
from torch.nn.functional import cross_entropy, normalize

from chem_ft.freezing import freeze
from chem_ft.nets import trunk


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        body = trunk()
        for name, part in body.named_children():
            self.add_module(name, part)
        self.prototypes = nn.Linear(128, 4, bias=False)

    def forward(self, x):
        h = normalize(self.top(self.mid(self.stem(x))), dim=1)
        return h @ normalize(self.prototypes.weight, dim=1).T


class PatternTask(L.LightningModule):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.network = Network()
        state = torch.load(cfg["trunk"])
        self.network.load_state_dict(state, strict=False)
        self.left = freeze(self.network, cfg["freeze"])
        self.scale = nn.Parameter(torch.tensor(2.3))

    def training_step(self, batch, _):
        x, kind = batch
        loss = cross_entropy(self.scale.exp() * self.network(x), kind)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, _):
        x, kind = batch
        self.log("accuracy", (self.network(x).argmax(1) == kind).float().mean())

    def on_train_epoch_end(self):
        m = self.trainer.callback_metrics
        rate = self.optimizers().param_groups[0]["lr"]
        self.print(f"epoch {self.current_epoch} loss {m['loss']:.4f} accuracy {m['accuracy']:.3f} lr {rate:.1e}")

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW([p for p in self.parameters() if p.requires_grad], self.cfg["lr"])
        ramp = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / self.cfg["warmup_steps"]))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": ramp, "interval": "step"}}
