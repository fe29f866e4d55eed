"""Making the base policy of recipes/repair.yaml, with a model of about ten thousand parameters and invented episodes."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from longhaul_trainer.directory import open_sealed
from longhaul_trainer.make_repair_base import Batches, main
from longhaul_trainer.repair_texts import copies, read_demonstrations, renamed, to_row, train_tokenizer

SYLLABLES = [onset + vowel for onset in "bdfgklmnprstvz" for vowel in "aeiou"]
ROOTS = [first + second for first in SYLLABLES for second in SYLLABLES if first != second]
TRAIN, HELD = ROOTS[: len(ROOTS) // 2], ROOTS[len(ROOTS) // 2 :]
FIXED = ["Fix it.\n", "```command\n", "\n```", "assistant\n", "user\n"]


def record(index: int, roots: list[str]) -> dict[str, object]:
    generator = random.Random(index)
    package, old, new = generator.sample(roots, 3)
    task = f"<|im_start|>user\nFix it.\n{old}s_{old} is now {new}. {package}/{old.capitalize()}.<|im_end|>\n<|im_start|>assistant\n"
    wrong = f"No.\n```command\nopen {old}\n```<|im_end|>"
    right = f"Yes.\n```command\nreplace {old} {new}\n```<|im_end|>"
    return {
        "segments": [
            {"text": task, "isAction": False},
            {"text": wrong, "isAction": True, "isMistake": True},
            {"text": "\n<|im_start|>user\nno\n<|im_start|>assistant\n", "isAction": False},
            {"text": right, "isAction": True},
        ],
        "roots": [old, new],
        "kept": [package],
    }


@pytest.fixture(name="work")
def make_work(tmp_path: Path) -> Path:
    for name, roots, count in (("train", TRAIN, 24), ("heldout", HELD, 4)):
        lines = [json.dumps(record(index, roots)) for index in range(count)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "fixed.json").write_text(json.dumps(FIXED))
    (tmp_path / "roots.json").write_text(json.dumps(TRAIN))
    return tmp_path


def options(work: Path, out: str, *more: str) -> list[str]:
    small = [
        "--hidden",
        "128",
        "--layers",
        "2",
        "--heads",
        "2",
        "--mlp",
        "32",
        "--batch",
        "4",
        "--threads",
        "1",
        "--copying",
        "4",
    ]
    places = ["--work", str(work), "--out", str(work / out), "--card", str(work / f"{out}.json")]
    return [*places, *small, "--micro", "2", "--held-out", "4", "--steps", "16", "--evaluate-every", "8", *more]


def test_a_killed_training_goes_on_and_ends_with_the_same_sealed_weights(work: Path) -> None:
    assert main(options(work, "whole")) == 0
    (work / "checkpoint.safetensors").unlink()
    assert main(options(work, "parts", "--stop-after", "7")) == 0
    assert not (work / "parts").exists()
    assert main(options(work, "parts")) == 0

    whole, parts = (load_file(work / name / "model.safetensors") for name in ("whole", "parts"))
    assert whole.keys() == parts.keys()
    assert all(whole[name].equal(parts[name]) for name in whole)
    assert {str(tensor.dtype) for tensor in parts.values()} == {"torch.bfloat16"}
    open_sealed(work / "parts")
    card = json.loads((work / "parts.json").read_text())
    losses = [point["loss"] for point in card["stages"][0]["curve"]]
    assert [point["step"] for point in card["stages"][0]["curve"]] == [7, 8, 16]
    assert losses[-1] < losses[0]
    assert set(card["held_out_as_shipped"]) == {"tokens", "turns", "arguments", "episodes"}


def test_a_checkpoint_of_other_settings_is_refused(work: Path) -> None:
    assert main(options(work, "one", "--stop-after", "1")) == 0
    with pytest.raises(SystemExit, match="another's"):
        main(options(work, "one", "--lr", "0.1"))


def test_transformers_reads_the_directory_and_its_template_is_chatml(work: Path) -> None:
    assert main(options(work, "model")) == 0
    model = AutoModelForCausalLM.from_pretrained(work / "model")
    tokenizer = AutoTokenizer.from_pretrained(work / "model")
    assert model.config.model_type == "qwen3"
    text = tokenizer.apply_chat_template([{"role": "user", "content": "a"}], tokenize=False, add_generation_prompt=True)
    assert text == "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n"
    hostile = "über\r\n\t\x1b[0m 漢字 Fix it.\n kelun"
    assert tokenizer.decode(tokenizer(hostile)["input_ids"]) == hostile


def windows(tokens: list[str], size: int = 6) -> list[list[str]]:
    return [tokens[start : start + size] for start in range(len(tokens))]


def test_fixed_texts_and_roots_are_one_token_each_in_every_split(work: Path) -> None:
    demonstrations = read_demonstrations(work / "train.jsonl")
    # A name that occurs a hundred times in one episode must not become a token.
    documents = [[segment.text for segment in one.segments] * 100 for one in demonstrations]
    tokenizer = train_tokenizer(documents, FIXED, vocab_size=8_192)
    for text in FIXED:
        assert len(tokenizer.encode(text, add_special_tokens=False).ids) == 1
    vocabulary = tokenizer.get_vocab()
    assert not [root for root in ROOTS if root not in vocabulary]
    for root in TRAIN[:3] + HELD[:3]:
        assert [root, "n_", root, "s", "/", root] in windows(tokenizer.encode(f"open {root}n_{root}s/{root}.py").tokens)
    assert [tokenizer.token_to_id(name) for name in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")] == [0, 1, 2]


def test_renaming_replaces_every_stem_and_keeps_package_and_words(work: Path) -> None:
    demonstration = read_demonstrations(work / "train.jsonl")[0]
    other = renamed(demonstration, TRAIN, random.Random(1))
    (old, new), (old_other, new_other) = demonstration.roots, other.roots
    (package,) = demonstration.kept
    text = "".join(segment.text for segment in other.segments)
    assert f"{old_other}s_{old_other} is now {new_other}. {package}/{old_other.capitalize()}." in text
    assert old not in text
    assert new not in text
    assert len(text) == sum(len(segment.text) for segment in demonstration.segments)
    assert not {old_other, new_other} & {old, new, package}


def test_wrong_turns_have_no_weight(work: Path) -> None:
    demonstration = read_demonstrations(work / "train.jsonl")[0]
    tokenizer = train_tokenizer([["a"]], FIXED, vocab_size=512)
    row = to_row(demonstration, tokenizer)
    ((begin, argument, end),) = row.turns
    assert end == len(row.ids)
    assert set(row.weights[begin:end]) == {1.0}
    assert set(row.weights[:begin]) == {0.0, 0.1}
    assert tokenizer.decode(row.ids[argument:end], skip_special_tokens=False).startswith(f" {demonstration.roots[0]}")


def test_stems_are_split_into_root_and_letter_and_words_into_syllables() -> None:
    tokenizer = train_tokenizer([["a"]], FIXED, vocab_size=512)
    pieces = [piece for piece, _ in tokenizer.pre_tokenizer.pre_tokenize_str("nunir_Sosu(listen, zel12:")]
    assert pieces == ["nuni", "r_", "So", "su", "(", "listen", ",", "Ġ", "ze", "l", "12:"]


def test_the_first_list_holds_the_names_to_copy_and_has_no_weight() -> None:
    tokenizer = train_tokenizer([["a"]], FIXED, vocab_size=512)
    row = copies(TRAIN, random.Random(1), tokenizer, names=5, lists=3)
    lists = [tokenizer.decode(row.ids).split("\n")[start : start + 5] for start in (0, 5, 10)]
    assert len(set(lists[0])) == 5
    assert lists[0] != lists[1]
    assert sorted(lists[0]) == sorted(lists[1]) == sorted(lists[2])
    new = row.weights.index(1.0)
    assert tokenizer.decode(row.ids[:new]).split("\n")[:-1] == lists[0]
    assert set(row.weights[:new]) == {0.0}
    assert set(row.weights[new:]) == {1.0}


def test_copying_starts_before_demonstrations_and_continues_with_them(work: Path) -> None:
    demonstrations = read_demonstrations(work / "train.jsonl")
    tokenizer = train_tokenizer([["a"]], FIXED, vocab_size=512)
    batches = Batches(demonstrations, TRAIN, tokenizer, size=4, seed=0, copying=3)
    assert [[bool(row.turns) for row in batches.at(step)].count(True) for step in range(5)] == [0, 0, 0, 4, 4]
    assert [len(batches.at(step)) for step in (3, 4)] == [5, 5]
    assert batches.at(1) == batches.at(1)
    without = Batches(demonstrations, TRAIN, tokenizer, size=4, seed=0)
    assert all(row.turns for row in without.at(0))
