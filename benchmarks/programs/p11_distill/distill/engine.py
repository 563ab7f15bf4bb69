import logging
import torch
from torch.nn import functional as F

log = logging.getLogger(__name__)


class Distiller:
    def __init__(self, student, teacher, loader, cfg):
        self.student, self.teacher, self.loader, self.cfg = student, teacher.eval(), loader, cfg
        self.accumulate = max(1, cfg.optim.effective_batch // cfg.optim.micro_batch)
        self.opt = torch.optim.AdamW(student.parameters(), lr=cfg.optim.lr)
        self.sched = torch.optim.lr_scheduler.LambdaLR(self.opt, lambda e: min(1.0, (e + 1) / cfg.optim.warmup))

    def kd(self, x):
        T = self.cfg.student.temperature
        with torch.no_grad():
            t = F.softmax(self.teacher(x) / T, -1)
        return F.kl_div(F.log_softmax(self.student(x) / T, -1), t, reduction="batchmean") * T * T

    def epoch(self, k):
        self.opt.zero_grad()
        for i, (x,) in enumerate(self.loader):
            loss = self.kd(x)
            (loss / self.accumulate).backward()
            if (i + 1) % self.accumulate == 0:
                torch.nn.utils.clip_grad_norm_(self.student.parameters(), 1.0)
                self.opt.step()
                self.opt.zero_grad()
            if i % self.cfg.trainer.log_every == 0:
                log.info("epoch %d it %d/%d kd %.4f lr %.1e", k, i, len(self.loader), loss.item(), self.sched.get_last_lr()[0])
        self.sched.step()

    @torch.no_grad()
    def agreement(self):
        x = torch.cat([b[0] for b in self.loader])
        return (self.student(x).argmax(-1) == self.teacher(x).argmax(-1)).float().mean().item()
