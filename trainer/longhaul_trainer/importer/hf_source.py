"""A Hugging Face model directory as a source. It reads weights from safetensors only, because unpickling runs code."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from longhaul_trainer.directory import sha256_file
from longhaul_trainer.importer.reference import Reference, inverse_frequencies
from longhaul_trainer.importer.refusal import FAMILIES, refuse_pointer, refused
from longhaul_trainer.importer.source import EMBEDDING, HEAD, NORM, ROLES, Source, check_sizes
from longhaul_trainer.importer.texts import AGAIN, check_tokenizer_files, read_object
from longhaul_trainer.step.export import END_IDS, GENERATION, copy_generation_ids, copy_tokenizer
from longhaul_trainer.weight_files import INDEX, SINGLE, WeightFiles, tensor_names

DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".th")
NEEDED = ("num_hidden_layers", "num_attention_heads", "hidden_size")
COUNTS = (*NEEDED, "num_key_value_heads", "head_dim", "vocab_size", "intermediate_size", "max_position_embeddings")
COMPUTING = ("attn_implementation", "experts_implementation", "return_dict")
MAX_LABELS = 100_000
ROPES = ("default", "linear", "yarn", "llama3")


def open_directory(directory: Path) -> tuple[Source, WeightFiles]:
    """Raises JobError 66 for a directory without a complete model of a supported family."""
    config = _read_config(directory)
    weights = WeightFiles(_find_weights(directory))
    shapes, dtypes = _describe(weights)

    check_sizes(config, shapes, directory)

    def read(name: str) -> torch.Tensor:
        return weights.read_whole(name)

    def role(name: str) -> torch.Tensor | None:
        full = _full_name(name)
        return weights.read_whole(full) if full in weights.places else None

    names = sorted({path.name for parts in weights.places.values() for path, _ in parts})
    source = Source(
        place=directory,
        kind="hugging-face",
        config=config,
        shapes=shapes,
        dtypes=dtypes,
        read=read,
        reference=_reference(config, directory, role),
        write_generation=lambda target: _copy_generation(directory, target, shapes.get(EMBEDDING, [0])[0]),
        write_tokenizer=lambda target: _copy_tokenizer(directory, target),
        files={name: sha256_file(directory / name) for name in ("config.json", *names)},
    )
    return source, weights


def _is_file_name(file: Any) -> bool:
    return (
        isinstance(file, str)
        and Path(file).name == file
        and file not in ("", "..")
        and file.isprintable()
        and len(file) < 256
    )


def _full_name(role: str) -> str:
    if role in (whole := {"embed": EMBEDDING, "norm": NORM, "head": HEAD}):
        return whole[role]
    layer, part, kind = role.split(".")
    return f"model.layers.{layer}.{ROLES[part]}.{kind}"


def _copy_tokenizer(directory: Path, target: Path) -> None:
    check_tokenizer_files(directory)
    copy_tokenizer(directory, target)


def _copy_generation(directory: Path, target: Path, vocabulary: int) -> None:
    path = directory / GENERATION
    _check_ends(read_object(path) if path.is_file() else {}, vocabulary, path)
    copy_generation_ids(directory, target)


def _refuse_broken_links(directory: Path) -> None:
    """The hub's cache holds a model as links to files elsewhere: a copy of its folder alone has the names and nothing behind them."""
    broken = sorted(entry.name for entry in directory.iterdir() if entry.is_symlink() and not os.path.exists(entry))
    if broken:
        raise refused(
            f"Expected a file behind {broken[0]} in {directory}, it is a link to nothing ({len(broken)} such links): copy the model with the files that the links name (cp -rL)"
        )


