"""`import`: writes a model of another project as a sealed policy directory, proves that its logits are equal, and writes it completely or
not at all."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longhaul_trainer.directory import fsync_path, json_bytes, seal
from longhaul_trainer.failures import CLASSES, OK, OUTPUT_UNWRITABLE, JobError, io_code
from longhaul_trainer.importer.refusal import FAMILIES, reading_tokenizer, refused
from longhaul_trainer.staging import staging_beside

SCHEMA = "longhaul.import/1"
# Record of the origin of the files. Engines ignore it.
RECORD = "longhaul.json"


@dataclass(frozen=True)
class ImportOptions:
    """`source`: a model directory or a .gguf file; `origin`: where the source comes from, for the record."""

    source: Path
    target: Path
    chat_format: str | None = None
    tokenizer: Path | None = None
    origin: str | None = None


def import_model(options: ImportOptions) -> int:
    """Prints the record as JSON. Returns 0; 66 for a source that cannot be imported; 73 for a target that exists or is not writable; 74 for
    another I/O error."""
    # Ends like an error, so that an interrupted import leaves nothing either.
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        record = run_import(options)
    except JobError as error:
        return _refuse(error.code, error.message)
    except Exception as error:
        inputs = [path.absolute() for path in (options.source, options.tokenizer) if path is not None]
        if (code := io_code(error, inputs)) is None:
            raise
        return _refuse(code, str(error))
    finally:
        signal.signal(signal.SIGTERM, before)
    print(json.dumps(record))
    return OK


def _refuse(code: int, message: str) -> int:
    print(f"{CLASSES[code]}: {message}", file=sys.stderr)
    return code


def run_import(options: ImportOptions) -> dict[str, Any]:
    """Returns the record. Raises JobError or OSError and leaves no target then."""
    place, target = options.source.absolute(), options.target.absolute()
    if target.exists() or target.is_symlink():
        raise JobError(OUTPUT_UNWRITABLE, f"Expected {target} to be free: an import never overwrites")
    if not place.exists():
        raise refused(f"Expected a model directory or a .gguf file at {place}, there is nothing")
    with staging_beside(target, work="import") as staging:
        record = _fill(options, place, staging)
        (staging / RECORD).write_bytes(json_bytes(record))
        digest = seal(staging, kind="policy", facts={})
        staging.rename(target)
    fsync_path(target.parent)
    return {**record, "directory": str(target), "manifest_sha256": digest}


def _fill(options: ImportOptions, place: Path, staging: Path) -> dict[str, Any]:
    # Importing torch and transformers takes seconds, so the refusals above come first.
    from longhaul_trainer.importer.chat import check_marks, find_format
    from longhaul_trainer.importer.proof import prove
    from longhaul_trainer.importer.source import EMBEDDING, HEAD, check_weights
    from longhaul_trainer.importer.texts import AGAIN
    from longhaul_trainer.weight_files import write_shards

    with _open(place) as source:
        model = _empty_model(source.config, place)
        check_weights(source, model)
        source.write_generation(staging)
        if options.tokenizer is None:
            source.write_tokenizer(staging)
        else:
            _take_tokenizer(options.tokenizer, staging)
        tokenizer = _check_tokenizer(staging, place, source.shapes[EMBEDDING][0])
        chat_format, chat_facts = find_format(staging, options.chat_format, place=options.tokenizer or place)
        with reading_tokenizer(f"tokenizer.json of {place}", AGAIN):
            prompt = check_marks(tokenizer, chat_format)
        names = [name for name, _ in model.named_parameters()]
        sizes = {name: _elements(source.shapes[name]) * source.dtypes[name].itemsize for name in names}
        write_shards(staging, sizes, _counting(source.read, len(names)))
        _write_config(model, staging, source.dtypes[EMBEDDING], place)
        proof = prove(
            staging, source.reference, vocab_size=source.shapes[EMBEDDING][0], prompt=prompt, on_progress=_say
        )
        return {
            "schema": SCHEMA,
            "source": {"kind": source.kind, "origin": options.origin, "files": source.files},
            "architecture": FAMILIES[source.config["model_type"]],
            "parameters": sum(_elements(source.shapes[name]) for name in names),
            "dtypes": sorted({str(source.dtypes[name]).removeprefix("torch.") for name in names}),
            "tied": HEAD not in names,
            "chat_format": chat_format,
            "chat": chat_facts,
            "proof": proof,
        }


def _say(text: str) -> None:
    """Prints the import's progress. The caller recognises these lines by their first word."""
    print(f"progress: {text}", file=sys.stderr, flush=True)


