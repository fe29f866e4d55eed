"""A logits processor that makes a running vLLM lie in the way that the file LIE_FILE names, request by request; an empty one changes nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import torch
from vllm import SamplingParams
from vllm.v1.sample.logits_processor import AdapterLogitsProcessor

TOP_K = 20


class Lies(AdapterLogitsProcessor):
    def is_argmax_invariant(self) -> bool:
        # vLLM then asks it after the temperature, where its own top-k stands.
        return True

    def new_req_logits_processor(
        self, params: SamplingParams
    ) -> Callable[[list[int], torch.Tensor], torch.Tensor] | None:
        lie = Path(os.environ["LIE_FILE"]).read_text()
        if lie == "top-k":
            return lambda _, logits: logits.masked_fill(logits < logits.topk(TOP_K).values[-1], float("-inf"))
        if lie == "ignored temperature":
            return lambda _, logits: logits * params.temperature
        if lie == "":
            return None
        raise ValueError(f"Expected a lie, got {lie}")
