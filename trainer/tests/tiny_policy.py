"""A tiny random Qwen3 or Qwen2 directory with a byte-level tokenizer, for tests that need a real model within milliseconds."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

from longhaul_trainer.directory import seal
from longhaul_trainer.rope import Yarn, apply_yarn

FAMILIES = {"qwen2": (Qwen2Config, Qwen2ForCausalLM), "qwen3": (Qwen3Config, Qwen3ForCausalLM)}
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


def build_tokenizer() -> Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {letter: index for index, letter in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in SPECIAL])
    return tokenizer


def write_tiny_policy(
    path: Path,
    *,
    seed: int = 0,
    hidden: int = 64,
    layers: int = 2,
    context: int = 512,
    pad_token_id: int | None = None,
    family: str = "qwen3",
    kv_heads: int = 2,
    rope: Yarn | None = None,
) -> str:
    """Writes and seals the directory. Returns the hash of its manifest.

    qwen3: tied embeddings, norms on queries and keys; qwen2 (like Qwen2.5 from 7B on): untied, biases on queries, keys and values.
    """
    path.mkdir(parents=True)
    tokenizer = build_tokenizer()
    tokenizer.save(str(path / "tokenizer.json"))
    torch.manual_seed(seed)
    config_class, model_class = FAMILIES[family]
    head_dim = {"head_dim": hidden // 4} if family == "qwen3" else {}
    config = config_class(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=hidden,
        intermediate_size=3 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=kv_heads,
        max_position_embeddings=context,
        tie_word_embeddings=family == "qwen3",
        eos_token_id=tokenizer.token_to_id("<|im_end|>"),
        bos_token_id=None,
        pad_token_id=pad_token_id,
        initializer_range=0.1,
        **head_dim,
    )
    apply_yarn(config, rope)
    model = model_class(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(0, 0.1)
    model.save_pretrained(path)
    (path / "generation_config.json").unlink(missing_ok=True)
    return seal(path, kind="policy", facts={})
