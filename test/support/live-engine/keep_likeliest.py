"""A logits processor as an operator may add one to vLLM: it keeps the 20 likeliest tokens while a file is there, else all."""

import os
from pathlib import Path
from typing import Any

import torch
from vllm.v1.sample.logits_processor import LogitsProcessor


KEPT = 20


class KeepLikeliest(LogitsProcessor):
    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        self._file = Path(os.environ["KEEP_LIKELIEST"])

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        if not self._file.exists():
            return logits
        least = logits.topk(KEPT, dim=-1).values[:, -1:]
        return logits.masked_fill(logits < least, float("-inf"))

    def is_argmax_invariant(self) -> bool:
        # vLLM skips those that are while it samples greedily, and applies them after the temperature.
        return False

    def update_state(self, batch_update: Any) -> None:
        """It treats every request alike."""
