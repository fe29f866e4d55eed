"""The source of an import: a model directory or GGUF file, as tensors with transformers' names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from longhaul_trainer.importer.reference import Reference
from longhaul_trainer.importer.refusal import refused

ROLES = {
    "attn_norm": "input_layernorm",
    "q": "self_attn.q_proj",
    "k": "self_attn.k_proj",
    "v": "self_attn.v_proj",
    "o": "self_attn.o_proj",
    "q_norm": "self_attn.q_norm",
    "k_norm": "self_attn.k_norm",
    "mlp_norm": "post_attention_layernorm",
    "gate": "mlp.gate_proj",
    "up": "mlp.up_proj",
    "down": "mlp.down_proj",
}
EMBEDDING, NORM, HEAD = "model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"


@dataclass(frozen=True)
class Source:
    """`read` returns a tensor as the policy stores it, with the shape and dtype in `shapes` and `dtypes`."""

    place: Path
    kind: str
    # Content of config.json; its family is supported.
    config: dict[str, Any]
    shapes: dict[str, list[int]]
    dtypes: dict[str, torch.dtype]
    read: Callable[[str], torch.Tensor]
    reference: Reference
    # Writes the ids of the generation config into a directory, and the tokenizer with its template.
    write_generation: Callable[[Path], None]
    write_tokenizer: Callable[[Path], None]
    # For the record: file name → SHA-256.
    files: dict[str, str]


# Sizes in config.json that some side of some tensor has.
SIDES = ("vocab_size", "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim")


def check_sizes(config: dict[str, Any], shapes: dict[str, list[int]], place: Path) -> None:
    """Raises JobError 66 for sizes that the weights cannot have, before anything of such a size is made, and for heads that no model has."""
    if config["num_hidden_layers"] > len(shapes):
        raise refused(
            f"Expected the weights of {config['num_hidden_layers']} layers in {place}, found {len(shapes)} tensors: a file is missing, or the number of layers is another model's"
        )
    largest = max((max(shape, default=0) for shape in shapes.values()), default=0)
    for name in SIDES:
        if (config.get(name) or 0) > largest:
            raise refused(
                f"Expected weights of {name} {config[name]} in {place}, found no side of a tensor above {largest}: the number is another model's, or was edited"
            )
    heads = config["num_attention_heads"]
    kv_heads, head_dim = config.get("num_key_value_heads") or heads, config.get("head_dim")
    if heads % kv_heads:
        raise refused(f"Expected {heads} heads in {place} to share {kv_heads} keys evenly: no known model is so")
    if head_dim is not None and head_dim % 2:
        raise refused(f"Expected heads of an even width in {place}, found {head_dim}: their halves are turned together")


def check_weights(source: Source, model: Any) -> None:
    """Raises JobError 66 if names or shapes differ from those of config.json: from_pretrained would fill missing weights at random."""
    expected = {name: list(parameter.shape) for name, parameter in model.named_parameters(remove_duplicate=False)}
    found = source.shapes
    tied = HEAD not in dict(model.named_parameters())
    if not tied and HEAD not in found:
        raise refused(
            f"Expected {HEAD} in {source.place}, because config.json says tie_word_embeddings: false. If the model shares its embedding, write true there; else the file lacks its head: get it again"
        )
    needed = set(expected) - ({HEAD} if tied else set())
    if missing := sorted(needed - set(found)):
        raise refused(
            f"Expected {missing[0]} in {source.place} by its config.json ({len(missing)} missing): a file is missing, or config.json is another model's"
        )
    # Old Llama files contain the rotary table, which config.json determines.
    extra = sorted(name for name in set(found) - set(expected) if not name.endswith("rotary_emb.inv_freq"))
    if extra:
        raise refused(
            f"Expected no {extra[0]} in {source.place}: a {source.config['model_type']} of this config.json has no such weights ({len(extra)} more than expected)"
        )
    for name in sorted(needed):
        if expected[name] != found[name]:
            raise refused(
                f"Expected {name} of {source.place} to have the shape {expected[name]} by config.json, found {found[name]}: config.json is another model's, or was edited"
            )
    if tied and HEAD in found and not _same(source):
        raise refused(
            f"Expected {HEAD} of {source.place} to be the embedding, because config.json says tie_word_embeddings: true, but it differs: write false there, as the model was trained"
        )


def _same(source: Source) -> bool:
    return source.shapes[HEAD] == source.shapes[EMBEDDING] and torch.equal(source.read(HEAD), source.read(EMBEDDING))
