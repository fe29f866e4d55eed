"""A GGUF file as a source: reverses what llama.cpp's converter did to a Hugging Face directory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from longhaul_trainer.directory import json_bytes, sha256_file
from longhaul_trainer.importer.gguf import GgufFile, open_gguf_file
from longhaul_trainer.importer.gguf_tokenizer import write_tokenizer
from longhaul_trainer.importer.reference import Reference, inverse_frequencies, llama3_frequencies
from longhaul_trainer.importer.refusal import FAMILIES, refused
from longhaul_trainer.importer.source import EMBEDDING, HEAD, NORM, ROLES, Source, check_sizes
from longhaul_trainer.step.export import GENERATION

NAMES = {
    "attn_norm": "attn_norm",
    "q": "attn_q",
    "k": "attn_k",
    "v": "attn_v",
    "o": "attn_output",
    "q_norm": "attn_q_norm",
    "k_norm": "attn_k_norm",
    "mlp_norm": "ffn_norm",
    "gate": "ffn_gate",
    "up": "ffn_up",
    "down": "ffn_down",
}
WHOLE = {"embed": "token_embd.weight", "norm": "output_norm.weight", "head": "output.weight"}
WHOLE_NAMES = {"embed": EMBEDDING, "norm": NORM, "head": HEAD}
# Llama 3's rope scaling: GGUF has a table of factors instead of its parameters.
ROPE_FACTORS = "rope_freqs.weight"
# (factor, low, high, original positions) of published models: Llama 3.1 and 3.3, then 3.2.
LLAMA3_ROPES = ((8.0, 1.0, 4.0, 8192), (32.0, 1.0, 4.0, 8192))


@contextmanager
def open_gguf(path: Path) -> Iterator[Source]:
    """Raises JobError 66 for an unsupported architecture, or for a file whose conversion cannot be reversed."""
    file = open_gguf_file(path)
    family = file.text("general.architecture")
    if family not in FAMILIES:
        raise refused(
            f"Expected a GGUF of {', '.join(FAMILIES)}, {path} is of the architecture {family!r}: the trainer knows no other"
        )
    facts = _Facts(file, family)
    names = _full_names(file)
    turned = {name: facts.heads_of(name) for name in names.values()} if family == "llama" else {}

    def read(name: str) -> torch.Tensor:
        tensor = file.read(names_back[name])
        heads = turned.get(name)
        if heads is not None:
            tensor = _turn_back(tensor, heads)
        # The converter stores norms and biases in float32, whatever dtype the model had.
        return tensor.to(dtypes[name])

    names_back = {full: name for name, full in names.items()}
    shapes = {full: file.tensors[name].shape for name, full in names.items()}
    dtypes = _dtypes(file, names)
    config = facts.config(shapes)
    check_sizes({**config, "head_dim": facts.head_dim}, shapes, path)
    yield Source(
        place=path,
        kind="gguf",
        config=config,
        shapes=shapes,
        dtypes=dtypes,
        read=read,
        reference=facts.reference(),
        write_generation=lambda target: _write_generation(target, config),
        write_tokenizer=lambda target: write_tokenizer(file, target),
        files={path.name: sha256_file(path)},
    )


def _full_names(file: GgufFile) -> dict[str, str]:
    """Name in the file → transformers' name. An unknown name stays, and `check_weights` refuses it later."""
    backwards = {name: role for role, name in NAMES.items()}
    found = {name: WHOLE_NAMES[role] for role, name in WHOLE.items() if name in file.tensors}
    for name in file.tensors:
        if name in found or name == ROPE_FACTORS:
            continue
        parts = name.split(".")
        known = len(parts) == 4 and parts[0] == "blk" and parts[2] in backwards
        found[name] = f"model.layers.{parts[1]}.{ROLES[backwards[parts[2]]]}.{parts[3]}" if known else name
    return found


