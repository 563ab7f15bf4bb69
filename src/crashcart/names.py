"""One name for each setting, and how every framework spells it.

The same thing is ``per_device_eval_batch_size`` in HF Trainer, ``validation_batch_size`` in timm and ``sample_batch_size`` in
RDT; causes only ever see ``eval.batch_size``. The spellings were read in the sources of twenty code bases. Three traps are
kept apart here because they changed a diagnosis: a batch per device is not a global batch (DeepSpeed's ``train_batch_size``
is global, diffusers' is not), a period in epochs is not one in steps, and a validation loader is not the training loader.

A spelling is written ``name`` (anywhere), ``parent.name`` (only below that parent) or ``^name`` (only at the top or below a
part called train, trainer, ...; such words mean something else elsewhere). Case, dashes and underscores do not count.
"""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = ["canonical", "is_secret", "learn", "spellings"]

# Each value: "spelling=framework, ..."; the first is the commonest and is the one that advice uses.
SPELLINGS: dict[str, str] = {
    "train.batch_size": "per_device_train_batch_size=HF Trainer, train_batch_size=diffusers, batch_size=most, "
    "train_micro_batch_size_per_gpu=DeepSpeed, micro_batch_size=Megatron, per_device_batch_size=openvla, "
    "local_batch_size=torchtitan, device_train_microbatch_size=composer, samples_per_gpu=mmcv, ^bs, ^batch, "
    "batch_size_per_gpu, per_gpu_train_batch_size, batch_size_train, batch_size_per_device, train_bs, "
    "mini_batch_size, ppo_micro_batch_size_per_gpu=verl",
    "train.global_batch_size": "global_batch_size=Megatron, deepspeed.train_batch_size=DeepSpeed, "
    "axolotl.batch_size=axolotl, ims_per_batch=detectron2, total_batch_size=nanochat, "
    "global_train_batch_size=composer, effective_batch_size",
    "train.images_per_device": "max_img_per_gpu=VGGT",
    "train.tokens_per_device": "^max_tokens=fairseq",
    "train.accumulation": "gradient_accumulation_steps=HF Trainer, accumulate_grad_batches=Lightning, grad_accumulation_factor=SpeechBrain, "
    "grad_accumulation_steps=openvla, grad_accum_steps=timm, accum_steps=VGGT, update_freq=fairseq, "
    "accumulative_counts=mmengine, accumulation_steps, accum_iter=MAE, grad_accum, gradient_accumulation, "
    "accum_grad, gradient_accumulate_every, grad_acc_steps, accumulate, accumulation, grad_accumulate, grad_accumulation, "
    "accumulate_steps, ^accum, accumulate_grad, accumulate_batches",
    "train.max_steps": "max_steps=HF Trainer, max_train_steps=diffusers, max_iters=nanoGPT, train_iters=Megatron, "
    "max_update=fairseq, max_iter=detectron2, ^steps=lerobot, training_steps, num_train_steps=openpi, total_steps, "
    "^num_steps, total_iters, num_iterations, num_training_steps, train_steps, ^iterations",
    "train.epochs": "num_train_epochs=HF Trainer, num_epochs=ACT, epochs=timm, max_epochs=Lightning, "
    "max_epoch=fairseq, ^epoch, n_epochs, train_epochs, total_epochs",
    "train.limit_batches": "limit_train_batches=Lightning",
    "train.steps_per_epoch": "steps_per_epoch",
    "train.learning_rate": "learning_rate=HF Trainer, lr=most, base_learning_rate=latent-diffusion, "
    "base_lr=detectron2, max_lr, peak_lr, init_lr",
    "train.warmup": "warmup_steps=HF Trainer, lr_warmup_steps=diffusers, warmup_iters=nanoGPT, "
    "warmup_updates=fairseq, lr_warmup_iters=Megatron, num_warmup_steps, n_warmup_steps",
    "train.warmup_ratio": "warmup_ratio=HF Trainer, lr_warmup_fraction=Megatron",
    "train.warmup_epochs": "warmup_epochs=timm",
    "train.precision": "mixed_precision=accelerate, precision=Lightning, ^dtype=nanoGPT, amp_dtype=timm, "
    "torch_dtype, autocast_dtype",
    "train.bf16": "bf16=HF Trainer, bf16.enabled=DeepSpeed",
    "train.fp16": "fp16=HF Trainer, fp16.enabled=DeepSpeed, use_fp16",
    "train.amp": "amp=timm, amp.enabled=VGGT, use_amp",
    "train.clip": "max_grad_norm=HF Trainer, gradient_clip_val=Lightning, gradient_clipping=DeepSpeed, "
    "clip_grad=timm, grad_clip=nanoGPT, clip_norm=fairseq, clip_max_norm=ACT, configs.max_norm=VGGT, "
    "clip_grad.max_norm=mmengine, clip_grad_norm, grad_clip_norm=lerobot, grad_norm_clip, ^max_norm=torchtitan",
    "train.sequence_length": "model_max_length=HF, max_seq_length=TRL, cutoff_len=LLaMA-Factory, "
    "sequence_len=axolotl, seq_length=Megatron, block_size=nanoGPT, seq_len=torchtitan, tokens_per_sample=fairseq, "
    "sequence_length, max_seq_len, ^max_length, context_length",
    "train.seed": "^seed=most, random_seed",
    "train.compile": "torch_compile=HF Trainer, ^compile=nanoGPT, torchcompile=timm",
    "train.gradient_checkpointing": "gradient_checkpointing=HF Trainer, grad_checkpointing=timm, "
    "activation_checkpointing, use_checkpoint",
    "eval.batch_size": "per_device_eval_batch_size=HF Trainer, eval_batch_size=axolotl, validation_batch_size=timm, "
    "batch_size_valid=fairseq, eval_micro_batch_size=Megatron, val_batch_size, valid_batch_size, test_batch_size, "
    "batch_size_val, per_gpu_eval_batch_size, eval_bs",
    "eval.batches": "limit_val_batches=Lightning, eval_iters=nanoGPT",
    "sample.batch_size": "sample_batch_size=RDT, sampling_batch_size, num_validation_images=dreambooth, gen_batch_size",
    "sample.batches": "num_sample_batches=RDT",
    "eval.period": "eval_steps=HF Trainer, eval_interval=nanoGPT, eval_freq=lerobot, env_eval_freq=lerobot, "
    "eval_period=detectron2, validate_interval_updates=fairseq, validation_steps=diffusers, eval_every, "
    "eval_every_steps, val_steps, val_every, test_freq=verl, validation.freq=torchtitan, eval.interval, "
    "val.interval, validation.interval, val_freq",
    "eval.period_epochs": "check_val_every_n_epoch=Lightning, validation_epochs=diffusers, val_epoch_freq=VGGT, "
    "val_interval=mmengine, validate_interval=fairseq, eval_epochs, eval_every_epochs",
    "eval.period_batches": "val_check_interval=Lightning",
    "eval.strategy": "eval_strategy=HF Trainer, evaluation_strategy=HF Trainer",
    "sample.period": "sample_period=RDT, batch_frequency=latent-diffusion, sample_every=nanochat, sample_interval, "
    "sample_freq, sample_steps, sampling_steps, sample.interval",
    "save.period": "save_steps=HF Trainer, checkpointing_steps=diffusers, checkpointing_period=RDT, "
    "every_n_train_steps=Lightning, save_interval=Megatron, save_freq=lerobot, save_interval_updates=fairseq, "
    "checkpoint_period=detectron2, ckpt_interval, checkpoint_interval, checkpoint.interval=torchtitan, save_every, "
    "checkpoint_every, save_every_steps, ckpt_every, save_period, checkpoint_freq, checkpoint_steps, save_iter, "
    "save_checkpoint_steps",
    "save.period_epochs": "checkpoint.save_freq=VGGT, modelcheckpoint.every_n_epochs=Lightning, "
    "save_every_n_epochs, save_epochs, save_epoch_freq, every_n_epochs=Lightning",
    "save.strategy": "save_strategy=HF Trainer",
    "log.period": "logging_steps=HF Trainer, log_every_n_steps=Lightning, log_interval=nanoGPT, log_freq=lerobot, "
    "steps_per_print=DeepSpeed, log_every, log_steps, print_freq, log_period, logger.interval=mmengine, "
    "logging.interval",
    "save.keep": "save_total_limit=HF Trainer, checkpoints_total_limit=diffusers, save_top_k=Lightning, "
    "keep_interval_updates=fairseq, keep_last_epochs=fairseq, checkpoint_hist=timm, max_keep_ckpts=mmengine, "
    "keep_latest_k=torchtitan",
    "loader.workers": "dataloader_num_workers=HF Trainer, num_workers=most, workers=timm, num_data_workers, "
    "n_workers, data_workers, num_dataloader_workers, workers_per_gpu=mmcv, loader_workers",
    "loader.prefetch": "dataloader_prefetch_factor=HF Trainer, prefetch_factor=torch",
    "loader.persistent": "dataloader_persistent_workers=HF Trainer, persistent_workers=torch",
    "loader.pin": "dataloader_pin_memory=HF Trainer, pin_memory=torch, pin_mem=timm",
    "loader.drop_last": "dataloader_drop_last=HF Trainer, drop_last=torch",
    "loader.context": "dataloader_multiprocessing_context=lerobot, multiprocessing_context=torch",
    "eval.workers": "val_num_workers, eval_num_workers, num_workers_val, test_num_workers",
    "launch.processes": "num_processes=accelerate, distributed_world_size=fairseq, expected_world_size=openvla, ^world_size",
    "launch.processes_per_node": "nproc_per_node=torchrun, num_gpus=deepspeed, ^devices=Lightning, "
    "trainer.gpus=Lightning, npernode=mpirun",
    "launch.nodes": "nnodes=torchrun, num_machines=accelerate, num_nodes=deepspeed",
    "launch.port": "master_port=torchrun, main_process_port=accelerate",
    "launch.restarts": "max_restarts=torchrun",
    "launch.config_path": "config_file=accelerate",
    "distributed.timeout_seconds": "ddp_timeout=HF Trainer, init_timeout_seconds=torchtitan, "
    "train_timeout_seconds=torchtitan, ddp_timeout_seconds, dist_timeout, timeout_seconds",
    "distributed.timeout_minutes": "timeout_mins=VGGT, distributed_timeout_minutes=Megatron",
    "distributed.kind": "distributed_type=accelerate, ^strategy=Lightning, trainer.strategy=Lightning",
    "distributed.backend": "ddp_backend=HF Trainer, dist_backend=most, distributed_backend=Megatron",
    "distributed.config_path": "deepspeed=HF Trainer, deepspeed_config=DeepSpeed, deepspeed_config_file=accelerate",
    "distributed.zero_stage": "zero_stage=accelerate, zero_optimization.stage=DeepSpeed",
    "distributed.unused_parameters": "ddp_find_unused_parameters=HF Trainer, find_unused_parameters=torch",
    "resume.path": "resume_from_checkpoint=HF Trainer, resume_checkpoint_path=VGGT, restore_file=fairseq, "
    "ckpt_path=Lightning, ^resume=timm, resume_path, resume_from, resume_ckpt, load_from, load_checkpoint",
    "output.path": "output_dir=HF Trainer, out_dir=nanoGPT, save_dir=fairseq, ckpt_dir=ACT, "
    "default_root_dir=Lightning, work_dir=mmengine, run_root_dir=openvla, ^output=timm, ^logdir=latent-diffusion, "
    "checkpoint_dir, ^save_path, exp_dir, dump_folder=torchtitan, ^log_dir=VGGT",
    "tracker.kind": "report_to=HF Trainer, log_with=accelerate, trackers=openvla",
    "tracker.enabled": "use_wandb, log_wandb=timm, wandb_log=nanoGPT, wandb.enable=lerobot, enable_wandb=torchtitan",
    "tracker.mode": "wandb_mode=wandb, wandb.mode=lerobot",
    "data.chunk": "chunk_size=ACT, action_chunk_size=RDT, action_horizon=openpi, num_action_chunks, action_chunk, "
    "pred_horizon",
    "data.images_per_sequence": "img_nums=VGGT, images_per_sequence",
    "data.samples": "max_train_samples=HF examples, num_train_samples, data.num_samples, dataset.num_samples, "
    "train.num_samples, ^num_samples",
    "data.path": "dataset_name=HF Trainer, dataset_dir=LLaMA-Factory, data_path=Megatron, data_dir=timm, "
    "^dataset=nanoGPT, data_root, dataset_path, data_root_dir=openvla, train_file=HF, train_data_dir=diffusers",
    "config.path": "^config=most, ^cfg, config_path, config_name=Hydra, ^base=latent-diffusion",
}

