"""Requests as they arrive: every field known, every decoding field neutral, else 400 with the reason."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

MAX_SEED = 1 << 63


class HttpError(Exception):
    """An answer in the shape OpenAI-compatible servers use: {"error": {message, type, code, …}}."""

    def __init__(self, status: int, code: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": {"message": message, "type": code, "code": code, **details}}


def invalid(message: str) -> HttpError:
    return HttpError(400, "invalid_request", message)


# What a field must be when it is sent: this server never truncates or reshapes a distribution.
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "best_of": (1, None),
    "top_p": (1,),
    "top_k": (-1, 0),
    "min_p": (0,),
    "repetition_penalty": (1,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "length_penalty": (1,),
    "watermarking": (None, False),
    "logit_bias": (None, {}),
    "min_tokens": (0,),
    "ignore_eos": (False,),
    "include_stop_str_in_output": (False,),
    "stop": (None, []),
    "stream": (False,),
    "echo": (False,),
    "suffix": (None, ""),
    "logprobs": (None, 0),
    "prompt_logprobs": (None, 0),
    "return_token_ids": (None, False, True),
    "return_weight_versions": (False, True),
    "skip_special_tokens": (False, True),
    "spaces_between_special_tokens": (False, True),
    "add_special_tokens": (False, True),
    "user": (),
}
READ = {"model", "prompt", "max_tokens", "temperature", "seed", "stop_token_ids", "cache_salt", "request_id"}


@dataclass(frozen=True)
class CompletionRequest:
    model: str
    prompt: list[int]
    max_tokens: int
    temperature: float
    seed: int
    stop_token_ids: frozenset[int]
    cache_salt: str
    request_id: str
    wants_logprobs: bool
    wants_prompt_logprobs: bool
    wants_token_ids: bool
    wants_weight_versions: bool
    skip_special_tokens: bool


def parse_object(body: Any, *, known: set[str]) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise invalid(f"Expected a JSON object, got {type(body).__name__}")
    if unknown := sorted(set(body) - known):
        raise invalid(f"Unknown field(s) {', '.join(unknown)}: this server ignores nothing")
    return body


def parse_completion(body: Any) -> CompletionRequest:
    fields = parse_object(body, known=READ | set(NEUTRAL))
    for name, allowed in NEUTRAL.items():
        if name in fields and allowed and not _is_one_of(fields[name], allowed):
            raise invalid(f"Expected `{name}` to be one of {_spelled(allowed)}, got {fields[name]!r}")
    salt = fields.get("cache_salt")
    if salt is not None and not (isinstance(salt, str) and 1 <= len(salt) <= 1024):
        raise invalid("Expected `cache_salt` to be a string of 1 to 1,024 characters")
    request_id = fields.get("request_id")
    if request_id is not None and not isinstance(request_id, str):
        raise invalid("Expected `request_id` to be a string")
    return CompletionRequest(
        model=text_field(fields, "model"),
        prompt=id_list(fields.get("prompt"), "prompt", least=1),
        max_tokens=whole_number(fields.get("max_tokens", 16), "max_tokens", least=0),
        temperature=_temperature(fields.get("temperature", 1.0)),
        seed=_seed(fields.get("seed")),
        stop_token_ids=frozenset(id_list(fields.get("stop_token_ids") or [], "stop_token_ids", least=0)),
        cache_salt=salt or "",
        request_id=request_id or secrets.token_hex(8),
        wants_logprobs=fields.get("logprobs") is not None,
        wants_prompt_logprobs=fields.get("prompt_logprobs") is not None,
        wants_token_ids=bool(fields.get("return_token_ids")),
        wants_weight_versions=fields.get("return_weight_versions", False),
        skip_special_tokens=fields.get("skip_special_tokens", True),
    )


def text_field(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise invalid(f"Expected `{name}` to be a string, got {value!r}")
    return value


def id_list(value: Any, name: str, *, least: int) -> list[int]:
    if not isinstance(value, list) or len(value) < least or not all(type(item) is int and item >= 0 for item in value):
        raise invalid(f"Expected `{name}` to be a list of at least {least} token ids (numbers, not text)")
    return value


def whole_number(value: Any, name: str, *, least: int) -> int:
    if type(value) is not int or value < least:
        raise invalid(f"Expected `{name}` to be an integer of at least {least}, got {value!r}")
    return value


def _temperature(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 100:
        raise invalid(f"Expected `temperature` to be a number from 0 to 100, got {value!r}")
    return float(value)


def _seed(value: Any) -> int:
    if value is None:
        return secrets.randbits(62)
    if type(value) is not int or not -MAX_SEED <= value < MAX_SEED:
        raise invalid(f"Expected `seed` to be a 64-bit integer, got {value!r}")
    return value


def _is_one_of(value: Any, allowed: tuple[Any, ...]) -> bool:
    # In Python True == 1; a boolean is still no number to us.
    return any(value == item and isinstance(value, bool) == isinstance(item, bool) for item in allowed)


def _spelled(allowed: tuple[Any, ...]) -> str:
    return " / ".join(str(item) for item in allowed)
