"""Frames that tell where an exception came from, as the causes of this family ask it."""

from __future__ import annotations

LOADER = (
    r"__getitem__|__getitems__|_worker_loop|_utils/(?:fetch|worker|collate)\.py|collat|/datasets?/|dataset\w{0,60}\.py|"
    r"dataloader|data_?loader|_next_data"
)
WEIGHTS = (
    r"torch/serialization\.py|from_pretrained|load_state_dict|load_checkpoint|load_model\b|load_pretrained|"
    r"safetensors|safe_open|torch\.load|load_weights|/hub\.py"
)
