"""Exit codes of a training job: the one language in which it tells the pipeline what to do next."""

from __future__ import annotations

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
    """Ends the job with a known exit code. The message says what was expected and what came."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
