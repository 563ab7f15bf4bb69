import logging
import hydra
import torch
from omegaconf import DictConfig, OmegaConf
from torch.utils.data import DataLoader, TensorDataset
from distill.engine import Distiller
from distill.nets import mlp

log = logging.getLogger(__name__)


@hydra.main(config_path="conf", config_name="config", version_base=None)
def main(cfg: DictConfig):
    torch.manual_seed(cfg.seed)
    log.info("\n%s", OmegaConf.to_yaml(cfg))
    teacher = mlp(20, 128, cfg.data.classes, depth=3)
    for p in teacher.parameters():
        p.data.mul_(2.5)
    student = mlp(20, cfg.student.width, cfg.data.classes)
    loader = DataLoader(TensorDataset(torch.randn(cfg.data.rows, 20)), cfg.optim.micro_batch, shuffle=True)
    d = Distiller(student, teacher, loader, cfg)
    for k in range(cfg.trainer.epochs):
        d.epoch(k)
        log.info("epoch %d agreement with the teacher %.3f", k, d.agreement())
    torch.save(student.state_dict(), "student.pt")
    log.info("student saved")


if __name__ == "__main__":
    main()
