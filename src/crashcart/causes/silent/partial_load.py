"""Weights were loaded only partly, and the program continued.

What happens: training starts (nearly) from scratch though a checkpoint was given; the loss begins at the level of
guessing.

Why: ``strict=False`` with names that do not match: a prefix more or less (``module.``, ``backbone.``, ``model.``,
``_orig_mod.``), a file for another architecture, a wrapper around the state dict; or the path is wrong and the code
goes on.

How it shows: lists of missing and unexpected keys that hold the body of the model, not only its head; the same names on
both lists but for a prefix; ``Transferred 0/349 items``. A new head, ``num_batches_tracked``, position ids or tied
weights on the list are healthy. A recording counts what each ``load_state_dict`` took.

What to do: compare the two lists; strip or add the prefix; fail when more than the head is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled, decisive, strong, weak
from crashcart.causes.silent._lines import grade, parameters
from crashcart.deaths import order
from crashcart.doubts import unfitting
from crashcart.log import evidence
from crashcart.model import Evidence, Experiment, Fix, Sign
from crashcart.numbers import to_int

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.log import Line

title = "Weights were loaded only partly"
lasting = True
alike = ("checkpoint/incompatible", "silent/not-learning")
MISSING = (
    "missing key", "missing_keys=", "missing and/or unexpected keys", "not found in the checkpoint", "not in the checkpoint", "newly initialized",
    "missing parameters", "not initialized from", "parameters not loaded", "missing weights", "keys missing from",
    "not loaded from", "could not be loaded", "not in the loaded state", "skip loading parameter", "skip loading layer",
    "skipping parameter", "skip parameter", "skipping loading", "skipped loading", "shape mismatch for", "shape mismatch:",
    "because of shape mismatch", "due to shape mismatch", "due to incompatible shape", "shapes don't match", "drop parameter",
)  # fmt: skip
UNEXPECTED = (
    "unexpected key", "unexpected_keys=", "were not used when", "not used by the model", "unused keys",
    "unexpected parameters", "keys not found in the model", "not found in the model", "not in the model", "ignored keys",
    "ignoring keys", "skipped keys", "unmatched keys", "keys not matched",
)  # fmt: skip
HARMLESS = (
    r"head|classifier|pooler|cls\.|lm_head|num_batches_tracked|position_ids|inv_freq|anchor|fpn|rpn|roi_|score|(?:^|"
    r"\.)fc\d*\.|"
    r"fc_norm|lora_|adapter|projector|decoder|pred|logit|mask_token|relative_position|attn_mask|pos_embed|"
    r"norm\.(?:weight|bias)$|conv\d?_offset|_offset\.|rotary|masked_bias|attn\.bias$|position_embeddings?\.|prompt"
)
# Weights in the middle of a network: numbered blocks, and what people call its body.
INSIDE = (
    r"(?:^|\.)(?:backbone|encoder|transformer|body|trunk|resnet|bert|roberta|vit|swin|model|module|net|base_model)\.|"
    r"(?:^|\.)(?:layers?|blocks?|h|stages?|resblocks|down|up)\.?\d+\.|(?:^|\.)(?:conv1|layer[1-4]|patch_embed)\."
)
# A file may hold more than this model wants: another tower, a decoder, a teacher, a discriminator, statistics of training.
OTHER_PART = (
    r"vision_model|text_model|visual|text_(?:encoder|projection)|vision_tower|decoder|decode_|head|teacher|momentum|_ema|ema_|ema\.|"
    r"discriminator|loss|lpips|first_stage|cond_stage|optimizer|teacher|queue|proj|total_(?:ops|params)|aux|qa_outputs|"
    r"cls\.|mtp|audio|image_|mlm|seq_relationship|generator"
)
BODY = 3
PREFIXED = 2

phrases = (
    decisive("transferred ", says="few of the checkpoint's weights match the model", any_level=True,
             pattern=r"transferred (?:0/\d+|(\d)/\d{3,}|(\d\d)/\d{3,}) items"),
    decisive("loaded 0 ", "load 0 ", "0 weights loaded", "0 keys loaded", "0 parameters loaded", "0 params loaded",
             "loading 0 ",
             says="no weight was loaded", any_level=True,
             pattern=r"\bload(?:ed|ing)? 0 (?:\w+ )?(?:keys?|params?|parameters?|weights?|tensors?|layers?|items?)|"
                     r"(?<![\d.])0 \w+ loaded"),
    decisive("loaded 0/", "matched 0/", "matched 0 ", "loaded: 0/", "0% of the weights", "0.0% of the", "0.00% of the",
             "no weights were loaded", "no weight was loaded", "no matching keys", "no keys matched", "no parameters matched",
             "none of the weights", "none of the parameters", "none of the keys", "no matched parameters",
             says="no weight in the file matches the model", any_level=True,
             pattern=r"\b(?:loaded|matched):? 0(?:/[1-9]\d*| (?:of|out of) [1-9])|(?<![\d.])0(?:\.0+)?% of the (?:weights|param|"
                     r"keys|layers)|no (?:weights?|keys|param\w+|matching|matched)\b|none of the"),
    strong("training from scratch", "from random initiali", "with random weights", "randomly initialized", "without pretrained",
           says="weights are listed that the program continues without", any_level=True, fatal=False,
           pattern=r"(?:could not|couldn't|cannot|can't|failed to|unable to|not found|does not exist|doesn't exist|no such|missing)"
                   r".{0,160}(?:from scratch|random|without pretrained)"),
    strong("unexpected keys", says="many names on both sides do not match", any_level=True,
           pattern=r"with [2-9]\d+ missing and [2-9]\d+ unexpected keys|with \d{3,} missing and \d{3,} unexpected keys"),
    strong("=> no checkpoint found at", "model checkpoint at none", "pretrained model path is none",
           says="no weights were found, and the program continues without them", any_level=True, fatal=False),
    strong("found missing adapter keys", says="the adapter's weights are not in the checkpoint", any_level=True),
    strong("copying from a non-meta parameter", says="weights were not copied: the model is still without storage",
           any_level=True),
    weak(*MISSING, *UNEXPECTED, says="the log lists names of weights that did not match", fatal=False, any_level=True),
)  # fmt: skip


def in_code(case: Case) -> Iterator[Sign]:
    """Whether it fits nobody knows before the file is read; that nobody looks can be seen."""
    for fact in case.all("code.loads_what_fits"):
        says = f"{fact.value}() loads what matches and nothing checks the rest: if the names differ, it loads nothing"
        yield Sign("weak", says, (fact.evidence,), fatal=False)


def in_log(case: Case) -> Iterator[Sign]:
    """Lists of missing and unexpected names: the body of the model among them, or the same names but for a prefix."""
    if any(
        "loading state_dict" in one.message.lower() or "loading state_dict" in one.line.lowered for one in case.log.raised
    ):
        return
    missing, unexpected = _listed(case, MISSING), _listed(case, UNEXPECTED)
    twins = {name for name in unexpected for other in missing if name != other and _same_tail(name, other)}
    if len(twins) >= PREFIXED and len(twins) >= len(missing) // 4:
        line = missing[next(iter(missing))]
        says = (
            f"{len(twins)} names are both missing and unexpected, and differ only by a prefix ({next(iter(sorted(twins)))})"
        )
        yield Sign(grade(case, "decisive"), says, (evidence(line),), order=line.order)
        return
    body = [name for name in missing if not compiled(HARMLESS).search(name)]
    if len(body) >= BODY and len(body) > len(missing) // 3:
        line = missing[body[0]]
        says = f"{len(body)} weights of the model's body are not in the checkpoint ({body[0]}, {body[1]}, ...)"
        yield Sign(grade(case, "strong"), says, (evidence(line),), order=line.order)
        return
    unused = [name for name in unexpected if compiled(INSIDE).search(name) and not compiled(OTHER_PART).search(name)]
    unused = [name for name in unused if not name.endswith(("num_batches_tracked", "position_ids", "inv_freq"))]
    if len(unused) >= BODY and len(unused) > len(unexpected) // 3:
        line = unexpected[unused[0]]
        says = f"{len(unused)} weights of the model's body were not used ({unused[0]}, {unused[1]}, ...)"
        yield Sign(grade(case, "strong"), says, (evidence(line),), order=line.order)


def in_recorder(case: Case) -> Iterator[Sign]:
    """Loads that took nothing; or left out weights that the file has under the same name with another prefix."""
    for event in unfitting(case.flight) if case.flight is not None else ():
        details = event.details
        given, taken, missing = (to_int(details.get(name), 0) for name in ("given", "taken", "missing"))
        says = f"load_state_dict of {details.get('class', 'a model')} took {taken or 'none'} of {given} tensors, and {missing} of its own stayed as they were"
        absent, other = details.get("missing_names") or [], details.get("unexpected_names") or []
        pairs = [(name, known) for name in other for known in absent if _same_tail(name, known)]
        says += f": the file calls {pairs[0][1]} {pairs[0][0]}" if pairs else ""
        place = str(details.get("place", "")).partition(" ")[0]
        here = (Evidence("recorder", "the weights were loaded here", place),) if place else ()
        yield Sign(grade(case, "decisive"), says, (event.evidence, *here), order=order(case))
        return


def _same_tail(one: str, other: str) -> bool:
    return one.endswith("." + other) or other.endswith("." + one)


def _listed(case: Case, words: tuple[str, ...]) -> dict[str, Line]:
    """Names in lines with the words, and in the lines below them that hold nothing else."""
    names: dict[str, Line] = {}
    for line in case.log.index.saying(words):
        text = line.text
        if words is MISSING and "unexpected_keys=" in text:
            text = text.split("unexpected_keys=")[0]
        elif words is UNEXPECTED and "missing_keys=" in text:
            text = text.split("unexpected_keys=")[-1]
        for name in parameters(text):
            names.setdefault(name, line)
        for after in case.log.around(line, after=60)[1:]:
            found = parameters(after.text)
            if (
                not found
                or len(after.text.split()) > 2 * len(found) + 3
                or any(w in after.lowered for w in (*MISSING, *UNEXPECTED))
            ):
                break
            for name in found:
                names.setdefault(name, line)
    return names


fixes = (
    Fix(
        "Map the names, and raise an error if more than the head is missing",
        "by-hand",
        "strip or add the prefix that differs, load with strict=False, then raise unless the missing keys are those of "
        "the new head",
    ),
)
experiment = Experiment(
    title="Load the checkpoint with strict=True, and compare the loss of the first batch with that of random weights",
    stop_after="one batch without training for both",
    confirms="strict loading raises, and the first loss is that of random weights",
    refutes="the first loss is far below random: then the missing weights do not matter",
)
