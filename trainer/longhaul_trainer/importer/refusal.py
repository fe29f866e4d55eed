"""Supported model families, and the error of an import. Its message says where, what, and how to fix it."""

from __future__ import annotations

from longhaul_trainer.failures import INPUT_UNUSABLE, JobError

FAMILIES = {"qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM", "llama": "LlamaForCausalLM"}


def refused(message: str) -> JobError:
    return JobError(INPUT_UNUSABLE, message)
