"""Supported model families, and the error of an import. Its message says where, what, and how to fix it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from longhaul_trainer.failures import INPUT_UNUSABLE, JobError

FAMILIES = {"qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM", "llama": "LlamaForCausalLM"}


def refused(message: str) -> JobError:
    return JobError(INPUT_UNUSABLE, message)


POINTER = b"version https://git-lfs"


def refuse_pointer(path: Path) -> None:
    """Raises JobError 66 for what a clone without Git LFS has in the place of a large file."""
    with path.open("rb") as file:
        if file.read(len(POINTER)) == POINTER:
            raise refused(
                f"Expected the file itself at {path}, found a pointer of Git LFS: fetch it with git lfs pull in its directory"
            )


@contextmanager
def reading_tokenizer(place: str, remedy: str) -> Iterator[None]:
    """Raises JobError 66 for whatever the library of tokenizers says of one that it cannot use: it raises plain Exceptions, and what it
    has not thought of ends as a panic, which is none."""
    try:
        yield
    except (JobError, OSError, MemoryError):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        why = " ".join(str(error).split())[:300]
        raise refused(f"Expected a tokenizer in {place}: {why}; {remedy}") from error
