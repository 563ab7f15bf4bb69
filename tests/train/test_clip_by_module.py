"""Each module is clipped by its own norm: as torch would one by one, in one pass, and never by its neighbour's gradients."""

from __future__ import annotations

import copy
import gc
import math
import os
import pickle
import subprocess
import sys
import warnings
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

from crashcart.train import clip_by_module

pytestmark = pytest.mark.processes

PROGRAMS = Path(__file__).parent / "programs"
LIMITS = {"depth_head": 0.5, "aggregator.*": 0.3}


def vggt(dtype: torch.dtype = torch.float32) -> nn.ModuleDict:
    torch.manual_seed(0)
    blocks = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 4))
    model = nn.ModuleDict({"aggregator": blocks, "depth_head": nn.Linear(4, 1), "camera": nn.Linear(4, 2)}).to(dtype)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    return model


def norm_of(module: nn.Module) -> float:
    return float(torch.stack([p.grad.norm() for p in module.parameters() if p.grad is not None]).norm())


def test_one_exploding_head_starves_the_others_under_a_single_norm() -> None:
    usual, ours = vggt(), vggt()
    for model in (usual, ours):
        model["depth_head"].weight.grad.mul_(1e6)  # type: ignore[union-attr, operator]
        model["aggregator"][0].weight.grad.mul_(0.01)  # type: ignore[index]
    before = norm_of(ours["camera"])
    clip_grad_norm_(usual.parameters(), 1.0)
    clip = clip_by_module(LIMITS, rest=math.inf)
    clip(ours)
    assert norm_of(usual["depth_head"]) > 0.5  # above what this head bears
    assert norm_of(usual["camera"]) < 1e-5  # and the others learn nothing
    assert norm_of(ours["depth_head"]) == pytest.approx(0.5, rel=1e-4)
    assert norm_of(ours["aggregator"]) == pytest.approx(0.3, rel=1e-4)
    assert norm_of(ours["camera"]) == before


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_stays_in_its_module(bad: float) -> None:
    usual, ours = vggt(), vggt()
    for model in (usual, ours):
        model["depth_head"].bias.grad.fill_(bad)  # type: ignore[union-attr, operator]
    clip_grad_norm_(usual.parameters(), 1.0)
    assert norm_of(usual["aggregator"]) == 0 or math.isnan(norm_of(usual["aggregator"]))  # all zero or all NaN
    norms = clip_by_module(LIMITS, rest=1.0)(ours)
    assert norm_of(ours["aggregator"]) == pytest.approx(0.3, rel=1e-4)
    assert not math.isfinite(norms.report()["depth_head"])
    assert not math.isfinite(float(norms.total))
    assert "depth_head" in str(norms)
    alone = vggt()["depth_head"]
    alone.bias.grad.fill_(bad)  # type: ignore[union-attr, operator]
    clip_grad_norm_(alone.parameters(), 0.5)
    torch.testing.assert_close(ours["depth_head"].weight.grad, alone.weight.grad, equal_nan=True)


def test_an_error_instead_comes_before_anything_is_scaled() -> None:
    model = vggt()
    model["camera"].weight.grad.fill_(math.inf)  # type: ignore[union-attr, operator]
    before = norm_of(model["aggregator"])
    with pytest.raises(RuntimeError, match=r"gradients of \(rest\) are not finite"):
        clip_by_module(LIMITS, rest=1.0, error_if_nonfinite=True)(model)
    assert norm_of(model["aggregator"]) == before


@pytest.mark.parametrize("norm_type", [1.0, 2.0, 3.0, math.inf])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_as_torch_clips_each_module(norm_type: float, dtype: torch.dtype) -> None:
    torchs, ours = vggt(dtype), vggt(dtype)
    expected = {
        "depth_head": clip_grad_norm_(torchs["depth_head"].parameters(), 0.5, norm_type),
        "aggregator.*": clip_grad_norm_(torchs["aggregator"].parameters(), 0.3, norm_type),
        "(rest)": clip_grad_norm_(torchs["camera"].parameters(), 100.0, norm_type),
    }
    norms = clip_by_module(LIMITS, rest=100, norm_type=norm_type)(ours)
    rough: Any = {"rtol": 0.02, "atol": 0.0} if dtype == torch.bfloat16 else {"rtol": 1e-5, "atol": 1e-7}
    for name, norm in expected.items():
        torch.testing.assert_close(norms[name], norm, check_dtype=False, **rough)
    total = torch.linalg.vector_norm(torch.stack(list(expected.values())), norm_type)
    torch.testing.assert_close(norms.total, total, check_dtype=False, **rough)
    for one, other in zip(torchs.parameters(), ours.parameters(), strict=True):
        torch.testing.assert_close(other.grad, one.grad, **rough)