_OWN: dict[str, str] = {}
TRAINING = frozenset({
    "train", "training", "trainer", "traindataloader", "args", "params", "hparams", "config", "optim", "optimizer", "solver",
    "deepspeed", "axolotl",
})  # fmt: skip
# What lies below these writes logs and traces, no checkpoints.
NO_OUTPUT = frozenset(["profiler", "profiling", "metriclogger", "logger", "tensorboard", "wandb"])
# Patterns are text, compiled when first used: every command imports this module.
EVALUATION = r"(val|valid|validation|eval|evaluation|test)(data|dataset|dataloader|loader|ds|sampler|args|config|params)?"
SAMPLING = r"(sample|sampling|inference|generation)(data|dataset|dataloader|loader|args|config|params)?"
# What people put together themselves: a word for the work, and one for a batch or a period.
WORK = (
    ("train", r"(?:train|micro|pergpu|perdevice|local|device)"),
    ("eval", r"(?:val|valid|validation|eval|evaluation|test)"),
    ("sample", r"(?:sample|sampling|gen|generation|generate|inference|infer)"),
    ("save", r"(?:save|saving|ckpt|checkpoint|checkpointing|snapshot)"),
    ("log", r"(?:log|logging|print)"),
)
ACCUMULATION = (
    r"(?:n|num|grad|gradient|batch|backward)*accum(?:ulat(?:e|ion|ing|ions))?(?:grads?|gradients?|batch(?:es)?|steps?|iters?|every|num|freq|n|over|count)*"
    r"|(?:iters?|steps?|batches|num)toaccum(?:ulate)?|(?:n|num)?gradacc(?:umsteps|steps?|iters?|every)?|accgrad(?:s|ient|ients|steps)?"
)
WORKERS = r"(?:n|num|data|dl|loader|train)+workers?"
EPOCHS = r"(?:n|num|max|total|nb|number)(?:of)?(?:train|training)?epochs?"
ALONE = (
    ("train.accumulation", ACCUMULATION),
    ("loader.workers", WORKERS),
    ("train.epochs", EPOCHS),
    ("train.batch_size", "bsz"),
)
BATCH = r"(?:bsz|bs|batch|batchsize)"
PERIOD = r"(?:every|everysteps|everynsteps|interval|period|freq|frequency)"
LONGEST = 1000  # characters of a key with everything above it: no framework comes near


