"""SGLang's own judgment of requests, from the classes and the source of the installed package."""

from __future__ import annotations

import argparse
import ast
import dataclasses
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from absent import assert_real, stand_in

stand_in(
    [
        *("sglang.srt.configs", "sglang.srt.mem_cache", "sglang.srt.hardware_backend", "sglang.srt.distributed"),
        *("sglang.srt.managers.schedule_batch", "sglang.kernels", "sglang.srt.layers", "sglang.srt.models"),
        *("sglang.srt.utils.hf_transformers_patches", "sglang.srt.model_executor", "sglang.srt.function_call"),
        *("sglang.srt.parser.jinja_template_utils", "sglang.srt.parser.conversation"),
    ]
)

import sglang  # noqa: E402
from msgspec.structs import fields as struct_fields  # noqa: E402
from pydantic import TypeAdapter  # noqa: E402
from sglang.srt.entrypoints.api_contract import generate_contract_error  # noqa: E402
from sglang.srt.entrypoints.openai.protocol import TokenizeRequest, TokenizeResponse  # noqa: E402
from sglang.srt.environ import envs  # noqa: E402
from sglang.srt.managers import io_struct  # noqa: E402
from sglang.srt.sampling.sampling_params import SamplingParams  # noqa: E402
from sglang.srt.server_args import ServerArgs  # noqa: E402
from sglang.srt.utils.weight_versions import WeightVersionSpan, add_weight_versions_to_meta_info  # noqa: E402

assert_real(generate_contract_error, TokenizeRequest, io_struct.GenerateReqInput, SamplingParams, ServerArgs)
SOURCE = Path(sglang.__file__).parent / "srt"
VOCABULARY = 1000
# `--preferred-sampling-params` of a server: they fill what a request leaves out.
BIASED = {
    "temperature": 0.6,
    "top_p": 0.8,
    "top_k": 20,
    "min_p": 0.1,
    "repetition_penalty": 1.05,
    "presence_penalty": 1.5,
    "frequency_penalty": 0.5,
    "skip_special_tokens": True,
    "min_new_tokens": 4,
    "max_new_tokens": 7,
    "ignore_eos": True,
    "n": 2,
    "stop": ["x"],
    "stop_token_ids": [9],
    "no_stop_trim": True,
    "spaces_between_special_tokens": True,
    "sampling_seed": 3,
    "logit_bias": {"1": -100.0},
    "stop_regex": ["y"],
}


def judge(method: str, path: str, query: dict[str, Any], body: Any) -> dict[str, Any]:
    """What the server would make of a request. `unknown` are fields that it would ignore in silence."""
    routes = _routes()
    if (method, path) not in routes:
        raise LookupError(f"no route {method} {path}")
    name = routes[(method, path)]
    if path == "/generate":
        return _judge_generate(body)
    if path == "/tokenize":
        parsed = TokenizeRequest.model_validate(body)
        return {"unknown": sorted(parsed.model_extra or {}), "read": parsed.model_dump(exclude={"messages", "tools"})}
    if name is None:
        return {"unknown": sorted({*query, *(body or {})})}
    model = getattr(io_struct, name)
    TypeAdapter(model).validate_python(body)
    return {"unknown": sorted(set(body) - {field.name for field in struct_fields(model)} | set(query))}


def _judge_generate(body: dict[str, Any]) -> dict[str, Any]:
    if (refused := generate_contract_error(body)) is not None:
        raise ValueError(refused)
    parsed = TypeAdapter(io_struct.GenerateReqInput).validate_python(body)
    unknown = set(body) - {field.name for field in dataclasses.fields(parsed)}
    # As the tokenizer process puts them together.
    params = SamplingParams(**{**BIASED, **parsed.sampling_params})
    params.verify(VOCABULARY)
    own = {field.name for field in struct_fields(SamplingParams)}
    left_out = sorted(name for name in BIASED if name not in parsed.sampling_params)
    read = {name: getattr(params, name) for name in sorted(own & set(BIASED))}
    asked = {name: getattr(parsed, name) for name in body if name not in ("input_ids", "sampling_params")}
    return {"unknown": sorted(unknown), "read": {**read, **asked}, "left_to_server": left_out}


