"""Fields of the policy server's requests, checked without a server."""

from __future__ import annotations

from typing import Any

import pytest

from longhaul_trainer.serve import wire
from longhaul_trainer.serve.wire import CompletionRequest, HttpError, ReloadRequest, parse

LEAST: dict[str, Any] = {"model": "v0", "prompt": [1, 2]}


def refused(model: Any, body: Any) -> str:
    with pytest.raises(HttpError) as caught:
        parse(model, body)
    assert caught.value.status == 400
    assert caught.value.body["error"]["code"] == "invalid_request"
    return caught.value.body["error"]["message"]


def test_defaults_of_a_completion() -> None:
    asked = parse(CompletionRequest, LEAST)
    assert (asked.max_tokens, asked.temperature, asked.seed, asked.cache_salt) == (16, 1.0, None, None)
    assert (asked.logprobs, asked.prompt_logprobs, asked.return_token_ids) == (None, None, None)
    assert (asked.return_weight_versions, asked.skip_special_tokens) == (False, True)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("max_tokens", [0, 5]),
        ("temperature", [0, 0.5, 100]),
        ("seed", [None, -(1 << 63), (1 << 63) - 1]),
        ("stop_token_ids", [None, [], [3]]),
        ("cache_salt", [None, "x", "x" * 1024]),
        ("request_id", [None, "r"]),
        ("logprobs", [None, 0]),
        ("return_token_ids", [None, True, False]),
        ("top_k", [-1, 0]),
        ("top_p", [1, 1.0]),
        ("stop", [None, []]),
        ("logit_bias", [None, {}]),
        ("suffix", [None, ""]),
        ("watermarking", [None, False]),
        ("best_of", [None, 1]),
        ("user", ["me", None]),
    ],
)
def test_valid_completion_requests_are_accepted(name: str, values: list[Any]) -> None:
    for value in values:
        assert getattr(parse(CompletionRequest, {**LEAST, name: value}), name) == value


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("model", 1, "`model` to be a valid string, got 1"),
        ("prompt", "text", "`prompt` to be a list of at least 1 token ids (numbers, not text), got 'text'"),
        ("prompt", [], "`prompt` to be a list of at least 1 token ids (numbers, not text), got []"),
        ("prompt", [-1], "`prompt` to be a list of at least 1 token ids (numbers, not text), got [-1]"),
        ("prompt", [True], "`prompt` to be a list of at least 1 token ids (numbers, not text), got [True]"),
        ("prompt", [1.0], "`prompt` to be a list of at least 1 token ids (numbers, not text), got [1.0]"),
        ("max_tokens", -1, "`max_tokens` to be an integer of at least 0, got -1"),
        ("max_tokens", True, "`max_tokens` to be an integer of at least 0, got True"),
        ("temperature", -1, "`temperature` to be a number from 0 to 100, got -1"),
        ("temperature", float("nan"), "`temperature` to be a number from 0 to 100, got nan"),
        ("temperature", True, "`temperature` to be a number from 0 to 100, got True"),
        ("seed", "x", "`seed` to be a 64-bit integer, got 'x'"),
        ("seed", 1 << 63, f"`seed` to be a 64-bit integer, got {1 << 63}"),
        ("stop_token_ids", ["x"], "`stop_token_ids` to be a list of token ids (numbers, not text), got ['x']"),
        ("cache_salt", "", "`cache_salt` to be a string of 1 to 1,024 characters, got ''"),
        ("request_id", 1, "`request_id` to be a valid string, got 1"),
        ("top_k", 20, "`top_k` to be one of -1 / 0, got 20"),
        ("n", True, "`n` to be one of 1, got True"),
        ("stream", 0, "`stream` to be one of False, got 0"),
        ("logprobs", 5, "`logprobs` to be one of None / 0, got 5"),
        ("logprobs", False, "`logprobs` to be one of None / 0, got False"),
        ("skip_special_tokens", None, "`skip_special_tokens` to be a valid boolean, got None"),
        ("return_weight_versions", 1, "`return_weight_versions` to be a valid boolean, got 1"),
    ],
)
def test_invalid_completion_requests_are_refused(name: str, value: Any, expected: str) -> None:
    assert refused(CompletionRequest, {**LEAST, name: value}) == f"Expected {expected}"


def test_every_field_of_every_request_is_known_and_none_is_ignored() -> None:
    for model in vars(wire).values():
        if isinstance(model, type) and issubclass(model, wire.Strict) and model is not wire.Strict:
            assert "Unknown or unused field(s): beam_width (allowed are " in refused(model, {"beam_width": 4})
            assert refused(model, [1]) == "Expected the body to be an object, got [1]"
    assert refused(CompletionRequest, {"prompt": [1]}) == "Expected field `model`"


@pytest.mark.parametrize("value", [0, -1, 7 * 24 * 3600 + 1, True, "9", float("inf")])
def test_a_lease_has_a_maximum_duration(value: Any) -> None:
    body = {"path": "/p", "version": "v0", "lease_s": value}
    assert refused(ReloadRequest, body).startswith("Expected `lease_s` to be a number of seconds in (0, 604800], got ")
    assert parse(ReloadRequest, {**body, "lease_s": 604800}).lease_s == 604800
    assert parse(ReloadRequest, {"path": "/p", "version": "v0"}).lease_s == 900
