"""GGUF files with one thing wrong, written here without a package: each is refused in one line, and nothing of an announced size is made."""

from __future__ import annotations

import os
import re
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from import_sources import Made, make_directory
from safetensors.torch import load_file, save_file
from test_import import edit, refusal

from longhaul_trainer.importer import chat
from longhaul_trainer.importer.gguf import open_gguf_file
from longhaul_trainer.importer.gguf_source import open_gguf
from longhaul_trainer.importer.gguf_tokenizer import write_tokenizer
from longhaul_trainer.weight_files import INDEX

UINT32, INT32, FLOAT, TEXT, LIST = 4, 5, 6, 8, 9
NUMBERS = {UINT32: "I", INT32: "i", FLOAT: "f", 7: "?", 10: "Q"}
# A model of one layer, whose weights are zeros.
FACTS: dict[str, tuple[int, Any]] = {
    "general.architecture": (TEXT, "llama"),
    "llama.block_count": (UINT32, 1),
    "llama.context_length": (UINT32, 64),
    "llama.embedding_length": (UINT32, 8),
    "llama.feed_forward_length": (UINT32, 8),
    "llama.attention.head_count": (UINT32, 2),
    "llama.attention.head_count_kv": (UINT32, 2),
    "llama.attention.layer_norm_rms_epsilon": (FLOAT, 1e-5),
    "tokenizer.ggml.model": (TEXT, "gpt2"),
    "tokenizer.ggml.pre": (TEXT, "llama-bpe"),
    "tokenizer.ggml.tokens": (LIST, (TEXT, ["a", "b", "ab"])),
    "tokenizer.ggml.merges": (LIST, (TEXT, ["a b"])),
    "tokenizer.ggml.token_type": (LIST, (INT32, [1, 1, 1])),
    "tokenizer.ggml.eos_token_id": (UINT32, 2),
}
LAYER = ("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down")
# (name, dimensions as the file has them, type, offset); all of float32 values.
TENSORS = [
    ("token_embd.weight", [8, 3], 0, 0),
    ("output_norm.weight", [8], 0, 96),
    *((f"blk.0.{name}.weight", [8] if "norm" in name else [8, 8], 0, 128 + 256 * at) for at, name in enumerate(LAYER)),
]


def text(value: str | bytes) -> bytes:
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(data)) + data


def value_of(kind: int, value: Any) -> bytes:
    if kind == TEXT:
        return text(value)
    if kind == LIST:
        inner, values = value
        return struct.pack("<IQ", inner, len(values)) + b"".join(value_of(inner, one) for one in values)
    return struct.pack(f"<{NUMBERS[kind]}", value)


def write(
    path: Path,
    *,
    facts: dict[str, tuple[int, Any]] | None = None,
    pairs: list[tuple[str | bytes, tuple[int, Any]]] | None = None,
    tensors: list[Any] | None = None,
    version: int = 3,
    counts: tuple[int, int] | None = None,
) -> Path:
    entries = [*{**FACTS, **(facts or {})}.items(), *(pairs or [])]
    rows = TENSORS if tensors is None else tensors
    header = b"GGUF" + struct.pack("<IQQ", version, *(counts or (len(rows), len(entries))))
    for key, (kind, value) in entries:
        header += text(key) + struct.pack("<I", kind) + value_of(kind, value)
    for name, dimensions, kind, offset in rows:
        header += text(name) + struct.pack(f"<I{len(dimensions)}Q", len(dimensions), *dimensions)
        header += struct.pack("<IQ", kind, offset)
    path.write_bytes(header + b"\0" * (-len(header) % 32) + b"\0" * 4096)
    return path


def changed(at: int, **parts: Any) -> list[Any]:
    names = ("name", "dimensions", "kind", "offset")
    return [
        tuple(parts.get(part, row[names.index(part)]) for part in names) if at == index else row
        for index, row in enumerate(TENSORS)
    ]


def test_the_file_without_a_fault_is_read(tmp_path: Path) -> None:
    with open_gguf(write(tmp_path / "model.gguf")) as source:
        source.write_tokenizer(tmp_path)
        assert source.config["num_hidden_layers"] == 1
        assert source.shapes["model.embed_tokens.weight"] == [3, 8]
    assert (tmp_path / "tokenizer.json").is_file()