def test_several_dtypes_in_one_group() -> None:
    torchs, ours = vggt(), vggt()
    for model in (torchs, ours):
        model["aggregator"][0].double()  # type: ignore[index]
        model["camera"].bfloat16()
    expected = clip_grad_norm_(torchs.parameters(), 0.1)
    norms = clip_by_module({"*": 0.1})(ours)
    torch.testing.assert_close(norms["*"], expected, check_dtype=False, rtol=1e-3, atol=0)
    for one, other in zip(torchs.parameters(), ours.parameters(), strict=True):
        torch.testing.assert_close(other.grad, one.grad, rtol=0.02, atol=0)


def wrapped(name: str) -> nn.Module:
    if name == "compile":
        return torch.compile(vggt())  # type: ignore[return-value]
    if name == "data parallel":
        return nn.DataParallel(vggt())
    if name == "compiled inside":
        model = vggt()
        model["aggregator"] = torch.compile(model["aggregator"])  # type: ignore[assignment]
        return nn.ModuleDict({"module": model})
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    model = vggt()
    model["depth_head"] = checkpoint_wrapper(model["depth_head"])
    return model


@pytest.mark.parametrize("name", ["compile", "data parallel", "compiled inside", "checkpoint"])
def test_names_are_the_same_in_every_wrapper(name: str) -> None:
    norms = clip_by_module(LIMITS, rest=1.0)(wrapped(name))
    assert norms.report() == clip_by_module(LIMITS, rest=1.0)(vggt()).report()


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({"depth_heads": 1.0}, "did you mean 'depth_head'"),
        ({"0": 1.0}, "did you mean 'aggregator.0'"),
        ({"q": 1.0}, "the model has: aggregator, depth_head, camera"),
        ({"*": 1.0, "camera": 0.1}, "all of 'camera' belongs to '\\*', which comes first"),
        ({"camera": "1e-1"}, "must be a number, not '1e-1'"),
        ({"camera": True}, "must be a number"),
        ({"camera": -1.0}, "cannot be -1.0"),
        ({"camera": math.nan}, "cannot be nan"),
        ({}, "at least one pattern"),
    ],
)
def test_a_pattern_that_clips_nothing_is_an_error(limits: dict[str, float], told: str) -> None:
    with pytest.raises((ValueError, TypeError), match=told):
        clip_by_module(limits)(vggt())


def test_the_model_does_not_go_first() -> None:
    with pytest.raises(TypeError, match=r"clip_by_module\(\{\.\.\.\}\)\(model\)"):
        clip_by_module(vggt())  # type: ignore[arg-type]


def test_patterns_and_their_order() -> None:
    clip = clip_by_module({"aggregator.[01]": 1.0, "*.weight": 2.0, "camera.bias": 3.0}, rest=4.0)
    norms = clip(vggt())
    assert list(norms) == ["aggregator.[01]", "*.weight", "camera.bias", "(rest)"]
    assert norms.limits["(rest)"] == 4.0
    assert norms.unmatched == ("aggregator.2.bias", "depth_head.bias")
    with pytest.raises(KeyError, match="is no pattern of this clip"):
        norms["nothing"]