def _counting(read: Any, total: int) -> Any:
    """Wraps a reader of tensors so that it prints how many it has read."""
    done = 0

    def read_and_say(name: str) -> Any:
        nonlocal done
        tensor = read(name)
        done += 1
        _say(f"writing weights, {done} of {total} tensors read")
        return tensor

    return read_and_say


@contextmanager
def _open(place: Path) -> Iterator[Any]:
    from longhaul_trainer.importer.gguf_source import open_gguf
    from longhaul_trainer.importer.hf_source import PICKLES, open_directory

    with ExitStack() as stack:
        if place.is_dir():
            source, weights = open_directory(place)
            stack.enter_context(weights.reading())
            yield source
        elif place.suffix == ".gguf":
            yield stack.enter_context(open_gguf(place))
        elif place.name.endswith(PICKLES):
            raise refused(
                f"Expected safetensors or GGUF, got {place}: a pickle runs code when it is read and is refused"
            )
        elif place.suffix == ".safetensors":
            raise refused(
                f"Expected the directory of a model, got {place}: name its directory, which has config.json too"
            )
        else:
            raise refused(f"Expected a model directory or a .gguf file, got {place}")


def _empty_model(config: dict[str, Any], place: Path) -> Any:
    """The model that transformers builds from config.json, on the meta device. Raises JobError 66."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    from longhaul_trainer.hf_model import UnsupportedModel, check_layers

    try:
        values = {name: value for name, value in config.items() if name != "model_type"}
        parsed = AutoConfig.for_model(config["model_type"], **values)
        check_layers(parsed, place)
        with torch.device("meta"):
            return AutoModelForCausalLM.from_config(parsed)
    except UnsupportedModel as error:
        raise refused(f"{error}: the trainer knows no sliding windows, import a model without them") from error
    except (OSError, ImportError, MemoryError):
        raise
    except Exception as error:
        # transformers has validators of its own, and fails with any exception on fields that they pass.
        raise _no_model(error, place) from error


def _no_model(error: Exception, place: Path) -> JobError:
    why = " ".join(str(error).split())[:300]
    return refused(f"Expected config.json of {place} to describe a model: {why}; get the file again")


def _write_config(model: Any, staging: Path, dtype: Any, place: Path) -> None:
    from longhaul_trainer.step.export import finish_config

    model.config.architectures = [type(model).__name__]
    try:
        model.config.save_pretrained(staging)
    except OSError:
        raise
    except Exception as error:
        # It validates once more, with rules that reading lacks.
        raise _no_model(error, place) from error
    finish_config(staging, dtype)


def _elements(shape: list[int]) -> int:
    count = 1
    for side in shape:
        count *= side
    return count


def _take_tokenizer(directory: Path, staging: Path) -> None:
    """Of another directory, instead of the source's own, which may lack one or have a damaged one."""
    from longhaul_trainer.importer.texts import check_tokenizer_files
    from longhaul_trainer.step.export import copy_tokenizer

    if not (directory / "tokenizer.json").is_file():
        raise refused(f"Expected tokenizer.json in {directory} (--tokenizer)")
    check_tokenizer_files(directory)
    copy_tokenizer(directory, staging)


def _check_tokenizer(staging: Path, place: Path, rows: int) -> Any:
    from tokenizers import Tokenizer

    from longhaul_trainer.importer.texts import AGAIN

    path = staging / "tokenizer.json"
    if not path.is_file():
        raise refused(
            f"Expected tokenizer.json in {place}: take that of the same model with --tokenizer DIRECTORY, or write it with transformers: AutoTokenizer.from_pretrained(…).save_pretrained(…)"
        )
    with reading_tokenizer(f"tokenizer.json of {place}", AGAIN):
        tokenizer = Tokenizer.from_file(str(path))
        padding: dict[str, Any] = tokenizer.padding or {}
        largest = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)
    if tokenizer.truncation is not None or padding.get("length") or padding.get("pad_to_multiple_of"):
        raise refused(
            f"Expected a tokenizer in tokenizer.json of {place} that neither cuts nor fills texts: write null for truncation and padding there"
        )
    if largest >= rows:
        raise refused(
            f"Expected ids of the tokenizer below the embedding's {rows} rows, found {largest}: the tokenizer is another model's"
        )
    return tokenizer
