"""GGUF files written by the package `gguf` become policies with equal logits."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from import_sources import ROPES, TEXTS, Made, logits, make_directory, make_gguf
from tokenizers import Tokenizer

from longhaul_trainer.failures import INPUT_UNUSABLE, JobError
from longhaul_trainer.importer import gguf_source
from longhaul_trainer.importer.command import ImportOptions, run_import
from longhaul_trainer.importer.gguf import TYPES, open_gguf_file

# `test/support/runner/trainer-test-packages.ts` installs gguf; the trainer itself reads GGUF without it.
if folder := os.environ.get("LONGHAUL_GGUF_PACKAGE"):
    sys.path.append(folder)
try:
    import gguf  # pyright: ignore[reportMissingImports]
except ModuleNotFoundError:
    pytest.skip("LONGHAUL_GGUF_PACKAGE names no folder with the package gguf", allow_module_level=True)

IDS = torch.randint(300, (2, 40), generator=torch.Generator().manual_seed(1))


def refusal(source: Path, **options: Any) -> str:
    before = sorted(entry.name for entry in source.parent.iterdir())
    with pytest.raises(JobError) as caught:
        run_import(ImportOptions(source, source.parent / "made", **options))
    assert caught.value.code == INPUT_UNUSABLE
    assert sorted(entry.name for entry in source.parent.iterdir()) == before
    return caught.value.message


MATRIX = [
    (Made(family=family, tied=tied, rope=rope, chat=chat, dtype=dtype), kind)
    for family, rope, chat, dtype, kind in (
        ("qwen2", "yarn", "chatml", torch.bfloat16, "BF16"),
        ("qwen3", None, "chatml", torch.float16, "F16"),
        ("llama", "llama3", "llama3", torch.bfloat16, "BF16"),
        ("llama", "linear", "chatml", torch.float32, "F32"),
    )
    for tied in (False, True)
]


@pytest.mark.parametrize(
    ("made", "kind"),
    MATRIX,
    ids=lambda value: value if isinstance(value, str) else f"{value.family}-{'tied' if value.tied else 'untied'}",
)
def test_a_gguf_file_becomes_the_policy_that_it_was_made_from(made: Made, kind: str, tmp_path: Path) -> None:
    source = make_directory(tmp_path / "model", made)
    record = run_import(ImportOptions(make_gguf(tmp_path / "model.gguf", source, kind=kind), tmp_path / "made"))
    assert torch.equal(logits(source, IDS), logits(tmp_path / "made", IDS))
    assert (record["source"]["kind"], record["tied"], record["chat_format"]) == ("gguf", made.tied, made.chat)
    assert record["dtypes"] == [str(made.dtype).removeprefix("torch.")]
    before, after = (json.loads((path / "config.json").read_text()) for path in (source, tmp_path / "made"))
    assert {name: after[name] for name in ("rope_parameters", "eos_token_id", "rms_norm_eps", "vocab_size")} == {
        name: before[name] for name in ("rope_parameters", "eos_token_id", "rms_norm_eps", "vocab_size")
    }
    theirs, ours = (Tokenizer.from_file(str(path / "tokenizer.json")) for path in (source, tmp_path / "made"))
    for text in (*TEXTS, "<|im_start|>user\n<|eot_id|> x<|im_end|>", "a   b\n\n\n c\t1234567 l'œuvre’s"):
        ids = theirs.encode(text, add_special_tokens=False).ids
        assert ours.encode(text, add_special_tokens=False).ids == ids
        assert ours.decode(ids, skip_special_tokens=False) == theirs.decode(ids, skip_special_tokens=False)


@pytest.mark.parametrize(("kind", "shape"), [("Q8_0", Made()), ("Q4_0", Made(family="llama", chat="llama3"))])
def test_quantised_weights_are_kept_to_the_last_bit(kind: str, shape: Made, tmp_path: Path) -> None:
    source = make_directory(tmp_path / "model", shape)
    file = make_gguf(tmp_path / "model.gguf", source, kind=kind)
    record = run_import(ImportOptions(file, tmp_path / "made"))
    assert record["dtypes"] == ["float32"]
    assert record["proof"]["same_argmax"] == record["proof"]["positions"]
    assert not torch.equal(logits(source, IDS), logits(tmp_path / "made", IDS))
    reader = {tensor.name: tensor for tensor in gguf.GGUFReader(file).tensors}
    opened = open_gguf_file(file)
    for name, tensor in reader.items():
        expected = torch.from_numpy(gguf.quants.dequantize(tensor.data, tensor.tensor_type))
        assert torch.equal(opened.read(name).float(), expected.view(opened.tensors[name].shape))


@pytest.mark.parametrize("number", TYPES)
def test_blocks_of_every_type_are_decoded_like_the_package_does(number: int) -> None:
    import numpy as np

    kind = TYPES[number]
    blocks = np.random.default_rng(3).integers(0, 256, (64, kind.size), dtype=np.uint8)
    if kind.values > 1:
        # Random bytes could be NaN or infinite scales.
        for at in {"Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}.get(kind.name, (0,)):
            blocks[:, at : at + 2] = np.random.default_rng(4).normal(size=(64, 1)).astype("<f2").view(np.uint8)
    if kind.name in ("F32", "F16", "BF16"):
        blocks = (
            np.random.default_rng(4)
            .normal(size=64)
            .astype("<f2" if kind.name == "F16" else "<f4")
            .view(np.uint8)
            .reshape(64, -1)[:, -kind.size :]
        )
    expected = gguf.quants.dequantize(np.ascontiguousarray(blocks).reshape(-1), gguf.GGMLQuantizationType(number))
    found = torch.from_numpy(np.ascontiguousarray(kind.decode(blocks)))
    found = found.view(torch.bfloat16) if kind.dtype is torch.bfloat16 else found
    assert torch.equal(found.float().flatten(), torch.from_numpy(expected).flatten())


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_directory(tmp_path_factory.mktemp("models") / "model", Made())


CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "another architecture": ({"architecture": "gemma3"}, r"GGUF of qwen2, qwen3, llama, .* architecture 'gemma3'"),
    "experts": ({"qwen2__expert_count": 8}, r"without experts"),
    "sliding windows": ({"qwen2__attention__sliding_window": 64}, r"full attention"),
    "half-turned heads": ({"qwen2__rope__dimension_count": 8}, r"rope\.dimension_count .* heads' 16, found 8"),
    "in parts": ({"split__count": 3}, r"one of 3: join them with llama-gguf-split --merge"),
    "a missing tensor": ({"without": ("blk.1.ffn_up.weight",)}, r"Expected model\.layers\.1\.mlp\.up_proj\.weight"),
    "no embedding": ({"without": ("token_embd.weight",)}, r"Expected token_embd\.weight"),
    "more layers by metadata": ({"qwen2__block_count": 3}, r"Expected model\.layers\.2\."),
    "another width by metadata": (
        {"qwen2__feed_forward_length": 96},
        r"mlp\.down_proj\.weight .*\[64, 96\] .*found \[64, 128\]",
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_file_that_cannot_be_turned_back_is_refused(what: str, model: Path, tmp_path: Path) -> None:
    changes, message = CHANGES[what]
    assert re.search(message, found := refusal(make_gguf(tmp_path / "model.gguf", model, **changes))), found


def test_a_type_that_is_not_decoded_is_refused_by_its_name(model: Path, tmp_path: Path) -> None:
    message = refusal(make_gguf(tmp_path / "model.gguf", model, kind="Q5_1"))
    assert "is Q5_1: take a GGUF of one of these types" in message
    assert "Q8_0" in message


def test_a_truncated_file_is_refused_at_any_length(model: Path, tmp_path: Path) -> None:
    whole = make_gguf(tmp_path / "model.gguf", model).read_bytes()
    file = tmp_path / "cut.gguf"
    for share in (0.0, 1e-5, 5e-5, 1e-3, 0.01, 0.05, 0.2, 0.9):
        file.write_bytes(whole[: math.floor(len(whole) * share)])
        assert "Expected" in refusal(file)
    file.write_bytes(whole[:-64])
    assert "the file is cut, get it again" in refusal(file)


def test_counts_larger_than_the_file_are_refused(model: Path, tmp_path: Path) -> None:
    whole = bytearray(make_gguf(tmp_path / "model.gguf", model).read_bytes())
    file = tmp_path / "odd.gguf"
    for begin, end, value in (
        (0, 4, b"GGML"),
        (4, 8, b"\x00\x00\x00\x03"),
        (8, 16, b"\xff" * 8),
        (16, 24, b"\xff" * 8),
        (24, 32, b"\xff" * 8),
    ):
        file.write_bytes(bytes(whole[:begin]) + value + bytes(whole[end:]))
        assert "Expected" in refusal(file)


def test_a_tokenizer_of_another_kind_needs_the_models_own(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        gguf.GGUFWriter, "add_tokenizer_pre", lambda self, _: self.add_string("tokenizer.ggml.pre", "kimi-k2")
    )
    file = make_gguf(tmp_path / "model.gguf", model)
    assert "take that of the same model with --tokenizer DIRECTORY" in refusal(file)
    run_import(ImportOptions(file, tmp_path / "made", tokenizer=model))
    assert (tmp_path / "made" / "tokenizer.json").read_bytes() == (model / "tokenizer.json").read_bytes()


def test_an_unknown_rope_table_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ROPES, "llama3", {**ROPES["llama3"], "factor": 5.0})
    source = make_directory(tmp_path / "model", Made(family="llama", rope="llama3"))
    assert "import the model's Hugging Face directory" in refusal(make_gguf(tmp_path / "model.gguf", source))


@pytest.mark.parametrize("fault", ["heads not turned back", "a wrong rope"])
def test_the_check_detects_errors_that_keep_the_shapes(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make_directory(tmp_path / "model", Made(family="llama", chat="llama3", rope="llama3"))
    file = make_gguf(tmp_path / "model.gguf", source)
    if fault == "heads not turned back":
        monkeypatch.setattr(gguf_source, "_turn_back", lambda tensor, heads: tensor)
    else:
        monkeypatch.setattr(gguf_source._Facts, "_llama3", lambda self: {})
    assert "Expected the logits of the source" in refusal(file)
