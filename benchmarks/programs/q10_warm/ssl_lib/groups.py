import logging

log = logging.getLogger(__name__)


def param_groups(model, stage, lr, wd):
    """The head learns faster; norms and biases are not decayed."""
    head = [p for p in model.head.parameters()]
    groups = [{"params": head, "lr": lr, "weight_decay": 0.0}]
    if stage == "probe":
        model.backbone.requires_grad_(False)
        log.warning("%d of %d tensors will get no gradient", len(list(model.backbone.parameters())), len(list(model.parameters())))
        return groups
    decay = [p for p in model.backbone.parameters() if p.ndim > 1]
    plain = [p for p in model.backbone.parameters() if p.ndim <= 1]
    return groups + [{"params": decay, "lr": 0.1 * lr, "weight_decay": wd}, {"params": plain, "lr": 0.1 * lr, "weight_decay": 0.0}]
