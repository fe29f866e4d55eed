"""Models to import: random weights of each family as Hugging Face directories, and their GGUF files by the `gguf` package."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

FAMILIES: dict[str, Any] = {
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
    "llama": (LlamaConfig, LlamaForCausalLM),
}
# Patterns of the published tokenizer.json of Qwen2.5 and Llama 3.
QWEN_CUT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA_CUT = QWEN_CUT.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
CHATML_MARKS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
LLAMA_MARKS = ("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
# Qwen2.5's template without tools.
CHATML_TEMPLATE = """{%- if messages[0]['role'] == 'system' %}{{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
{%- else %}{{- '<|im_start|>system\\nYou are Qwen.<|im_end|>\\n' }}{%- endif %}
{%- for message in messages %}{%- if message.role != 'system' %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}{%- endif %}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"""
# Llama 3's template, and Llama 3.1's with the date before the system prompt.
LLAMA_TEMPLATE = """{% for message in messages %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"""
LLAMA31_TEMPLATE = LLAMA_TEMPLATE.replace(
    "+ message['content'] | trim",
    "+ ('Cutting Knowledge Date: December 2023\nToday Date: ' + strftime_now('%d %b %Y') + '\n\n' if loop.index0 == 0 else '') + message['content'] | trim",
)
MISTRAL_TEMPLATE = "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]{% else %}{{ m.content }}{{ eos_token }}{% endif %}{% endfor %}"
ROPES: dict[str, dict[str, Any]] = {
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
    "linear": {"rope_type": "linear", "factor": 2.0},
}
TEXTS = (
    "def repair(path): return path // 2 + 12345\n",
    "It's 2026, don't panic — naïve café, 東京 \u0041\u030a\t\r\n  end ",
    "The test fails in line 10789:\n\n    assert f(x) == {'a': 1}\n",
)


@dataclass(frozen=True)
class Made:
    family: str = "qwen2"
    tied: bool = False
    dtype: torch.dtype = torch.bfloat16
    rope: str | None = None
    chat: str = "chatml"
    # Embedding rows without a token, as in published models.
    padding: int = 5
    hidden: int = 64
    head_dim: int = 16


def make_tokenizer(chat: str) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(ignore_merges=chat == "llama3"))
    if chat == "chatml":
        tokenizer.normalizer = normalizers.NFC()
    cut = QWEN_CUT if chat == "chatml" else LLAMA_CUT
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(cut), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=330, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    marks = CHATML_MARKS if chat == "chatml" else LLAMA_MARKS
    tokenizer.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in marks])
    return tokenizer


def make_directory(path: Path, made: Made) -> Path:
    """A directory as on a hub: weights, config, tokenizer, template, and a generation config that would bias sampling."""
    path.mkdir(parents=True)
    tokenizer = make_tokenizer(made.chat)
    tokenizer.save(str(path / "tokenizer.json"))
    bos, eos = (None, "<|im_end|>") if made.chat == "chatml" else ("<|begin_of_text|>", "<|eot_id|>")
    (path / "tokenizer_config.json").write_text(
        json.dumps(
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "bos_token": bos,
                # bos_token is plain text, eos_token has the older form.
                "eos_token": {"__type": "AddedToken", "content": eos, "special": True, "normalized": False},
            }
        )
    )
    template = CHATML_TEMPLATE if made.chat == "chatml" else LLAMA_TEMPLATE
    (path / "chat_template.jinja").write_text(template)
    config_class, model_class = FAMILIES[made.family]
    rope = {"rope_type": "default", "rope_theta": 10000.0} | (ROPES[made.rope] if made.rope else {})
    torch.manual_seed(7)
    config = config_class(
        vocab_size=tokenizer.get_vocab_size() + made.padding,
        hidden_size=made.hidden,
        intermediate_size=2 * made.hidden,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=16384 if made.rope == "llama3" else 256,
        tie_word_embeddings=made.tied,
        bos_token_id=None if bos is None else tokenizer.token_to_id(bos),
        eos_token_id=tokenizer.token_to_id(eos),
        pad_token_id=None,
        initializer_range=0.2,
        rms_norm_eps=1e-5,
        rope_parameters=rope,
        **({} if made.family == "qwen2" else {"head_dim": made.head_dim}),
    )
    model = model_class(config)
    with torch.no_grad():
        for parameter in model.parameters():
            # Initial biases are zeros and norms are ones, which would hide a lost tensor.
            if parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    model.to(made.dtype).save_pretrained(path, max_shard_size="60KB")
    (path / "generation_config.json").write_text(
        json.dumps({"eos_token_id": tokenizer.token_to_id(eos), "top_k": 20, "temperature": 0.6})
    )
    return path


def logits(directory: Path, ids: torch.Tensor) -> torch.Tensor:
    """Logits of the model that transformers itself loads from a directory."""
    model: Any = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, use_safetensors=True)
    with torch.inference_mode():
        return model.eval()(input_ids=ids, use_cache=False).logits


def make_gguf(path: Path, directory: Path, *, kind: str = "BF16", **changes: Any) -> Path:
    """Writes a directory as llama.cpp's converter does. `changes` overrides metadata; `without` names tensors to leave out."""
    import gguf  # pyright: ignore[reportMissingImports]
    import numpy as np

    config = json.loads((directory / "config.json").read_text())
    family = changes.pop("architecture", config["model_type"])
    without = changes.pop("without", ())
    architecture = next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == config["model_type"])
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    writer = gguf.GGUFWriter(path, family)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    rope = config["rope_parameters"]
    writer.add_rope_freq_base(rope["rope_theta"])
    if rope["rope_type"] in ("yarn", "linear"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(rope["rope_type"]))
        writer.add_rope_scaling_factor(rope["factor"])
    if rope["rope_type"] == "yarn":
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    tokens = Tokenizer.from_file(str(directory / "tokenizer.json"))
    _add_tokenizer(writer, tokens, config, directory)
    for name, value in changes.items():
        writer.add_uint32(name.replace("__", "."), value)
    names = gguf.get_tensor_name_map(architecture, config["num_hidden_layers"])
    model: Any = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    target = gguf.GGMLQuantizationType[kind]
    state = dict(model.named_parameters())
    if rope["rope_type"] == "llama3":
        plain = rope["rope_theta"] ** (-np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
        writer.add_tensor(
            "rope_freqs.weight", (plain / model.model.rotary_emb.inv_freq.double().numpy()).astype(np.float32)
        )
    for name, parameter in state.items():
        array = parameter.detach().numpy()
        if config["model_type"] == "llama" and name.endswith(("q_proj.weight", "k_proj.weight")):
            count = heads if "q_proj" in name else kv_heads
            array = array.reshape(count, 2, -1, array.shape[1]).swapaxes(1, 2).reshape(array.shape)
        written = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert written is not None
        if written in without:
            continue
        used = gguf.GGMLQuantizationType.F32 if array.ndim == 1 else target
        writer.add_tensor(written, gguf.quants.quantize(np.ascontiguousarray(array), used), raw_dtype=used)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_tokenizer(writer: Any, tokenizer: Tokenizer, config: dict[str, Any], directory: Path) -> None:
    import gguf  # pyright: ignore[reportMissingImports]

    saved = json.loads(tokenizer.to_str())
    special = {entry["id"] for entry in saved["added_tokens"]}
    by_id = {at: token for token, at in tokenizer.get_vocab(with_added_tokens=True).items()}
    rows = range(config["vocab_size"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2" if saved["normalizer"] else "llama-bpe")
    writer.add_token_list([by_id.get(at, f"[PAD{at}]") for at in rows])
    kinds = [
        gguf.TokenType.UNUSED if at not in by_id else gguf.TokenType.CONTROL if at in special else gguf.TokenType.NORMAL
        for at in rows
    ]
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(pair) for pair in saved["model"]["merges"]])
    writer.add_eos_token_id(config["eos_token_id"])
    if config["bos_token_id"] is not None:
        writer.add_bos_token_id(config["bos_token_id"])
    writer.add_chat_template((directory / "chat_template.jinja").read_text())