def canonical(spelling: str, *, path: str = "") -> str | None:
    """The canonical name of a setting as a framework spells it, or None where the name is not known or longer than any.

    ``spelling`` may be a flag or a dotted path; ``path`` names what stands above it (``data.val``).
    """
    if len(path) + len(spelling) > LONGEST:
        return None
    parts = [_squeeze(part) for part in re.split(r"[./]", f"{path}.{spelling}" if path else spelling)]
    *parents, last = [part for part in parts if part] or [""]
    if _OWN and (own := _OWN.get(f"{parents[-1]}.{last}" if parents else last) or _OWN.get(last)):
        return own
    nearest = parents[-1] if parents else ""
    for above, top_only, name in _index().get(last, ()):
        if above is not None and above != nearest:
            continue
        if top_only and not TRAINING.issuperset(parents):
            continue
        return None if name == "output.path" and not NO_OUTPUT.isdisjoint(parents) else _for_loader(name, parents)
    made = _put_together(last)
    return _for_loader(made, parents) if made else _in_a_section(nearest, last)


@lru_cache(maxsize=1024)
def _put_together(last: str) -> str | None:
    """``gen_bsz``, ``bs_val``, ``snapshot_interval``: known by their words where the whole is not."""
    for family, work in WORK:
        if family not in {"save", "log"} and re.fullmatch(rf"{work}{BATCH}|{BATCH}{work}", last):
            return f"{family}.batch_size"
        if family != "train" and re.fullmatch(rf"{work}{PERIOD}|every{work}", last):
            return f"{family}.period"
    return next((name for name, words in ALONE if re.fullmatch(words, last)), None)


