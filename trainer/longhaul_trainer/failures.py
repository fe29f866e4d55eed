"""Exit codes of a training job. The pipeline decides by them what to do next."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable
from pathlib import Path

OK = 0
INVALID_SPEC = 64
BATCH_REFUSED = 65
INPUT_UNUSABLE = 66
UNAVAILABLE = 69
INTERNAL = 70
OUTPUT_UNWRITABLE = 73
IO_ERROR = 74
STOPPED = 75
FENCED = 76
DIVERGED = 77
OUT_OF_MEMORY = 78

CLASSES = {
    OK: "ok",
    INVALID_SPEC: "invalid-spec",
    BATCH_REFUSED: "batch-refused",
    INPUT_UNUSABLE: "input-unusable",
    UNAVAILABLE: "unavailable",
    INTERNAL: "internal",
    OUTPUT_UNWRITABLE: "output-unwritable",
    IO_ERROR: "io-error",
    STOPPED: "stopped",
    FENCED: "fenced",
    DIVERGED: "diverged",
    OUT_OF_MEMORY: "out-of-memory",
}


class JobError(Exception):
    """Ends the job with exit code `code`. The message says what was expected and what was found."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class LostRanks(JobError):
    """The ranks of a job cannot reach each other: an infrastructure failure, which the pipeline retries."""

    def __init__(self, message: str) -> None:
        super().__init__(UNAVAILABLE, message)


_FORBIDDEN = (errno.EACCES, errno.EPERM)
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, *_FORBIDDEN)
_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, *_FORBIDDEN)


def io_code(error: Exception, inputs: Iterable[Path] = ()) -> int | None:
    """66: permission denied within `inputs`; 73: output not writable or disk full; 74: another I/O error; None: not an I/O error.

    `inputs`: absolute paths that the job only reads. The kernel reports the same errno for inputs and outputs.
    """
    number = _errno_of(error)
    if number is None:
        return None
    if number in _FORBIDDEN and _is_within(error, inputs):
        return INPUT_UNUSABLE
    return OUTPUT_UNWRITABLE if number in _UNWRITABLE else IO_ERROR


def reading_code(error: Exception, refusal: int) -> int:
    """Exit code of an input that could not be read: `refusal` if it is missing, forbidden or wrong, 74 if the read itself failed.

    A disk or a network mount that fails now may work for the next attempt, and no other attempt follows a refusal.
    """
    number = _errno_of(error)
    return refusal if number is None or number in _ABSENT else IO_ERROR


def _is_within(error: Exception, places: Iterable[Path]) -> bool:
    name = getattr(error, "filename", None)
    return isinstance(name, str) and any(Path(name).absolute().is_relative_to(place) for place in places)


def _errno_of(error: Exception) -> int | None:
    """safetensors gives the errno only inside its message."""
    if isinstance(error, OSError):
        return error.errno
    found = re.search(r"\(os error (\d+)\)", str(error)) if type(error).__name__ == "SafetensorError" else None
    return None if found is None else int(found[1])