def _read_config(directory: Path) -> dict[str, Any]:
    _refuse_broken_links(directory)
    path = directory / "config.json"
    if not path.is_file():
        raise refused(f"Expected config.json in {directory}: is it the directory of a Hugging Face model?")
    config = read_object(path)
    family = config.get("model_type")
    if not isinstance(family, str) or family not in FAMILIES:
        raise refused(
            f"Expected a model of {', '.join(FAMILIES)} in {directory}, config.json says model_type {family!r}: the trainer knows no other architecture"
        )
    architectures = config.get("architectures") or [FAMILIES[family]]
    if architectures != [FAMILIES[family]]:
        raise refused(
            f"Expected architectures [{FAMILIES[family]}] in {path}, found {json.dumps(architectures)[:200]}: only language models can be sampled from"
        )
    quantization = config.pop("quantization_config", None)
    if quantization is not None:
        method = quantization.get("quant_method", "unknown") if isinstance(quantization, dict) else quantization
        raise refused(
            f"Expected weights that are not quantised in {directory}, config.json says {method}: import the model that it was made from"
        )
    if config.get("hidden_act", "silu") != "silu":
        raise refused(f"Expected hidden_act silu in {path}, found {config['hidden_act']}: no known {family} has it")
    _check_numbers(config, path)
    # Code beside the weights is never run, here or later.
    config.pop("auto_map", None)
    # Nor is what only says how transformers computes, which may name code of a hub.
    return {name: value for name, value in config.items() if not name.startswith("_") and name not in COMPUTING}


def _check_numbers(config: dict[str, Any], path: Path) -> None:
    """What transformers takes unseen: fields that it would fail on with a stack, and ids that no reply can end with."""

    for name in COUNTS:
        if not _is_count(value := config.get(name)) and (name in NEEDED or value is not None):
            raise refused(
                f"Expected {name} in {path} to be an integer of at least 1 and below 2^31, found {value!r:.80}; {AGAIN}"
            )
    labels = config.get("num_labels", 2)
    # transformers names every label of a classifier, which no language model has.
    if not _is_count(labels) or labels > MAX_LABELS:
        raise refused(f"Expected num_labels in {path} to be 1 to {MAX_LABELS}, found {labels!r:.80}: leave it out")
    eps = config.get("rms_norm_eps", 1e-6)
    if not isinstance(eps, (int, float)) or isinstance(eps, bool) or not 0 <= eps < math.inf:
        raise refused(f"Expected rms_norm_eps in {path} to be a number of at least 0, found {eps!r:.80}; {AGAIN}")
    if config.get("vocab_size") is not None:
        _check_ends(config, config["vocab_size"], path)
    for name in ("dtype", "torch_dtype"):
        value = config.get(name)
        if value is not None and not isinstance(getattr(torch, str(value).removeprefix("torch."), None), torch.dtype):
            raise refused(f"Expected {name} in {path} to be a dtype such as bfloat16, found {value!r:.80}; {AGAIN}")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 2**31


def _check_ends(values: dict[str, Any], vocabulary: int, path: Path) -> None:
    """Raises JobError 66 for ids of beginning, end and padding that the model does not have."""
    for name in END_IDS:
        value = values.get(name)
        lowest = -1 if name == "pad_token_id" else 0
        for found in value if isinstance(value, list) else [value]:
            if found is None and not isinstance(value, list):
                continue
            if not isinstance(found, int) or isinstance(found, bool) or not lowest <= found < vocabulary:
                raise refused(
                    f"Expected {name} in {path} to be ids below vocab_size {vocabulary}, found {found!r:.80}: no reply could end with it; {AGAIN}"
                )