@lru_cache(maxsize=1024)
def _in_a_section(above: str, last: str) -> str | None:
    """``every.checkpoint`` and ``checkpoint.every``: the two words stand in a section and below it."""
    for family, work in WORK[1:]:
        if re.fullmatch(rf"(?:every|intervals?|periods?){work}(?:steps)?|{work}every(?:steps|nsteps)?", above + last):
            return f"{family}.period"
    return None


def learn(names: dict[str, str]) -> None:
    """Take a project's own words for settings; they count before all others, and replace those of the project before."""
    _OWN.clear()
    _OWN.update({".".join(_squeeze(part) for part in spelling.split(".")[-2:]): name for spelling, name in names.items()})


def spellings(name: str) -> tuple[str, ...]:
    """How the frameworks write a setting as a flag, commonest first: ``--eval_steps (HF Trainer)``."""
    flags = []
    for entry in _entries(name):
        spelling, _, framework = entry.partition("=")
        if "." not in spelling:
            flags.append(f"--{spelling.lstrip('^')}" + (f" ({framework})" if framework else ""))
    return tuple(flags)


def is_secret(name: str) -> bool:
    """Whether what stands under this name must never be shown."""
    from crashcart.redact import names_secret

    return names_secret(name)


def _entries(name: str) -> list[str]:
    listed = SPELLINGS.get(name)
    return listed.split(", ") if listed else []


