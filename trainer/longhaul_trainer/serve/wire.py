"""Requests of clients. Unknown fields and decoding fields that are not neutral get 400 with the reason."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, Field, ValidationError
from pydantic_core import PydanticCustomError

from longhaul_trainer.strict import Strict, Whole, expected, explain

MAX_SEED = 1 << 63
DEFAULT_LEASE_S = 900.0
MAX_LEASE_S = 7 * 24 * 3600.0


class HttpError(Exception):
    """An error response in the format of OpenAI-compatible servers: {"error": {message, type, code, …}}."""

    def __init__(self, status: int, code: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": {"message": message, "type": code, "code": code, **details}}


def invalid(message: str) -> HttpError:
    return HttpError(400, "invalid_request", message)


Model = TypeVar("Model", bound=Strict)


def parse(model: type[Model], body: Any) -> Model:
    """Raises HttpError 400."""
    try:
        return model.model_validate(body)
    except ValidationError as error:
        raise invalid(explain(error, model, where="")) from error


def neutral(*allowed: Any) -> AfterValidator:
    """Values that a field may have: this server never truncates or reshapes a distribution."""
    spelled = " / ".join(str(item) for item in allowed)

    def check(value: Any) -> Any:
        # True == 1 in Python, but a boolean is not accepted as a number.
        if any(value == item and isinstance(value, bool) == isinstance(item, bool) for item in allowed):
            return value
        raise PydanticCustomError("expected", "Input should be one of {spelled}", {"spelled": spelled})

    return AfterValidator(check)


TokenIds = Annotated[list[Annotated[int, Field(ge=0)]], expected("a list of token ids (numbers, not text)")]


class CompletionRequest(Strict):
    model: str
    prompt: Annotated[TokenIds, Field(min_length=1), expected("a list of at least 1 token ids (numbers, not text)")]
    max_tokens: Whole = 16
    temperature: Annotated[float, Field(ge=0, le=100), expected("a number from 0 to 100")] = 1.0
    seed: Annotated[int, Field(ge=-MAX_SEED, lt=MAX_SEED), expected("a 64-bit integer")] | None = None
    stop_token_ids: TokenIds | None = None
    cache_salt: (
        Annotated[str, Field(min_length=1, max_length=1024), expected("a string of 1 to 1,024 characters")] | None
    ) = None
    request_id: str | None = None
    logprobs: Annotated[Any, neutral(None, 0)] = None
    prompt_logprobs: Annotated[Any, neutral(None, 0)] = None
    return_token_ids: bool | None = None
    return_weight_versions: bool = False
    skip_special_tokens: bool = True

    n: Annotated[Any, neutral(1)] = 1
    best_of: Annotated[Any, neutral(1, None)] = None
    top_p: Annotated[Any, neutral(1)] = 1
    top_k: Annotated[Any, neutral(-1, 0)] = -1
    min_p: Annotated[Any, neutral(0)] = 0
    repetition_penalty: Annotated[Any, neutral(1)] = 1
    presence_penalty: Annotated[Any, neutral(0)] = 0
    frequency_penalty: Annotated[Any, neutral(0)] = 0
    length_penalty: Annotated[Any, neutral(1)] = 1
    watermarking: Annotated[Any, neutral(None, False)] = None
    logit_bias: Annotated[Any, neutral(None, {})] = None
    min_tokens: Annotated[Any, neutral(0)] = 0
    ignore_eos: Annotated[Any, neutral(False)] = False
    include_stop_str_in_output: Annotated[Any, neutral(False)] = False
    stop: Annotated[Any, neutral(None, [])] = None
    stream: Annotated[Any, neutral(False)] = False
    echo: Annotated[Any, neutral(False)] = False
    suffix: Annotated[Any, neutral(None, "")] = None
    # These change only the text, which training clients do not read.
    spaces_between_special_tokens: bool = True
    add_special_tokens: bool = True
    user: Any = None


class TokenizeRequest(Strict):
    model: str
    prompt: str
    add_special_tokens: bool = True
    return_token_strs: bool = False


class DetokenizeRequest(Strict):
    model: str
    tokens: TokenIds


class ReloadRequest(Strict):
    path: str
    version: str
    manifest_sha256: str | None = None
    holder: str | None = None
    lease_s: Annotated[
        float, Field(gt=0, le=MAX_LEASE_S), expected(f"a number of seconds in (0, {MAX_LEASE_S:.0f}]")
    ] = DEFAULT_LEASE_S


class ReleaseRequest(Strict):
    holder: str
    version: str | None = None


class FaultsRequest(Strict):
    faults: list[str]
