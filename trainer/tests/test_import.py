"""Hugging Face directories become sealed policies with equal logits, or a message says why not and how to fix it."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from import_sources import (
    LLAMA31_TEMPLATE,
    LLAMA_TEMPLATE,
    MISTRAL_TEMPLATE,
    Made,
    logits,
    make_directory,
)
from safetensors.torch import load_file, save_file

from longhaul_trainer.directory import open_sealed
from longhaul_trainer.failures import INPUT_UNUSABLE, OUTPUT_UNWRITABLE, JobError
from longhaul_trainer.importer import chat, command, hf_source
from longhaul_trainer.importer.command import ImportOptions, import_model, run_import
from longhaul_trainer.weight_files import INDEX, hugging_face_weights

IDS = torch.randint(300, (2, 40), generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_directory(tmp_path_factory.mktemp("models") / "qwen2", Made())


@pytest.fixture
def model(untouched: Path, tmp_path: Path) -> Path:
    """A copy that tests may damage."""
    copy = tmp_path / "model"
    copy.mkdir()
    for file in untouched.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    return copy


def edit(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def link(path: Path, target: str) -> None:
    path.unlink()
    path.symlink_to(target)


def refusal(source: Path, **options: Any) -> str:
    """The message of an import that must fail. It must leave no new files."""
    before = sorted(entry.name for entry in source.parent.iterdir())
    with pytest.raises(JobError) as caught:
        run_import(ImportOptions(source, source.parent / "made", **options))
    assert caught.value.code == INPUT_UNUSABLE
    assert sorted(entry.name for entry in source.parent.iterdir()) == before
    return caught.value.message


MATRIX = [
    Made(family=family, tied=tied, rope=rope, chat=chat_format, dtype=dtype)
    for family, rope, chat_format, dtype in (
        ("qwen2", "yarn", "chatml", torch.bfloat16),
        ("qwen3", None, "chatml", torch.float16),
        ("llama", "llama3", "llama3", torch.bfloat16),
        ("llama", "linear", "chatml", torch.float32),
    )
    for tied in (False, True)
]


@pytest.mark.parametrize(
    "made", MATRIX, ids=lambda made: f"{made.family}-{'tied' if made.tied else 'untied'}-{made.chat}"
)
def test_a_model_directory_becomes_a_sealed_policy_with_the_same_logits(made: Made, tmp_path: Path) -> None:
    source, target = make_directory(tmp_path / "model", made), tmp_path / "made"
    record = run_import(ImportOptions(source, target, origin="owner/name@0123"))
    assert torch.equal(logits(source, IDS), logits(target, IDS))
    sealed = open_sealed(target, expected_sha256=record["manifest_sha256"])
    assert sealed.manifest["kind"] == "policy"
    assert (record["tied"], record["chat_format"], record["chat"]) == (made.tied, made.chat, {"template": "same"})
    assert record["dtypes"] == [str(made.dtype).removeprefix("torch.")]
    assert record["proof"]["same_argmax"] == record["proof"]["positions"] > 150
    assert json.loads((target / "longhaul.json").read_text())["source"]["origin"] == "owner/name@0123"
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        assert (target / name).read_bytes() == (source / name).read_bytes()
    # Servers would silently sample with other fields.
    assert set(json.loads((target / "generation_config.json").read_text())) == {"eos_token_id"}
    config = json.loads((target / "config.json").read_text())
    assert config["rope_theta"] == config["rope_parameters"]["rope_theta"] == 10000.0
    assert not [entry for entry in tmp_path.iterdir() if entry.name not in ("model", "made")]


def test_an_import_reports_its_progress(untouched: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    options = ImportOptions(untouched, tmp_path / "made")
    assert import_model(options) == 0
    out, err = capfd.readouterr()
    assert json.loads(out.splitlines()[-1])["schema"] == "longhaul.import/1"
    said = [line.removeprefix("progress: ") for line in err.splitlines() if line.startswith("progress: ")]
    written = [line for line in said if line.startswith("writing weights")]
    total = len(written)
    assert written == [f"writing weights, {done} of {total} tensors read" for done in range(1, total + 1)]
    for text in (1, 2):
        for what in ("layer of the source", "module of the policy"):
            compared = [line for line in said if line.startswith(f"comparing logits, text {text} of 2: {what} ")]
            counts = [tuple(map(int, line.rsplit(" ", 3)[1::2])) for line in compared]
            assert counts
            assert counts == [(done, counts[-1][1]) for done in range(1, counts[-1][1] + 1)]


def test_the_same_source_gives_the_same_policy(untouched: Path, tmp_path: Path) -> None:
    first, second = (run_import(ImportOptions(untouched, tmp_path / name)) for name in ("a", "b"))
    assert first["manifest_sha256"] == second["manifest_sha256"]


def test_a_config_from_before_transformers_5_gives_the_same_rope(tmp_path: Path) -> None:
    source = make_directory(tmp_path / "model", Made(rope="yarn"))
    expected = logits(source, IDS)

    def older(config: dict[str, Any]) -> None:
        rope = config.pop("rope_parameters")
        config["rope_theta"] = rope.pop("rope_theta")
        config["rope_scaling"] = {"type": rope.pop("rope_type"), **rope}
        config["torch_dtype"] = config.pop("dtype")

    edit(source / "config.json", older)
    run_import(ImportOptions(source, tmp_path / "made"))
    assert torch.equal(expected, logits(tmp_path / "made", IDS))


def test_a_head_that_repeats_the_embedding_of_a_tied_model_is_left_out(tmp_path: Path) -> None:
    source = make_directory(tmp_path / "model", Made(tied=True))
    expected = logits(source, IDS)
    index = json.loads((source / INDEX).read_text())
    file = index["weight_map"]["model.embed_tokens.weight"]
    tensors = load_file(source / file)
    head = {"lm_head.weight": tensors["model.embed_tokens.weight"].clone(), "model.rotary_emb.inv_freq": torch.ones(8)}
    save_file({**tensors, **head}, source / file, metadata={"format": "pt"})
    edit(source / INDEX, lambda content: content["weight_map"].update(dict.fromkeys(head, file)))
    run_import(ImportOptions(source, tmp_path / "made"))
    assert not set(head) & set(hugging_face_weights(tmp_path / "made").places)
    assert torch.equal(expected, logits(tmp_path / "made", IDS))


def test_files_of_a_killed_import_are_removed_and_an_existing_target_is_kept(untouched: Path, tmp_path: Path) -> None:
    (tmp_path / ".made.import").mkdir()
    (tmp_path / ".made.import" / "model.safetensors").write_text("half")
    run_import(ImportOptions(untouched, tmp_path / "made"))
    assert [entry.name for entry in tmp_path.iterdir()] == ["made"]
    before = (tmp_path / "made" / "COMMITTED").read_bytes()
    with pytest.raises(JobError, match="never overwrites") as caught:
        run_import(ImportOptions(untouched, tmp_path / "made"))
    assert caught.value.code == OUTPUT_UNWRITABLE
    assert (tmp_path / "made" / "COMMITTED").read_bytes() == before


def test_an_error_in_the_middle_leaves_nothing(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(command, "_write_config", full)
    with pytest.raises(OSError, match="No space left"):
        run_import(ImportOptions(model, model.parent / "made"))
    assert [entry.name for entry in model.parent.iterdir()] == ["model"]


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"


def test_an_interrupt_in_the_middle_leaves_nothing(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(command, "_write_config", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(SystemExit, match="143"):
        command.import_model(ImportOptions(model, model.parent / "made"))
    assert [entry.name for entry in model.parent.iterdir()] == ["model"]
    assert signal.getsignal(signal.SIGTERM) is before


# Name → (damage, pattern of the message, which names the place and the remedy).
BROKEN: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no config.json": (
        lambda m: (m / "config.json").unlink(),
        r"Expected config\.json in .*directory of a Hugging Face",
    ),
    "config.json cut": (lambda m: (m / "config.json").write_text("{"), r"Expected JSON in .*get the file again"),
    "another architecture": (
        lambda m: edit(m / "config.json", lambda c: c.update(model_type="mistral")),
        r"model of qwen2, qwen3, llama .*'mistral'",
    ),
    "a model of rewards": (
        lambda m: edit(m / "config.json", lambda c: c.update(architectures=["Qwen2ForRewardModel"])),
        r"Qwen2ForCausalLM.*Qwen2ForRewardModel",
    ),
    "quantised by config": (
        lambda m: edit(m / "config.json", lambda c: c.update(quantization_config={"quant_method": "gptq"})),
        r"not quantised .*gptq.*made from",
    ),
    "sliding windows": (
        lambda m: edit(
            m / "config.json",
            lambda c: c.update(use_sliding_window=True, sliding_window=64, max_window_layers=0, layer_types=None),
        ),
        r"sliding",
    ),
    "a rope that depends on the row": (
        lambda m: edit(
            m / "config.json",
            lambda c: c.update(rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}),
        ),
        r"rope of default, linear, yarn, llama3 .*dynamic",
    ),
    "heads that do not divide": (
        lambda m: edit(m / "config.json", lambda c: c.update(num_attention_heads=5)),
        r"Expected 5 heads in .* to share 2 keys evenly",
    ),
    "a shape of another config": (
        lambda m: edit(m / "config.json", lambda c: c.update(intermediate_size=96)),
        r"model\.layers\.0\.mlp\.down_proj\.weight .*shape \[64, 96\] by config\.json, found \[64, 128\]",
    ),
    "more layers than weights": (
        lambda m: edit(m / "config.json", lambda c: c.update(num_hidden_layers=3, layer_types=None)),
        r"Expected model\.layers\.2\..* another model's",
    ),
    "fewer layers than weights": (
        lambda m: edit(m / "config.json", lambda c: c.update(num_hidden_layers=1, layer_types=None)),
        r"Expected no model\.layers\.1\..*",
    ),
    "tied by config, a head of its own": (
        lambda m: edit(m / "config.json", lambda c: c.update(tie_word_embeddings=True)),
        r"says tie_word_embeddings: true, but it differs: write false",
    ),
    "a shard missing": (
        lambda m: (m / sorted(f.name for f in m.glob("model-*"))[1]).unlink(),
        r"Expected model-00002-of-\d+\.safetensors in .*index\.json names it \(1 of \d+ files missing\): get",
    ),
    "an index that leads out": (
        lambda m: edit(m / INDEX, lambda c: c["weight_map"].update({"lm_head.weight": "../other.safetensors"})),
        r"files of its directory, found '\.\./other",
    ),
    "an index that is wrong": (
        lambda m: edit(
            m / INDEX,
            lambda c: c["weight_map"].update(
                {
                    "lm_head.weight": next(iter(c["weight_map"].values())),
                    "model.norm.weight": c["weight_map"]["lm_head.weight"],
                }
            ),
        ),
        r"puts it there: get both files again",
    ),
    "no index": (lambda m: (m / INDEX).unlink(), r"Expected model\.safetensors\.index\.json in"),
    "a shard cut": (
        lambda m: (lambda f: f.write_bytes(f.read_bytes()[:-7]))(sorted(m.glob("model-*"))[0]),
        r"Expected safetensors in .*cut or damaged: get it again",
    ),
    "a shard that is a pointer": (
        lambda m: sorted(m.glob("model-*"))[0].write_text(POINTER),
        r"itself at .*model-00001-.*found a pointer of Git LFS: fetch it with git lfs pull",
    ),
    "a tokenizer that is a pointer": (
        lambda m: (m / "tokenizer.json").write_text(POINTER),
        r"itself at .*tokenizer\.json, found a pointer of Git LFS",
    ),
    "only pickles": (
        lambda m: [f.unlink() for f in [*m.glob("model-*"), m / INDEX]] and (m / "pytorch_model.bin").write_bytes(b"x"),
        r"found pytorch_model\.bin: a pickle runs code .*save_pretrained",
    ),
    "no weights": (lambda m: [f.unlink() for f in [*m.glob("model-*"), m / INDEX]], r"found no weights at all"),
    "weights of eight bits": (
        lambda m: (lambda f: save_file({k: v.to(torch.int8) for k, v in load_file(f).items()}, f))(
            sorted(m.glob("model-*"))[0]
        ),
        r"Expected F32, F16, BF16 in .* is I8",
    ),
    "no tokenizer": (lambda m: (m / "tokenizer.json").unlink(), r"Expected tokenizer\.json in .*--tokenizer DIRECTORY"),
    "a tokenizer cut": (lambda m: (m / "tokenizer.json").write_text("{"), r"Expected a tokenizer in tokenizer\.json"),
    "a tokenizer of a larger model": (
        lambda m: (
            edit(
                m / "tokenizer.json",
                lambda c: c["added_tokens"].append({**c["added_tokens"][-1], "id": 5000, "content": "<|more|>"}),
            )
            or edit(m / "tokenizer.json", lambda c: c["model"]["vocab"].update({"<|more|>": 5000}))
        ),
        r"below the embedding's \d+ rows, found 5000: the tokenizer is another",
    ),
    "a template of another format": (
        lambda m: (m / "chat_template.jinja").write_text(MISTRAL_TEMPLATE),
        r"to be chatml or llama3, it writes .*INST.*--chat-format NAME",
    ),
    "a template that fails": (
        lambda m: (m / "chat_template.jinja").write_text("{{ raise_exception('no system role') }}"),
        r"to be chatml or llama3, it fails: .*no system role",
    ),
    "a template that leaves its sandbox": (
        lambda m: (m / "chat_template.jinja").write_text("{{ ''.__class__.__mro__ }}"),
        r"it fails: SecurityError",
    ),
    "an architecture that is a list": (
        lambda m: edit(m / "config.json", lambda c: c.update(model_type=["qwen2"])),
        r"config\.json says model_type \['qwen2'\]",
    ),
    "architectures that are a number": (
        lambda m: edit(m / "config.json", lambda c: c.update(architectures=5)),
        r"Expected architectures \[Qwen2ForCausalLM\] .*found 5",
    ),
    "quantised by a word": (
        lambda m: edit(m / "config.json", lambda c: c.update(quantization_config="gptq")),
        r"not quantised .*gptq",
    ),
    "no layers": (
        lambda m: edit(m / "config.json", lambda c: c.update(num_hidden_layers=0)),
        r"num_hidden_layers in .* to be an integer of at least 1 and below 2\^31, found 0",
    ),
    "a size that is text": (
        lambda m: edit(m / "config.json", lambda c: c.update(head_dim="x")),
        r"head_dim in .* to be an integer of at least 1 and below 2\^31, found 'x'",
    ),
    "no positions": (
        lambda m: edit(m / "config.json", lambda c: c.update(max_position_embeddings=-5)),
        r"max_position_embeddings in .*found -5",
    ),
    "an end that no reply has": (
        lambda m: edit(m / "config.json", lambda c: c.update(eos_token_id=10**9)),
        r"eos_token_id in .* below vocab_size \d+, found 1000000000",
    ),
    "a padding beyond the vocabulary": (
        lambda m: edit(m / "config.json", lambda c: c.update(pad_token_id=10**9)),
        r"pad_token_id in .* below vocab_size",
    ),
    "a dtype that is none": (
        lambda m: edit(m / "config.json", lambda c: c.update(dtype="x")),
        r"Expected dtype in .*found 'x'",
    ),
    "a field that transformers fails on": (
        lambda m: edit(m / "config.json", lambda c: c.update(id2label=5)),
        r"Expected config\.json of .* to describe a model: .*get the file again",
    ),
    "a field that transformers fails to write": (
        lambda m: edit(m / "config.json", lambda c: c.update(output_attentions="x")),
        r"Expected config\.json of .* to describe a model",
    ),
    "a rope without its factor": (
        lambda m: edit(m / "config.json", lambda c: c.update(rope_parameters={"rope_type": "yarn"})),
        r"numbers of its kind, found .*'factor'",
    ),
    "a rope that is a word": (
        lambda m: edit(m / "config.json", lambda c: c.update(rope_parameters="yarn")),
        r"Expected the rope in .* to be an object, found 'yarn'",
    ),
    "config.json nested too deeply": (
        lambda m: (m / "config.json").write_text("[" * 100_000),
        r"Expected JSON in .*nested too deeply",
    ),
    "an index without a map": (
        lambda m: edit(m / INDEX, lambda c: c.update(weight_map=["a"])),
        r"Expected a weight_map in .*found \['a'\]",
    ),
    "an index that names a number": (
        lambda m: edit(m / INDEX, lambda c: c["weight_map"].update(x=5)),
        r"to name files of its directory, found 5",
    ),
    "an index that names a long file": (
        lambda m: edit(m / INDEX, lambda c: c["weight_map"].update(x="x" * 5000)),
        r"to name files of its directory, found 'xxx",
    ),
    "tokenizer_config.json cut": (
        lambda m: (m / "tokenizer_config.json").write_text("{"),
        r"Expected JSON in .*tokenizer_config\.json.*again",
    ),
    "tokenizer_config.json that is a list": (
        lambda m: (m / "tokenizer_config.json").write_text("[]"),
        r"Expected an object in .*tokenizer_config\.json",
    ),
    "special_tokens_map.json cut": (
        lambda m: (m / "special_tokens_map.json").write_text("{"),
        r"Expected JSON in .*special_tokens_map\.json",
    ),
    "generation_config.json that is null": (
        lambda m: (m / "generation_config.json").write_text("null"),
        r"Expected an object in .*generation_config\.json",
    ),
    "a template that is no text": (
        lambda m: (m / "chat_template.jinja").write_bytes(b"\xff\xfe"),
        r"Expected text in UTF-8 in .*chat_template\.jinja",
    ),
    "weights behind a link to nothing": (
        lambda m: link(sorted(m.glob("*.safetensors"))[0], "../../blobs/0123"),
        r"Expected a file behind model-.*\.safetensors in .*a link to nothing \(1 such links\): copy the model .*cp -rL",
    ),
    "a config behind a link to itself": (
        lambda m: link(m / "config.json", "config.json"),
        r"Expected a file behind config\.json in .*a link to nothing.*cp -rL",
    ),
    "no template": (
        lambda m: (m / "chat_template.jinja").unlink(),
        r"Expected a chat template in .*/model, found none.*--chat-format chatml or llama3",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_an_incomplete_source_is_refused_with_the_fix(what: str, model: Path) -> None:
    damage, message = BROKEN[what]
    damage(model)
    found = refusal(model)
    assert re.search(message, found), found


def test_an_untied_config_without_a_head_is_refused(tmp_path: Path) -> None:
    source = make_directory(tmp_path / "model", Made(tied=True))
    edit(source / "config.json", lambda config: config.update(tie_word_embeddings=False))
    assert "write true there" in refusal(source)


def test_non_finite_weights_are_refused(model: Path) -> None:
    file = sorted(model.glob("model-*"))[-1]
    tensors = load_file(file)
    name = next(iter(tensors))
    tensors[name].view(-1)[0] = float("nan")
    save_file(tensors, file, metadata={"format": "pt"})
    assert "Expected finite logits" in refusal(model)


def test_a_gguf_file_that_is_a_pointer_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_text(POINTER)
    assert "found a pointer of Git LFS: fetch it with git lfs pull" in refusal(tmp_path / "model.gguf")


@pytest.mark.parametrize("name", ["weights.bin", "weights.pt", "weights.safetensors", "notes.txt"])
def test_a_file_without_a_model_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"x")
    assert "Expected" in refusal(tmp_path / name)


def test_a_missing_source_is_refused(tmp_path: Path) -> None:
    assert "there is nothing" in refusal(tmp_path / "absent")


def test_the_tokenizer_of_another_directory_replaces_a_missing_one(model: Path, untouched: Path) -> None:
    for file in model.glob("*token*"):
        file.unlink()
    run_import(ImportOptions(model, model.parent / "made", tokenizer=untouched, chat_format="chatml"))
    assert (model.parent / "made" / "tokenizer.json").read_bytes() == (untouched / "tokenizer.json").read_bytes()
    assert "(--tokenizer)" in refusal_of_tokenizer(model)


def refusal_of_tokenizer(model: Path) -> str:
    with pytest.raises(JobError) as caught:
        run_import(ImportOptions(model, model.parent / "other", tokenizer=model))
    return caught.value.message


def test_a_date_before_the_system_prompt_keeps_the_chat_format(tmp_path: Path) -> None:
    source = make_directory(tmp_path / "model", Made(family="llama", chat="llama3"))
    (source / "chat_template.jinja").write_text(LLAMA31_TEMPLATE)
    record = run_import(ImportOptions(source, tmp_path / "made"))
    assert (record["chat_format"], record["chat"]["template"]) == (
        "llama3",
        "same but for a preamble before the system prompt",
    )


@pytest.mark.parametrize("place", ["tokenizer_config.json", "named", "chat_template.json"])
def test_a_template_is_found_where_older_versions_kept_it(place: str, model: Path) -> None:
    template = (model / "chat_template.jinja").read_text()
    (model / "chat_template.jinja").unlink()
    if place == "chat_template.json":
        (model / place).write_text(json.dumps({"chat_template": template}))
    else:
        kept = [{"name": "tool_use", "template": "x"}, {"name": "default", "template": template}]
        found = kept if place == "named" else template
        edit(model / "tokenizer_config.json", lambda config: config.update(chat_template=found))
    assert chat.find_format(model, None, place=model) == ("chatml", {"template": "same"})


def test_a_stated_format_needs_its_tokens(model: Path) -> None:
    (model / "chat_template.jinja").write_text(MISTRAL_TEMPLATE)
    record = run_import(ImportOptions(model, model.parent / "made", chat_format="chatml"))
    assert (record["chat_format"], record["chat"]) == ("chatml", {"template": "differs"})
    (model / "chat_template.jinja").write_text(LLAMA_TEMPLATE)
    with pytest.raises(JobError, match=r"<\|begin_of_text\|> of the chat format llama3 to be one added token"):
        run_import(ImportOptions(model, model.parent / "other", chat_format="llama3"))


def test_a_tokenizer_that_adds_to_the_beginning_of_a_text_is_refused(model: Path) -> None:
    edit(model / "tokenizer.json", lambda content: content.update(normalizer={"type": "Prepend", "prepend": "Ġ"}))
    assert "adds a space or a token at the beginning" in refusal(model)


def test_the_check_detects_a_tensor_that_was_changed_in_between(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference reads the source, the policy reads the written files."""
    opened = hf_source.open_directory

    def damaged(directory: Path) -> Any:
        source, weights = opened(directory)

        def read(name: str) -> torch.Tensor:
            tensor = source.read(name)
            return tensor * 1.01 if name == "model.layers.1.self_attn.k_proj.bias" else tensor

        return type(source)(**{**vars(source), "read": read}), weights

    monkeypatch.setattr(hf_source, "open_directory", damaged)
    assert "Expected the logits of the source" in refusal(model)