def _squeeze(part: str) -> str:
    return re.sub(r"\[\d+\]|^\d+$|[-_+~]", "", part).lower()


def _for_loader(name: str, parents: list[str]) -> str:
    """``data.val.num_workers`` belongs to another loader than ``data.train.num_workers``."""
    family, _, rest = name.partition(".")
    if family != "loader" and name not in {"train.batch_size", "train.global_batch_size"}:
        return name
    for parent in reversed(parents):
        if re.fullmatch(EVALUATION, parent):
            return f"eval.{rest}"
        if re.fullmatch(SAMPLING, parent):
            return f"sample.{rest}"
    return name


@lru_cache(maxsize=1)
def _index() -> dict[str, list[tuple[str | None, bool, str]]]:
    """Last part of a spelling -> (parent or None, at the top only, name), the narrowest first."""
    index: dict[str, list[tuple[str | None, bool, str]]] = {}
    for name in SPELLINGS:
        for entry in (name, *_entries(name)):
            spelling = entry.partition("=")[0]
            above, _, last = spelling.rpartition(".")
            rule = (_squeeze(above) or None, spelling.startswith("^"), name)
            index.setdefault(_squeeze(last.lstrip("^")), []).append(rule)
    for rules in index.values():
        rules.sort(key=lambda rule: (rule[0] is None, not rule[1]))
    return index
