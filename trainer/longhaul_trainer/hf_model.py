"""Hugging Face model directories: loads a model for sampling and refuses architectures that training would compute wrongly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.utils.logging import disable_progress_bar

disable_progress_bar()

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
    "chat_template.json",
)


class UnsupportedModel(Exception):
    """The architecture has a feature that our forward pass would silently compute wrongly."""


def load_model(path: Path, *, device: torch.device) -> Any:
    """Loads a causal language model in fp32, for sampling and as the reference of the trainer's tests.

    Raises UnsupportedModel, OSError or ValueError.
    """
    check_layers(AutoConfig.from_pretrained(path), path)
    model: Any = AutoModelForCausalLM.from_pretrained(
        path, dtype=torch.float32, attn_implementation="sdpa", use_safetensors=True
    )
    # A pad id in the config would make the embedding drop that row's gradient, although a policy may sample the token.
    model.get_input_embeddings().padding_idx = None
    model.eval().to(device)
    _check_head(model, path)
    return model


def check_layers(config: Any, source: object) -> None:
    layer_types = getattr(config, "layer_types", None) or []
    if any(kind != "full_attention" for kind in layer_types):
        raise UnsupportedModel(f"Expected full attention in every layer, got {sorted(set(layer_types))} [{source}]")


def _check_head(model: Any, path: Path) -> None:
    """Raises UnsupportedModel unless logits equal the head of the last hidden state; soft caps and logit scales break that."""
    ids = torch.arange(4, device=model.device)[None] % model.config.vocab_size
    with torch.inference_mode():
        expected = model(input_ids=ids, use_cache=False).logits.float()
        hidden = model.base_model(input_ids=ids, use_cache=False).last_hidden_state
        found = model.get_output_embeddings()(hidden).float()
    if not torch.allclose(expected, found, atol=1e-4):
        raise UnsupportedModel(f"Expected logits to be the head applied to the last hidden state [{path}]")


def context_length(model: Any) -> int:
    return int(model.config.max_position_embeddings)


def end_token_ids(model: Any) -> frozenset[int]:
    """Token ids that end a completion: `eos_token_id` of the model's config, as in vLLM."""
    eos = getattr(model.config, "eos_token_id", None)
    if eos is None:
        return frozenset()
    return frozenset(eos if isinstance(eos, list) else [eos])


def read_vocab_size(path: Path) -> int:
    return int(json.loads((path / "config.json").read_text())["vocab_size"])
