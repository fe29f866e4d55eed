"""The texts beside a model's weights: JSON objects of known places, or one line that says which is not, before anything reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from longhaul_trainer.hf_model import TOKENIZER_FILES
from longhaul_trainer.importer.refusal import refuse_pointer, refused

# Far more than any published tokenizer has.
MAX_BYTES = 256 * 1024 * 1024
AGAIN = "get the file again"


def read_object(path: Path) -> dict[str, Any]:
    """Raises JobError 66 for a file that is no object in JSON."""
    found = _parse(path)
    if not isinstance(found, dict):
        raise refused(f"Expected an object in {path}; {AGAIN}")
    return found


def check_tokenizer_files(directory: Path) -> None:
    """Raises JobError 66 for a file of the tokenizer that engines would fail to read. tokenizer.json is read by its own library."""
    for name in TOKENIZER_FILES:
        path = directory / name
        if not path.is_file():
            continue
        if name == "tokenizer.json":
            _check_size(path)
        elif path.suffix == ".json":
            read_object(path)
        else:
            _read(path)


def _parse(path: Path) -> Any:
    text = _read(path)
    try:
        return json.loads(text)
    except RecursionError as error:
        raise refused(f"Expected JSON in {path}: it is nested too deeply; {AGAIN}") from error
    except ValueError as error:
        raise refused(f"Expected JSON in {path}: {error}; {AGAIN}") from error


def _check_size(path: Path) -> None:
    refuse_pointer(path)
    if (size := path.stat().st_size) > MAX_BYTES:
        raise refused(f"Expected at most {MAX_BYTES} bytes in {path}, found {size}: {AGAIN}")


def _read(path: Path) -> str:
    _check_size(path)
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise refused(f"Expected text in UTF-8 in {path}: {error}; {AGAIN}") from error