DAMAGED: dict[str, tuple[dict[str, Any], str]] = {
    **{
        f"version {version}": ({"version": version}, r"version 2 or 3 .*found " + str(version))
        for version in (0, 1, 4, 0x03000000)
    },
    "more tensors than bytes": ({"counts": (2**63, len(FACTS))}, r"Expected 9223372036854775808 entries"),
    "more keys than bytes": ({"counts": (len(TENSORS), 2**63)}, r"Expected 9223372036854775808 entries"),
    "a key twice": ({"pairs": [("llama.block_count", (UINT32, 2))]}, r"the key 'llama\.block_count' once"),
    "a key that is no text": ({"pairs": [(b"\xff\xfe", (UINT32, 2))]}, r"UTF-8 at byte \d+ of .*model\.gguf"),
    "a value that is no text": ({"pairs": [("tokenizer.chat_template", (TEXT, b"\xff"))]}, r"UTF-8 at byte"),
    "a tensor twice": ({"tensors": [*TENSORS, TENSORS[0]]}, r"the tensor 'token_embd\.weight' once"),
    "a tensor within another": ({"tensors": changed(1, offset=64)}, r"output_norm.*found it at 64, within"),
    "a tensor out of line": ({"tensors": changed(1, offset=97)}, r"output_norm.*found it at 97, no multiple of 32"),
    "a tensor beyond the file": ({"tensors": changed(1, offset=2**63)}, r"Expected \d+ bytes in .*output_norm"),
    "a tensor larger than memory": ({"tensors": changed(10, dimensions=[2**32, 2**32])}, r"Expected \d+ bytes in"),
    "a tensor without values": ({"tensors": changed(1, dimensions=[0])}, r"output_norm.*found \[0\]"),
    "a tensor without dimensions": ({"tensors": changed(1, dimensions=[])}, r"1 to 4 dimensions of 'output_norm"),
    "a tensor of many dimensions": ({"tensors": changed(1, dimensions=[8] + [1] * 8)}, r"1 to 4 dimensions .*found 9"),
    "a type that is not decoded": ({"tensors": changed(1, kind=3)}, r"'output_norm\.weight' is Q4_1"),
    "an alignment that is none": ({"facts": {"general.alignment": (UINT32, 48)}}, r"a power of two, found 48"),
    "an alignment that is a text": ({"facts": {"general.alignment": (TEXT, "x")}}, r"general\.alignment .*found 'x'"),
    "parts that are a list": (
        {"facts": {"split.count": (LIST, (UINT32, [2, 3]))}},
        r"split\.count .*an integer of at least 0, found \[2, 3\]",
    ),
    "an architecture that is a list": (
        {"facts": {"general.architecture": (LIST, (TEXT, ["qwen2"]))}},
        r"general\.architecture .*to be text",
    ),
    "an architecture that is another": ({"facts": {"general.architecture": (TEXT, "gpt2")}}, r"architecture 'gpt2'"),
    "experts that are a text": ({"facts": {"llama.expert_count": (TEXT, "8")}}, r"expert_count .*found '8'"),
    "no heads": ({"facts": {"llama.attention.head_count": (UINT32, 0)}}, r"head_count .*at least 1.*found 0"),
    "heads below zero": ({"facts": {"llama.attention.head_count": (INT32, -2)}}, r"head_count .*found -2"),
    "keys that do not divide the heads": (
        {"facts": {"llama.attention.head_count": (UINT32, 2), "llama.attention.head_count_kv": (UINT32, 3)}},
        r"Expected 2 heads in .* to share 3 keys evenly",
    ),
    "layers without weights": (
        {"facts": {"llama.block_count": (UINT32, 2**31 - 1)}},
        r"Expected the weights of 2147483647 layers in .*found 11 tensors",
    ),
    "more layers than there are numbers": ({"facts": {"llama.block_count": (10, 2**63)}}, r"block_count .*below 2\^31"),
    "heads wider than any weight": (
        {"facts": {"llama.attention.key_length": (UINT32, 2**30)}},
        r"Expected weights of head_dim 1073741824 in",
    ),
    "an epsilon that is none": (
        {"facts": {"llama.attention.layer_norm_rms_epsilon": (FLOAT, float("nan"))}},
        r"layer_norm_rms_epsilon .*a number above 0, found nan",
    ),
    "a rope that is a text": ({"facts": {"llama.rope.freq_base": (TEXT, "x")}}, r"freq_base .*above 0, found 'x'"),
    "a rope that is none": ({"facts": {"llama.rope.freq_base": (FLOAT, 0.0)}}, r"freq_base .*above 0, found 0\.0"),
    "an end that no reply has": (
        {"facts": {"tokenizer.ggml.eos_token_id": (UINT32, 3)}},
        r"eos_token_id .*below the embedding's 3 rows, found 3",
    ),
    "an end that is a text": ({"facts": {"tokenizer.ggml.eos_token_id": (TEXT, "x")}}, r"eos_token_id .*found 'x'"),
    "an array beyond the file": (
        {"pairs": [("x", (UINT32, 0))], "counts": (len(TENSORS), 2**20)},
        r"Expected 1048576 entries|is cut or damaged",
    ),
    "fewer kinds than tokens": (
        {"facts": {"tokenizer.ggml.token_type": (LIST, (INT32, [1, 1]))}},
        r"Expected 3 kinds of tokens .*found 2: .*--tokenizer DIRECTORY",
    ),
    "a token twice": (
        {"facts": {"tokenizer.ggml.tokens": (LIST, (TEXT, ["a", "a", "ab"]))}},
        r"a token stands there twice; .*--tokenizer DIRECTORY",
    ),
    "a merge of no tokens": ({"facts": {"tokenizer.ggml.merges": (LIST, (TEXT, ["q z"]))}}, r"out of vocabulary"),
    "tokens that are numbers": (
        {"facts": {"tokenizer.ggml.tokens": (LIST, (INT32, [1, 2, 3]))}},
        r"tokenizer\.ggml\.tokens .*a list of texts, found \[1, 2, 3\]",
    ),
    "a template that is a number": (
        {"facts": {"tokenizer.chat_template": (UINT32, 5)}},
        r"tokenizer\.chat_template .*to be text, found 5",
    ),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_a_gguf_file_with_one_fault_is_refused_with_the_fault(what: str, tmp_path: Path) -> None:
    changes, message = DAMAGED[what]
    found = refusal(write(tmp_path / "model.gguf", **changes))
    assert re.search(message, found), found
    assert "\n" not in found


def test_a_gguf_file_that_is_cut_after_any_byte_is_refused(tmp_path: Path) -> None:
    whole = write(tmp_path / "model.gguf").read_bytes()
    file = tmp_path / "cut.gguf"
    for length in range(0, len(whole) - 4096 + 2400, 97):
        file.write_bytes(whole[:length])
        assert "Expected" in refusal(file)


def test_a_gguf_file_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.gguf")
    assert "which is a pipe or a device" in refusal(tmp_path / "model.gguf")


def test_metadata_beyond_any_vocabulary_are_not_read_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longhaul_trainer.importer.gguf.MAX_HEADER_BYTES", 400)
    assert "Expected at most 400 bytes of metadata" in refusal(write(tmp_path / "model.gguf"))


def test_a_tokenizer_without_merges_is_as_none(tmp_path: Path) -> None:
    file = open_gguf_file(write(tmp_path / "model.gguf", facts={"tokenizer.ggml.merges": (LIST, (TEXT, []))}))
    write_tokenizer(file, tmp_path)
    assert not (tmp_path / "tokenizer.json").exists()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return make_directory(tmp_path / "model", Made())


def test_the_tokenizer_of_another_directory_takes_the_place_of_a_damaged_one(model: Path) -> None:
    from longhaul_trainer.importer.command import ImportOptions, run_import

    whole = make_directory(model.parent / "whole", Made())
    (model / "tokenizer_config.json").write_text("{")
    assert "Expected JSON" in refusal(model)
    run_import(ImportOptions(model, model.parent / "made", tokenizer=whole))


def test_a_tensor_that_a_header_names_twice_is_refused(model: Path) -> None:
    file = sorted(model.glob("model-*"))[0]
    data = file.read_bytes()
    end = 8 + struct.unpack("<Q", data[:8])[0]
    header = data[8:end].rstrip()
    name, entry = re.search(rb'("model\.[^"]+"):(\{[^}]*\})', header).groups()  # type: ignore[union-attr]
    header = header[:-1] + b"," + name + b":" + entry + b"}"
    header += b" " * (-len(header) % 8)
    file.write_bytes(struct.pack("<Q", len(header)) + header + data[end:])
    assert "found it twice. The file is damaged" in refusal(model)


def test_a_tied_model_without_embedding_or_with_a_number_for_it_is_refused(model: Path) -> None:
    edit(model / "config.json", lambda config: config.update(tie_word_embeddings=True))
    edit(model / INDEX, lambda index: index["weight_map"].pop("model.embed_tokens.weight"))
    assert "Expected model.embed_tokens.weight in" in refusal(model)
    for file in model.glob("model-*"):
        save_file({name: torch.zeros((), dtype=tensor.dtype) for name, tensor in load_file(file).items()}, file)
    assert "Expected" in refusal(model)


NUMBERS_OF_CONFIG: dict[str, tuple[dict[str, Any], str]] = {
    "layers": ({"num_hidden_layers": 10**9}, r"weights of 1000000000 layers in .*found \d+ tensors"),
    "width of heads": ({"head_dim": 10**9}, r"weights of head_dim 1000000000 .*no side of a tensor above"),
    "labels": ({"num_labels": 10**9}, r"num_labels .*1 to 100000, found 1000000000"),
    "epsilon": ({"rms_norm_eps": "x"}, r"rms_norm_eps .*found 'x'"),
    "rope": ({"rope_parameters": {"rope_type": "default", "rope_theta": 0}}, r"rope_theta is 0\.0"),
    "end": ({"eos_token_id": "x"}, r"eos_token_id .*found 'x'"),
    "positions": ({"max_position_embeddings": 10**15}, r"max_position_embeddings .*below 2\^31"),
}


@pytest.mark.parametrize("what", NUMBERS_OF_CONFIG)
def test_a_size_in_config_json_that_no_weight_has_is_refused_before_it_is_made(what: str, model: Path) -> None:
    changes, message = NUMBERS_OF_CONFIG[what]
    edit(model / "config.json", lambda config: config.update(changes))
    assert re.search(message, found := refusal(model)), found


def test_how_transformers_computes_is_not_taken_from_config_json(model: Path) -> None:
    from longhaul_trainer.importer.command import ImportOptions, run_import

    edit(
        model / "config.json",
        lambda config: config.update(
            _attn_implementation="owner/kernel", return_dict=False, experts_implementation="x"
        ),
    )
    run_import(ImportOptions(model, model.parent / "made"))
    assert "kernel" not in (model.parent / "made" / "config.json").read_text()


def test_a_tokenizer_without_letters_is_refused(model: Path) -> None:
    edit(model / "tokenizer.json", lambda tokenizer: tokenizer["model"].update(vocab={}, merges=[]))
    assert "it loses letters" in refusal(model)


def test_ids_of_the_generation_config_are_of_the_vocabulary(model: Path) -> None:
    edit(model / "generation_config.json", lambda config: config.update(eos_token_id=10**9))
    assert "eos_token_id" in refusal(model)


def test_a_tokenizer_larger_than_any_is_not_read(model: Path) -> None:
    with (model / "tokenizer.json").open("wb") as file:
        file.truncate(3 * 10**9)
    assert "Expected at most 268435456 bytes in" in refusal(model)


@pytest.mark.parametrize(
    "part",
    [
        {"truncation": {"direction": "Right", "max_length": 512, "strategy": "LongestFirst", "stride": 0}},
        {
            "padding": {
                "strategy": {"Fixed": 10**11},
                "direction": "Right",
                "pad_to_multiple_of": None,
                "pad_id": 0,
                "pad_type_id": 0,
                "pad_token": "x",
            }
        },
    ],
    ids=lambda part: next(iter(part)),
)
def test_a_tokenizer_that_cuts_or_fills_texts_is_refused(part: dict[str, Any], model: Path) -> None:
    edit(model / "tokenizer.json", lambda tokenizer: tokenizer.update(part))
    assert "neither cuts nor fills texts" in refusal(model)


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "TimeoutError"),
        ("{{ 'a' * 9999999999 }}", "MemoryError"),
        ("{% for %}", "TemplateSyntaxError"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "RecursionError"),
    ],
)
def test_a_template_that_never_ends_or_fills_the_memory_is_ended(
    template: str, why: str, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat, "MAX_SECONDS", 1)
    (model / "chat_template.jinja").write_text(template)
    assert f"it fails: {why}" in refusal(model)