def _find_weights(directory: Path) -> dict[str, list[tuple[Path, str]]]:
    """Tensor name → [(file, key)]. Raises JobError 66 if files are missing or the weights are pickles."""
    index, single = directory / INDEX, directory / SINGLE
    if index.is_file():
        names = read_object(index).get("weight_map")
        if not isinstance(names, dict):
            raise refused(f"Expected a weight_map in {index}, found {names!r:.80}; {AGAIN}")
        if outside := [file for file in names.values() if not _is_file_name(file)]:
            raise refused(f"Expected {index} to name files of its directory, found {outside[0]!r:.80}; {AGAIN}")
        files = sorted(set(names.values()))
        if missing := [file for file in files if not (directory / file).is_file()]:
            raise refused(
                f"Expected {missing[0]} in {directory}, {INDEX} names it ({len(missing)} of {len(files)} files missing): get the missing ones"
            )
        held = {file: _keys(directory / file) for file in files}
        for name, file in names.items():
            if name not in held[file]:
                raise refused(f"Expected {name} in {directory / file}, {INDEX} puts it there: get both files again")
        return {name: [(directory / file, name)] for name, file in names.items()}
    if single.is_file():
        return {name: [(single, name)] for name in _keys(single)}
    found = sorted(entry.name for entry in directory.iterdir())
    if pickled := [name for name in found if name.endswith(PICKLES)]:
        raise refused(
            f"Expected safetensors in {directory}, found {pickled[0]}: a pickle runs code when it is read and is refused. Get the model's safetensors, or convert it where you trust it: transformers' from_pretrained and save_pretrained write them"
        )
    if shards := [name for name in found if name.endswith(".safetensors")]:
        raise refused(
            f"Expected {INDEX} in {directory}, it says which weights lie in {shards[0]} and the others: get it"
        )
    if ggufs := [name for name in found if name.endswith(".gguf")]:
        raise refused(f"Expected {SINGLE} in {directory}, found {ggufs[0]}: name that file instead of the directory")
    raise refused(f"Expected {SINGLE} or {INDEX} in {directory}, found no weights at all")


def _keys(path: Path) -> set[str]:
    # Raises PermissionError too; the library would report an unreadable file as missing.
    refuse_pointer(path)
    try:
        with safe_open(path, framework="pt") as file:
            keys = set(file.keys())
    except SafetensorError as error:
        raise refused(f"Expected safetensors in {path}: {error}. The file is cut or damaged: get it again") from error
    # The library, which has checked the header, takes the last of two entries of one name.
    named = [name for name in tensor_names(path) if name in keys]
    if len(named) > len(keys):
        twice = next(name for at, name in enumerate(named) if name in named[:at])
        raise refused(f"Expected {twice!r:.80} once in {path}, found it twice. The file is damaged: get it again")
    return keys


def _describe(weights: WeightFiles) -> tuple[dict[str, list[int]], dict[str, torch.dtype]]:
    shapes, dtypes = {}, {}
    for name, ((path, key),) in weights.places.items():
        with safe_open(path, framework="pt") as file:
            part = file.get_slice(key)
            dtype = part.get_dtype()
            shapes[name] = part.get_shape()
        if dtype not in DTYPES:
            raise refused(
                f"Expected {', '.join(DTYPES)} in {path}, {name} is {dtype}: quantised weights cannot be trained, import the model that they were made from"
            )
        dtypes[name] = DTYPES[dtype]
    return shapes, dtypes


def _reference(config: dict[str, Any], directory: Path, role: Any) -> Reference:
    heads = config["num_attention_heads"]
    head_dim = config.get("head_dim") or (128 if config["model_type"] == "qwen3" else config["hidden_size"] // heads)
    rope = rope_of(config, directory)
    try:
        inv_freq, scale = inverse_frequencies(rope, head_dim)
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise refused(
            f"Expected the rope in config.json of {directory} to have the numbers of its kind, found {json.dumps(rope)[:300]} ({error}); {AGAIN}"
        ) from error
    return Reference(
        read=role,
        layers=config["num_hidden_layers"],
        heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads,
        head_dim=head_dim,
        eps=config.get("rms_norm_eps", 1e-6),
        inv_freq=inv_freq,
        attention_scale=scale,
    )


def rope_of(config: dict[str, Any], directory: Path) -> dict[str, Any]:
    """The rope with its theta, from either form of config.json. Raises JobError 66 for an unsupported rope, such as a dynamic one."""
    stated = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(stated, dict):
        raise refused(f"Expected the rope in config.json of {directory} to be an object, found {stated!r:.80}; {AGAIN}")
    rope = {"rope_theta": config.get("rope_theta", 10000.0), **stated}
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind not in ROPES or "mscale" in rope or rope.get("partial_rotary_factor", 1.0) != 1.0:
        raise refused(
            f"Expected a rope of {', '.join(ROPES)} in config.json of {directory}, found {json.dumps(rope)}: the trainer knows no other"
        )
    if "original_max_position_embeddings" not in rope:
        rope["original_max_position_embeddings"] = config.get("max_position_embeddings", 0)
    return rope
