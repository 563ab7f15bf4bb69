import sys
import torch
from omegaconf import OmegaConf
from torch.utils.data import DataLoader, TensorDataset
from xfer.backbone import SmallNet, sample


class Adaptation:
    def __init__(self, cfg):
        self.cfg = cfg
        torch.manual_seed(cfg.seed)
        self.net = SmallNet()
        missing, unexpected = self.net.load_state_dict(torch.load(cfg.pretrained), strict=False)
        print(f"loaded {cfg.pretrained}: missing {missing}, unexpected {unexpected}")
        if cfg.freeze:
            self.net.freeze_trunk()

    def to_task(self):
        print(f"WARNING: the head of 10 classes is replaced by one of {self.cfg.classes}, its weights are lost")
        self.net.reset_classifier(self.cfg.classes)
        self.optimizer = torch.optim.Adam([p for p in self.net.parameters() if p.requires_grad], lr=self.cfg.lr)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 3, 0.5)
        return self

    def run(self):
        cfg = self.cfg
        train = DataLoader(TensorDataset(*sample(1000, cfg.classes, 1)), cfg.batch, shuffle=True)
        vx, vy = sample(400, cfg.classes, 2)
        step = 0
        for epoch in range(cfg.epochs):
            for x, y in train:
                loss = torch.nn.functional.cross_entropy(self.net(x), y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                step += 1
                if step % 5 == 0:
                    print(f"epoch {epoch} step {step} loss {loss.item():.4f} lr {self.scheduler.get_last_lr()[0]:.1e}")
            self.scheduler.step()
            with torch.no_grad():
                print(f"epoch {epoch} val acc {(self.net(vx).argmax(1) == vy).float().mean().item():.3f}")
        torch.save(self.net.state_dict(), "adapted.pt")


if __name__ == "__main__":
    Adaptation(OmegaConf.load(sys.argv[1])).to_task().run()