def test_what_no_pattern_takes_is_told_once_and_left_alone() -> None:
    model = vggt()
    before = norm_of(model["camera"])
    clip = clip_by_module(LIMITS)
    with pytest.warns(UserWarning, match=r"2 parameters are under no pattern \(camera.weight, camera.bias\)") as caught:
        norms = clip(model)
    assert caught[0].filename == __file__
    assert norm_of(model["camera"]) == before == pytest.approx(float(norms["(rest)"]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clip(model)
        clip_by_module(LIMITS, rest=math.inf)(model)


def test_frozen_parameters_are_no_news_until_they_get_a_gradient() -> None:
    model = nn.ModuleDict({"head": nn.Linear(2, 2), "trunk": nn.Linear(2, 2).requires_grad_(False)})
    clip = clip_by_module({"head": 1.0})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model["head"](model["trunk"](torch.ones(1, 2))).sum().backward()
        clip(model)
    model["trunk"].requires_grad_(True)
    model["head"](model["trunk"](torch.ones(1, 2))).sum().backward()
    with pytest.warns(UserWarning, match=r"2 parameters are under no pattern \(trunk.weight, trunk.bias\)"):
        clip(model)


def test_parameters_instead_of_the_model_are_told_apart() -> None:
    with pytest.raises(TypeError, match=r"clip\(model\) needs the module itself"):
        clip_by_module({"*": 1.0})(nn.Linear(2, 2).parameters())  # type: ignore[arg-type]


def test_the_groups_follow_the_model() -> None:
    """Frozen, unfrozen, added, removed and replaced parameters between calls."""
    model = vggt()
    clip = clip_by_module(LIMITS, rest=1.0)
    clip(model)
    model["depth_head"].requires_grad_(requires_grad=False)
    model["depth_head"].zero_grad(set_to_none=True)
    assert float(clip(model)["depth_head"]) == 0
    model["depth_head"] = nn.Linear(4, 1)
    model["new"] = nn.Linear(2, 2)
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 5.0)
    clip(model)
    assert norm_of(model["depth_head"]) == pytest.approx(0.5, rel=1e-4)
    both = nn.ModuleDict({"a": model["camera"], "b": model["new"]})
    assert norm_of(both) == pytest.approx(1.0, rel=1e-4)
    del model["new"]
    clip(model.double())
    assert clip(model).unmatched == ("camera.weight", "camera.bias")


def test_tied_weights_belong_to_one_group() -> None:
    model = nn.ModuleDict({"embed": nn.Embedding(5, 3), "head": nn.Linear(3, 5, bias=False)})
    model["head"].weight = model["embed"].weight
    model["embed"].weight.grad = torch.ones(5, 3)
    norms = clip_by_module({"embed": 1.0, "head": 0.1})(model)
    assert (float(norms["head"]), round(norm_of(model), 3)) == (0, 1.0)
    assert float(clip_by_module({"head": 0.1})(model)["head"]) == pytest.approx(1.0, rel=1e-3)


def test_sparse_gradients() -> None:
    model = nn.ModuleDict({"embed": nn.Embedding(9, 3, sparse=True), "head": nn.Linear(3, 1)})
    model["head"](model["embed"](torch.tensor([1, 1, 4]))).sum().backward()
    dense = model["embed"].weight.grad.to_dense()  # type: ignore[operator, union-attr]
    with pytest.raises((RuntimeError, NotImplementedError)):
        clip_grad_norm_(model.parameters(), 1e-3)
    norms = clip_by_module({"embed": 1e-3, "head": 1.0})(model)
    torch.testing.assert_close(norms["embed"], dense.norm())
    torch.testing.assert_close(
        model["embed"].weight.grad.to_dense(),  # type: ignore[operator, union-attr]
        dense * 1e-3 / (dense.norm() + 1e-6),
    )


def test_no_gradient_at_all_and_empty_parameters() -> None:
    model = vggt()
    model.zero_grad(set_to_none=True)
    with pytest.warns(UserWarning, match="no parameter has a gradient"):
        norms = clip_by_module(LIMITS, rest=1.0)(model)
    assert norms.report() == {"total": 0.0, "depth_head": 0.0, "aggregator.*": 0.0, "(rest)": 0.0}
    model["camera"].register_parameter("empty", nn.Parameter(torch.ones(0)))
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    assert float(clip_by_module(LIMITS, rest=1.0, norm_type=math.inf)(model).total) == 1.0


def test_after_a_scaler_and_with_several_param_groups() -> None:
    """The scaled gradients are 2**16 too large: clipping them before `unscale_` throws nearly all away."""
    model = vggt()
    optimizer = torch.optim.SGD(
        [{"params": model["aggregator"].parameters()}, {"params": model["camera"].parameters()}], 0.1
    )
    scaler = torch.amp.GradScaler("cpu") if hasattr(torch.amp, "GradScaler") else None
    if scaler is None:
        pytest.skip("this torch has no GradScaler for the CPU")
    model.zero_grad()
    scaler.scale(model["camera"](model["aggregator"](torch.ones(2, 4))).sum()).backward()
    scaler.unscale_(optimizer)
    norms = clip_by_module(LIMITS, rest=1.0)(model)
    assert 0 < float(norms.total) < 1e3
    scaler.step(optimizer)
    scaler.update()


def test_neither_gradients_nor_models_are_kept_alive() -> None:
    model = vggt()
    clip = clip_by_module(LIMITS, rest=1.0)
    norms = clip(model)
    gradient = weakref.ref(model["camera"].weight.grad)
    model.zero_grad(set_to_none=True)
    assert gradient() is None
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
    assert norms.report()["total"] > 0


def test_it_can_be_copied_and_pickled() -> None:
    clip = clip_by_module(LIMITS, rest=1.0)
    clip(vggt())
    for other in (copy.deepcopy(clip), pickle.loads(pickle.dumps(clip))):  # noqa: S301 - our own
        assert other(vggt()).report() == clip(vggt()).report()


def test_flattened_parameters_are_refused() -> None:
    class FullyShardedDataParallel(nn.Module):
        pass

    with pytest.raises(TypeError, match="FSDP1 flattens"):
        clip_by_module(LIMITS)(nn.Sequential(vggt(), FullyShardedDataParallel()))


def test_shards_of_fsdp2_are_clipped_by_the_norm_of_the_whole(tmp_path: Path) -> None:
    pytest.importorskip("torch.distributed.fsdp", reason="no FSDP").__dict__.get("fully_shard") or pytest.skip(
        "no fully_shard"
    )
    started = [
        subprocess.Popen(
            [sys.executable, PROGRAMS / "sharded_clip.py", str(rank), tmp_path / "store"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        for rank in (0, 1)
    ]
    outputs = [(process.wait(90), process.communicate()[0]) for process in started]
    assert [code for code, _ in outputs] == [0, 0], outputs
