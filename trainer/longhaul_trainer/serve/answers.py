"""Responses in vLLM's format from a finished generation."""

from __future__ import annotations

import secrets
import time
from typing import Any

from longhaul_trainer.serve.engine import Engine, Generation
from longhaul_trainer.serve.wire import CompletionRequest


def completion_answer(request: CompletionRequest, engine: Engine, done: Generation) -> dict[str, Any]:
    prompt_tokens, completion_tokens = len(done.prompt), len(done.ids)
    choice: dict[str, Any] = {
        "index": 0,
        "text": completion_text(engine, done, request.skip_special_tokens),
        "logprobs": _logprobs(engine, done) if request.logprobs is not None else None,
        "finish_reason": done.finish_reason,
        "stop_reason": done.stop_reason,
        "token_ids": done.ids if request.return_token_ids else None,
        "prompt_token_ids": done.prompt if request.return_token_ids else None,
        "prompt_logprobs": _prompt_logprobs(done),
        # A request finishes on the weights it started with, so there is one span, in vLLM's format.
        "weight_versions": (
            [{"version": engine.version, "start": 0, "end": completion_tokens}]
            if request.return_weight_versions
            else None
        ),
    }
    return {
        "id": f"cmpl-{request.request_id or secrets.token_hex(8)}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": engine.version,
        "choices": [choice],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
            "prompt_tokens_details": {"cached_tokens": done.cached_tokens},
        },
    }


def completion_text(engine: Engine, done: Generation, skip_special_tokens: bool) -> str:
    """The completion's text without its stop token, like vLLM's."""
    ids = done.ids[:-1] if done.finish_reason == "stop" else done.ids
    return engine.tokenizer.decode(ids, skip_special_tokens=skip_special_tokens)


def token_text(engine: Engine, token: int) -> str:
    return engine.tokenizer.decode([token], skip_special_tokens=False)


def _logprobs(engine: Engine, done: Generation) -> dict[str, Any]:
    tokens = [token_text(engine, token) for token in done.ids]
    offsets, at = [], 0
    for text in tokens:
        offsets.append(at)
        at += len(text)
    return {
        "tokens": tokens,
        "token_logprobs": done.logprobs,
        "top_logprobs": [{text: value} for text, value in zip(tokens, done.logprobs, strict=True)],
        "text_offset": offsets,
    }


def _prompt_logprobs(done: Generation) -> list[dict[str, Any] | None] | None:
    if done.prompt_logprobs is None:
        return None
    scored = zip(done.prompt[1:], done.prompt_logprobs, strict=True)
    return [None, *({str(token): {"logprob": logprob}} for token, logprob in scored)]
