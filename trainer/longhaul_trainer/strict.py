"""Strict models of JSON objects: every field must be known, typed and within bounds. One line names each violation and what is allowed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, WrapValidator
from pydantic_core import ErrorDetails, PydanticCustomError


class Strict(BaseModel):
    """A value read from JSON. Types are not converted. Unknown fields are refused, because an ignored switch would be a silent no-op."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


def expected(text: str) -> WrapValidator:
    """For every invalid value the error says `text`: what the value must be."""

    def check(value: Any, validate: Callable[[Any], Any]) -> Any:
        try:
            return validate(value)
        except ValueError as error:
            raise PydanticCustomError("expected", "Input should be {text}", {"text": text}) from error

    return WrapValidator(check)


Whole = Annotated[int, Field(ge=0), expected("an integer of at least 0")]
Count = Annotated[int, Field(ge=1), expected("an integer of at least 1")]
NotNegative = Annotated[float, Field(ge=0), expected("a number of at least 0")]
Positive = Annotated[float, Field(gt=0), expected("a number above 0")]


def off_or(text: str) -> WrapValidator:
    """The word "none" switches the field off. Null does not: a lost value must not pass for a choice."""

    def check(value: Any, validate: Callable[[Any], Any]) -> Any:
        if value == "none":
            return None
        try:
            if value is not None:
                return validate(value)
        except ValueError as error:
            raise PydanticCustomError("expected", "Input should be {text}", {"text": text}) from error
        raise PydanticCustomError("expected", "Input should be {text}", {"text": text})

    return WrapValidator(check)


def explain(error: ValidationError, model: type[BaseModel], *, where: str) -> str:
    """All violations, in one line. `where` names the object; if empty, messages name the fields only."""
    unknown: dict[tuple[int | str, ...], list[str]] = {}
    wrong = []
    for issue in error.errors(include_url=False):
        if issue["type"] == "default_factory_not_called":
            # A default that follows from an invalid field, which is named itself.
            continue
        if issue["type"] == "extra_forbidden":
            # Escaped: a name may hold a line break.
            unknown.setdefault(issue["loc"][:-1], []).append(repr(issue["loc"][-1])[1:-1])
        else:
            wrong.append(_explain(issue, where))
    for path, names in unknown.items():
        fields = _model_at(model, path).model_fields
        allowed = ", ".join(sorted(field.alias or name for name, field in fields.items()))
        wrong.append(
            f"Unknown or unused field(s){_inside(where, path)}: {', '.join(sorted(names))} (allowed are {allowed})"
        )
    return "; ".join(wrong)


def _explain(issue: ErrorDetails, where: str) -> str:
    if issue["type"] == "value_error":
        # A validator of the model raised it and names the fields itself.
        return str(issue.get("ctx", {})["error"])
    *path, name = issue["loc"] or ("",)
    if issue["type"] == "missing":
        return f"Expected field `{name}`{_inside(where, path)}"
    found = f"got {issue['input']!r:.80}"
    if issue["type"] == "model_type":
        return f"Expected {'.'.join(str(part) for part in (where, *issue['loc']) if part) or 'the body'} to be an object, {found}"
    return f"Expected `{name}`{_inside(where, path)} to be {issue['msg'].removeprefix('Input should be ')}, {found}"


def _inside(where: str, path: Iterable[int | str]) -> str:
    place = ".".join(str(part) for part in (where, *path) if part)
    return f" in {place}" if place else ""


def _model_at(model: type[BaseModel], path: Iterable[int | str]) -> type[BaseModel]:
    for name in path:
        annotation = model.model_fields[str(name)].annotation
        model = next(
            kind
            for kind in (annotation, *get_args(annotation))
            if isinstance(kind, type) and issubclass(kind, BaseModel)
        )
    return model
