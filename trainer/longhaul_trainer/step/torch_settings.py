"""Process-wide settings of torch."""

from __future__ import annotations

import os

import torch

from longhaul_trainer.step.spec import Execution


def set_torch(execution: Execution) -> None:
    if execution.threads is not None:
        torch.set_num_threads(execution.threads)
    if execution.deterministic:
        # cuBLAS reads this once, on first use.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(execution.deterministic)
    # Filling fresh memory guards against reads of uninitialised tensors. The trainer has none, and it costs several percent.
    torch.utils.deterministic.fill_uninitialized_memory = False  # pyright: ignore[reportAttributeAccessIssue]
