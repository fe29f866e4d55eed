"""The proof of an import: logits that transformers computes from the written files equal those of an independent pass over the source."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

from longhaul_trainer.hf_model import check_layers
from longhaul_trainer.importer.reference import Reference
from longhaul_trainer.importer.refusal import refused
from longhaul_trainer.weight_files import WeightFiles, hugging_face_weights

SEQUENCES, TOKENS, SEED = 3, 48, 20261123
# Largest difference, relative to the spread of the logits. float32 rounding gives 1e-6 to 1e-5; a wrong epsilon, rope or permutation 1e-3
# and more.
TOLERANCE = 2e-4


def prove(
    directory: Path,
    reference: Reference,
    *,
    vocab_size: int,
    prompt: list[int],
    on_progress: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Compares logits on random ids and on the prompt of a first turn. `on_progress` gets the progress as text. Raises JobError 66 if the
    logits differ."""
    generator = torch.Generator().manual_seed(SEED)
    random = torch.randint(vocab_size, (SEQUENCES, TOKENS), generator=generator)
    worst, spread, argmax, positions = 0.0, 0.0, 0, 0
    texts = [random, *([torch.tensor([prompt])] if prompt else [])]
    for at, ids in enumerate(texts, start=1):
        part = f"comparing logits, text {at} of {len(texts)}"

        def say(what: str, done: int, total: int, part: str = part) -> None:
            on_progress(f"{part}: {what} {done} of {total}")

        expected = reference.logits(ids, on_layer=partial(say, "layer of the source"))
        found = model_logits(directory, ids, on_module=partial(say, "module of the policy")).double()
        if not torch.isfinite(expected).all():
            raise refused(
                "Expected finite logits of the source: its weights hold infinities or no numbers; get them again"
            )
        worst = max(worst, float((expected - found).abs().max()) if torch.isfinite(found).all() else float("inf"))
        spread = max(spread, float(expected.std()))
        argmax += int((expected.argmax(-1) == found.argmax(-1)).sum())
        positions += ids.numel()
    if not worst <= TOLERANCE * spread:
        raise refused(
            f"Expected the logits of the source within {TOLERANCE:g} of their spread {spread:.4g}, the largest difference is {worst:.4g}: config.json does not describe these weights"
        )
    return {
        "positions": positions,
        "same_argmax": argmax,
        "largest_difference": float(f"{worst:.2g}"),
        "spread_of_logits": float(f"{spread:.3g}"),
        "tolerance": TOLERANCE,
    }


def model_logits(
    directory: Path, ids: torch.Tensor, *, on_module: Callable[[int, int], None] = lambda _done, _total: None
) -> torch.Tensor:
    """ids: [B, T]. Returns fp32 logits [B, T, V] of transformers' model, with the weights of one module in memory at a time.

    `on_module` gets the number of modules that have computed, and the total.
    """
    config = AutoConfig.from_pretrained(directory)
    check_layers(config, directory)
    with torch.device("meta"):
        model: Any = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa", dtype=torch.float32)
    # Rotary modules are built anew: no file has their frequencies.
    for name, module in list(model.named_modules()):
        if "inv_freq" in dict(module.named_buffers(recurse=False)):
            model.set_submodule(name, type(module)(config=config))
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    with hugging_face_weights(directory).reading() as weights, torch.inference_mode():
        lent = [
            (module, own)
            for module in model.modules()
            if (own := {key: names[id(parameter)] for key, parameter in module.named_parameters(recurse=False)})
        ]
        order = count(1)
        for module, own in lent:
            _lend(module, own, weights)
            module.register_forward_hook(lambda *_: on_module(next(order), len(lent)))
        return model.eval()(input_ids=ids, use_cache=False).logits.float()


def _lend(module: nn.Module, own: dict[str, str], weights: WeightFiles) -> None:
    empty = {key: module.get_parameter(key) for key in own}

    def take(*_: Any) -> None:
        for key, name in own.items():
            setattr(module, key, nn.Parameter(weights.read_whole(name).float(), requires_grad=False))

    def give(*_: Any) -> None:
        for key, parameter in empty.items():
            setattr(module, key, parameter)

    module.register_forward_pre_hook(take)
    module.register_forward_hook(give)
