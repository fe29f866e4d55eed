"""Writes the tokenizer of a GGUF file as tokenizer.json: byte-level BPE of Qwen and Llama 3."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from longhaul_trainer.directory import json_bytes
from longhaul_trainer.importer.gguf import GgufFile
from longhaul_trainer.importer.refusal import reading_tokenizer, refused

CONTROL, USER_DEFINED, UNUSED = 3, 4, 5
WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# `tokenizer.ggml.pre` → pattern that splits a text before merges, as in the model's own tokenizer.json.
CUTS = {"qwen2": WORDS % "", "llama-bpe": WORDS % "{1,3}", "llama3": WORDS % "{1,3}"}
PLAIN = ("default", "gpt-2")
CONVERT = "convert the model again, or take the model's own tokenizer with --tokenizer DIRECTORY"


def write_tokenizer(file: GgufFile, target: Path) -> None:
    """Writes no tokenizer.json for an unsupported tokenizer. The caller then reports the missing file and what to do."""
    template = file.text("tokenizer.chat_template")
    if template is not None:
        (target / "chat_template.jinja").write_text(template)
    tokens, merges = file.texts("tokenizer.ggml.tokens"), file.texts("tokenizer.ggml.merges")
    cut = file.text("tokenizer.ggml.pre") or "default"
    if file.text("tokenizer.ggml.model") != "gpt2" or not tokens or not merges or cut not in (*CUTS, *PLAIN):
        return
    kinds = file.integers("tokenizer.ggml.token_type") or [1] * len(tokens)
    if len(kinds) != len(tokens):
        raise refused(
            f"Expected {len(tokens)} kinds of tokens in the metadata of {file.path}, found {len(kinds)}: {CONVERT}"
        )
    with reading_tokenizer(f"the metadata of {file.path}", CONVERT):
        _build(tokens, merges, kinds, cut).save(str(target / "tokenizer.json"))
    specials: dict[str, Any] = {}
    for name, key in (("bos_token", "bos"), ("eos_token", "eos")):
        at = file.integer(f"tokenizer.ggml.{key}_token_id")
        if at is not None and at < len(tokens):
            specials[name] = tokens[at]
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False, **specials}
    (target / "tokenizer_config.json").write_bytes(json_bytes(config))


def _build(tokens: list[str], merges: list[str], kinds: list[int], cut: str) -> Tokenizer:
    # Unused tokens, named [PAD…], only fill up the embedding.
    named = [token for token, kind in zip(tokens, kinds, strict=True) if kind != UNUSED]
    if len(set(named)) < len(named):
        raise ValueError("a token stands there twice")
    vocabulary = {token: at for at, (token, kind) in enumerate(zip(tokens, kinds, strict=True)) if kind != UNUSED}
    pairs = [_pair(merge) for merge in merges]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=pairs, ignore_merges=cut in ("llama-bpe", "llama3")))
    if cut == "qwen2":
        tokenizer.normalizer = normalizers.NFC()  # type: ignore[assignment]
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=cut in PLAIN)
    split = [pre_tokenizers.Split(Regex(CUTS[cut]), "isolated")] if cut in CUTS else []
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*split, byte_level])  # type: ignore[assignment]
    tokenizer.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    for token, kind in zip(tokens, kinds, strict=True):
        if kind == CONTROL:
            tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False)])
        elif kind == USER_DEFINED:
            tokenizer.add_tokens([AddedToken(token, special=False, normalized=False)])
    return tokenizer


def _pair(merge: str) -> tuple[str, str]:
    left, _, right = merge.partition(" ")
    return left, right