def _dtypes(file: GgufFile, names: dict[str, str]) -> dict[str, torch.dtype]:
    """Dtypes as in the file, but vectors get the embedding's dtype if that represents their values exactly."""
    embedding = file.tensors.get(WHOLE["embed"])
    if embedding is None:
        raise refused(f"Expected {WHOLE['embed']} in {file.path}: it holds no language model")
    plain = embedding.type.dtype
    found = {}
    for name, full in names.items():
        info = file.tensors[name]
        narrow = len(info.shape) == 1 and info.type.dtype is torch.float32 and plain is not torch.float32
        if narrow:
            vector = file.read(name)
            narrow = bool((vector.to(plain).float() == vector).all())
        found[full] = plain if narrow else info.type.dtype
    return found


def _turn_back(tensor: torch.Tensor, heads: int) -> torch.Tensor:
    """Reorders the rows of each head for transformers' rotary embedding: the first elements of all rotated pairs, then the second ones."""
    return tensor.view(heads, -1, 2, *tensor.shape[1:]).transpose(1, 2).reshape(tensor.shape).contiguous()


class _Facts:
    """Metadata of one architecture, by names without its prefix."""

    def __init__(self, file: GgufFile, family: str) -> None:
        self.file, self.family = file, family
        self.heads = self._count("attention.head_count")
        self.kv_heads = self._count("attention.head_count_kv", self.heads)
        self.hidden = self._count("embedding_length")
        self.head_dim = self._count("attention.key_length", self.hidden // self.heads)
        self.context = self._count("context_length")
        self._check()

    def heads_of(self, name: str) -> int | None:
        """Heads of a matrix whose rows the converter reordered; None for other tensors."""
        return self.heads if ".q_proj." in name else self.kv_heads if ".k_proj." in name else None

    def config(self, shapes: dict[str, list[int]]) -> dict[str, Any]:
        has_bias = any(name.endswith("q_proj.bias") for name in shapes)
        vocabulary = shapes.get(EMBEDDING, [0])[0]
        config: dict[str, Any] = {
            "model_type": self.family,
            "vocab_size": vocabulary,
            "hidden_size": self.hidden,
            "intermediate_size": self._count("feed_forward_length"),
            "num_hidden_layers": self._count("block_count"),
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "max_position_embeddings": self.context,
            "rms_norm_eps": self._eps(),
            "tie_word_embeddings": HEAD not in shapes,
            "rope_parameters": self._rope(),
            # Always explicit: a default of transformers may be another model's token id.
            "bos_token_id": self.token("bos", vocabulary),
            "eos_token_id": self.token("eos", vocabulary),
            "pad_token_id": None,
        }
        if self.family != "qwen2":
            config |= {"head_dim": self.head_dim, "attention_bias": has_bias}
        return config

    def token(self, name: str, vocabulary: int) -> int | None:
        key = f"tokenizer.ggml.{name}_token_id"
        found = self.file.integer(key)
        if found is not None and found >= vocabulary:
            raise refused(
                f"Expected {key} in the metadata of {self.file.path} below the embedding's {vocabulary} rows, found {found}: convert the model again"
            )
        return found

    def reference(self) -> Reference:
        inv_freq, scale = inverse_frequencies(self._rope(), self.head_dim)
        if self.family == "llama" and ROPE_FACTORS in self.file.tensors:
            # The reference uses the file's own table, not the recognised parameters.
            inv_freq = self._plain_frequencies() / self.file.read(ROPE_FACTORS).double()

        def read(role: str) -> torch.Tensor | None:
            if role in WHOLE:
                name = WHOLE[role]
            else:
                layer, part, kind = role.split(".")
                name = f"blk.{layer}.{NAMES[part]}.{kind}"
            return self.file.read(name) if name in self.file.tensors else None

        return Reference(
            read=read,
            layers=self._count("block_count"),
            heads=self.heads,
            kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            eps=self._eps(),
            inv_freq=inv_freq,
            attention_scale=scale,
            turns_neighbours=self.family == "llama",
        )

    def _check(self) -> None:
        place = self.file.path
        if self.file.integer(f"{self.family}.expert_count"):
            raise refused(f"Expected a model without experts in {place}: the trainer knows no mixtures of experts")
        if self.file.integer(f"{self.family}.attention.sliding_window"):
            raise refused(f"Expected full attention in {place}: the trainer knows no sliding windows")
        for name in ("rope.dimension_count", "attention.value_length"):
            if (found := self._count(name, self.head_dim)) != self.head_dim:
                raise refused(
                    f"Expected {self.family}.{name} of {place} to be the heads' {self.head_dim}, found {found}: the trainer turns and mixes whole heads"
                )

    def _eps(self) -> float:
        # The file has the float32 value. Rounded to six digits it is the model's decimal number.
        return float(f"{self._number('attention.layer_norm_rms_epsilon'):.6g}")

    def _plain_frequencies(self) -> torch.Tensor:
        theta = self._theta()
        return theta ** (-torch.arange(0, self.head_dim, 2, dtype=torch.float64) / self.head_dim)

    def _theta(self) -> float:
        return float(f"{self._number('rope.freq_base', 10000.0):.8g}")

    def _rope(self) -> dict[str, Any]:
        rope: dict[str, Any] = {"rope_type": "default", "rope_theta": self._theta()}
        kind = self.file.text(f"{self.family}.rope.scaling.type") or "none"
        if ROPE_FACTORS in self.file.tensors:
            return rope | self._llama3()
        if kind == "none":
            return rope
        factor = self._number("rope.scaling.factor")
        if kind == "linear":
            return rope | {"rope_type": "linear", "factor": factor}
        if kind == "yarn":
            original = self._count("rope.scaling.original_context_length")
            return rope | {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": original}
        raise refused(
            f"Expected a rope of none, linear or yarn in {self.file.path}, found {kind!r}: the trainer knows no other"
        )

    def _llama3(self) -> dict[str, Any]:
        plain = self._plain_frequencies()
        found = self.file.read(ROPE_FACTORS).double()
        for factor, low, high, original in LLAMA3_ROPES:
            expected = plain / llama3_frequencies(plain, factor, low, high, original)
            if len(found) == len(expected) and torch.allclose(found, expected, rtol=1e-5):
                return {
                    "rope_type": "llama3",
                    "factor": factor,
                    "low_freq_factor": low,
                    "high_freq_factor": high,
                    "original_max_position_embeddings": original,
                }
        raise refused(
            f"Expected {ROPE_FACTORS} of {self.file.path} to be Llama 3.1's or 3.2's: what another table was made from cannot be told, import the model's Hugging Face directory"
        )

    def _number(self, name: str, default: float | None = None) -> float:
        return self._needed(name, self.file.number(f"{self.family}.{name}"), default)

    def _count(self, name: str, default: int | None = None) -> int:
        key = f"{self.family}.{name}"
        if isinstance(self.file.metadata.get(key), list):
            raise refused(
                f"Expected one number for {key} in {self.file.path}, found a list: layers that differ are not known"
            )
        found = self._needed(name, self.file.integer(key), default)
        if 1 <= found < 2**31:
            return found
        raise refused(
            f"Expected {key} in the metadata of {self.file.path} to be at least 1 and below 2^31, found {found}: convert the model again"
        )

    def _needed(self, name: str, found: Any, default: Any) -> Any:
        if found is not None or default is not None:
            return default if found is None else found
        raise refused(f"Expected {self.family}.{name} in the metadata of {self.file.path}: convert the model again")


def _write_generation(target: Path, config: dict[str, Any]) -> None:
    ids = {name: config[name] for name in ("bos_token_id", "eos_token_id")}
    (target / GENERATION).write_bytes(json_bytes({name: value for name, value in ids.items() if value is not None}))
