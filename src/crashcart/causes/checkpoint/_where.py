"""Frames that tell where an exception came from, as the causes of this family ask it."""

from __future__ import annotations

from crashcart.cause import compiled
from crashcart.numbers import to_int

LOADING = (
    r"serialization\.py (?:load|_load|_legacy_load|_open_\w+reader|__init__)|from_pretrained|load_state_dict|"
    r"load_checkpoint|resume|restore|load_from_checkpoint|"
    r"torch\.load\(|safe_open|load_file\b|load_model\b|load_pretrained|load_weights|state_dict_loader|load_state\b|"
    r"load_url|/hub\.py|load_ckpt|_load_optimizer"
)
SAVING = (
    r"serialization\.py (?:save|_save|_open_\w{1,60}writer)|torch\.save\(|save_checkpoint|save_pretrained|save_model\b|"
    r"save_file\b|state_dict_saver|"
    r"_get_optim_state_dict|get_optimizer_state_dict|get_model_state_dict|async_save|dist_checkpointing.{0,200} save|"
    r"save_state\b|_save_to_state_dict|save_ckpt|"
    r"PyTorchFileWriter|orbax|savemodel|checkpoint\w{0,60}\.py save|_rotate_checkpoints|save_to_json|safe_save_file|saver\.py|"
    r"_save_checkpoint"
)
# What torch's own unpickler says of a byte that is no instruction of any pickle; those of "version" (Git LFS) and "<" (a page) are
# told as placeholders.
_OPERAND = r"Unsupported operand (\d+)"
_INSTRUCTIONS = frozenset(
    b"(.012FIJKLMNPQRSTUVXabcdeghijlopqrst}])BCuG\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8b"
) | set(range(0x8C, 0x99))
_PLACEHOLDERS = frozenset(b"v<")


def no_pickle(text: str) -> bool:
    """Whether a load failed at a byte that stands in no pickle: the file is damaged, not of another kind."""
    match = compiled(_OPERAND).search(text)
    return match is not None and to_int(match[1]) not in _INSTRUCTIONS | _PLACEHOLDERS