@cache
def _routes() -> dict[tuple[str, str], str | None]:
    """(method, path) → class of the body, read from the decorators of the server's module, which needs a GPU to import."""
    found: dict[tuple[str, str], str | None] = {}
    for node in ast.walk(ast.parse((SOURCE / "entrypoints/http_server.py").read_text())):
        if not isinstance(node, ast.AsyncFunctionDef):
            continue
        for decorator in node.decorator_list:
            if not (isinstance(decorator, ast.Call) and ast.unparse(decorator.func).startswith("app.")):
                continue
            if not (decorator.args and isinstance(decorator.args[0], ast.Constant)):
                continue
            verb = ast.unparse(decorator.func).removeprefix("app.")
            listed = [ast.literal_eval(word.value) for word in decorator.keywords if word.arg == "methods"]
            methods = listed[0] if listed else [verb.upper()]
            for one in methods:
                found[(one, ast.literal_eval(decorator.args[0]))] = _body_class(node)
    assert found[("POST", "/generate")] == "GenerateReqInput"
    return found


def _body_class(node: ast.AsyncFunctionDef) -> str | None:
    for argument in node.args.args:
        spelled = "" if argument.annotation is None else ast.unparse(argument.annotation)
        for word in spelled.replace("[", " ").replace("]", " ").replace(",", " ").split():
            if dataclasses.is_dataclass(getattr(io_struct, word, None)) or word.endswith("ReqInput"):
                return word
    return None


def answer(what: str, version: str) -> Any:
    """An answer as the server writes it. Its names are checked against the server's source: it has no class for them."""
    if what == "tokens":
        return TokenizeResponse(tokens=[5, 6], count=2, max_model_len=8).model_dump(mode="json")
    if what == "models":
        known = _keys("entrypoints/http_server.py", "model_info")
        return {name: version if name == "weight_version" else None for name in known}
    if what == "updated":
        known = _keys("entrypoints/http_server.py", "update_weights_from_disk")
        return {name: {"success": True, "message": "ok"}.get(name, 0) for name in known}
    meta: dict[str, Any] = {
        "id": "r",
        "finish_reason": {"type": "stop", "matched": 2},
        "prompt_tokens": 3,
        "weight_version": version,
        "input_token_logprobs": [],
        "output_token_logprobs": [(-0.5, 8, None), (-0.25, 2, None)],
        "completion_tokens": 2,
        "cached_tokens": 0,
    }
    if what == "score":
        meta["input_token_logprobs"] = [(None, 5, None), (-1.5, 6, None), (-1.5, 7, None)]
    add_weight_versions_to_meta_info(meta, [WeightVersionSpan(version=version, start=0, end=2)], 2)
    source = (SOURCE / "managers/tokenizer_manager.py").read_text()
    told = {"text": "x", "output_ids": [8, 2], "prompt_token_ids": [5, 6, 7], "meta_info": meta}
    for name in [*told, *meta]:
        assert f'"{name}"' in source or name == "weight_versions", f"SGLang no longer answers {name}"
    return told


def _keys(module: str, function: str) -> list[str]:
    """Names in the dictionary that a route answers with."""
    tree = ast.parse((SOURCE / module).read_text())
    node = next(node for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef) and node.name == function)
    table = next(inner for inner in ast.walk(node) if isinstance(inner, ast.Dict))
    return [key.value for key in table.keys if isinstance(key, ast.Constant)]


def parse(command: list[str]) -> dict[str, Any]:
    """What the server's own parser makes of the arguments behind `sglang.launch_server`. A wrong flag ends the process."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    ServerArgs.add_cli_args(parser)
    return {name: value for name, value in vars(parser.parse_args(command)).items() if _is_plain(value)}


def longest(config: dict[str, Any], overrides: dict[str, Any], asked: int) -> int:
    """Tokens that a model with this config.json reaches by the server's own rule, which is cut out of a module that needs
    transformers; `asked` beyond it is refused unless a variable allows it."""
    tree = ast.parse((SOURCE / "utils/hf_transformers/common.py").read_text())
    wanted = [
        node
        for node in tree.body
        if (isinstance(node, ast.FunctionDef) and node.name == "get_context_length")
        or (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "CONTEXT_LENGTH_KEYS")
    ]
    assert len(wanted) == 2
    scope: dict[str, Any] = {}
    exec(compile(ast.Module(body=wanted, type_ignores=[]), "sglang", "exec"), scope)
    read = SimpleNamespace(**{**config, **overrides})
    # As transformers 5 has it: one under two names.
    read.rope_scaling = read.rope_parameters
    reach = scope["get_context_length"](read)
    if asked > reach:
        raise ValueError(f"context length {asked} is greater than the derived {reach}")
    return asked


def environment() -> list[str]:
    return sorted(name for name in dir(envs) if name.isupper())


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str | list)
