"""vLLM's own judgment of requests, from the classes and routes of the installed package."""

from __future__ import annotations

import ast
import inspect
import re
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from absent import assert_real, stand_in

stand_in(
    [
        *("vllm.model_executor", "vllm.distributed", "vllm._custom_ops", "vllm.kernels", "vllm.platforms"),
        *("vllm.v1.attention", "vllm.v1.worker", "vllm.v1.executor", "vllm.triton_utils", "vllm.compilation"),
        *("vllm.ir", "vllm.env_override", "vllm.multimodal", "vllm.plugins", "vllm.ray", "vllm.transformers_utils"),
        *("vllm.tokenizers", "vllm.lora", "vllm.parser", "vllm.reasoning", "vllm.tool_parsers"),
        *("vllm.renderers.chat_utils", "vllm.config.quantization"),
    ]
)

import vllm  # noqa: E402
import vllm.envs  # noqa: E402
import vllm.platforms  # noqa: E402

# Options are asked for on a machine that has a GPU.
vllm.platforms.current_platform.device_type = "cuda"

from vllm.config import model as model_config  # noqa: E402
from vllm.entrypoints.common.cli_args import make_arg_parser  # noqa: E402
from vllm.entrypoints.openai.completion.protocol import (  # noqa: E402
    CompletionLogProbs,
    CompletionRequest,
    CompletionResponse,
    CompletionResponseChoice,
)
from vllm.entrypoints.rl.online.api_router import router as rl_router  # noqa: E402
from vllm.entrypoints.rl.online.api_router import weight_info  # noqa: E402
from vllm.entrypoints.serve.dev.rpc.api_router import collective_rpc  # noqa: E402
from vllm.entrypoints.serve.dev.sleep.api_router import is_sleeping  # noqa: E402
from vllm.entrypoints.serve.dev.sleep.api_router import router as sleep_router  # noqa: E402
from vllm.entrypoints.serve.engine.protocol import ModelCard, ModelList, UsageInfo  # noqa: E402
from vllm.entrypoints.serve.tokenize.protocol import TokenizeCompletionRequest, TokenizeResponse  # noqa: E402
from vllm.logprobs import Logprob  # noqa: E402
from vllm.outputs import WeightVersionSpan  # noqa: E402
from vllm.utils.argparse_utils import FlexibleArgumentParser  # noqa: E402

assert_real(model_config._get_and_verify_max_len, CompletionRequest, CompletionResponse, TokenizeCompletionRequest, FlexibleArgumentParser, Logprob)
ROOT = Path(vllm.__file__).parent
MODELS = {"/v1/completions": CompletionRequest, "/tokenize": TokenizeCompletionRequest}
# What a model's generation_config.json or an operator could make of a field that the request leaves out.
BIASED = {
    "temperature": 0.6,
    "top_p": 0.8,
    "top_k": 20,
    "min_p": 0.1,
    "repetition_penalty": 1.05,
    "presence_penalty": 1.5,
    "frequency_penalty": 0.5,
    "skip_special_tokens": True,
}


def judge(method: str, path: str, query: dict[str, Any], body: Any) -> dict[str, Any]:
    """What the server would make of a request. `unknown` are fields that it would ignore in silence."""
    if (model := MODELS.get(path)) is not None and method == "POST":
        parsed = model.model_validate(body)
        unknown = sorted(parsed.model_extra or {})
        if model is TokenizeCompletionRequest:
            return {"unknown": unknown, "read": parsed.model_dump()}
        params = parsed.to_sampling_params(parsed.max_tokens, dict(BIASED))
        left_out = sorted(name for name in BIASED if name not in body)
        return {"unknown": unknown, "read": _plain(params), "left_to_server": left_out}
    if (method, path) == ("GET", "/v1/models"):
        return {"unknown": []}
    if (method, path) == ("POST", "/collective_rpc"):
        return {"unknown": sorted(_unknown_in_rpc(body))}
    if (method, path) == ("POST", "/wake_up"):
        # The route reads its query by hand.
        return {"unknown": sorted(set(query) - {"tags"})}
    for route in (*rl_router.routes, *sleep_router.routes):
        if route.path == path and method in route.methods:
            known = {field.name for field in route.dependant.query_params}
            fields = {field.name for field in route.dependant.body_params}
            return {"unknown": sorted((set(query) - known) | (set(body or {}) - fields))}
    raise LookupError(f"no route {method} {path}")


def _unknown_in_rpc(body: dict[str, Any]) -> set[str]:
    """The route reads names out of a plain dictionary; the method's own signature knows its arguments."""
    known = set(re.findall(r'body\.get\("(\w+)"', inspect.getsource(collective_rpc)))
    assert {"method", "kwargs"} <= known
    runner = ast.parse((ROOT / "v1/worker/gpu_model_runner.py").read_text())
    methods = {node.name: node for node in ast.walk(runner) if isinstance(node, ast.FunctionDef)}
    worker = ast.parse((ROOT / "v1/worker/gpu_worker.py").read_text())
    callable_names = {node.name for node in ast.walk(worker) if isinstance(node, ast.FunctionDef)}
    name = body["method"]
    if name not in callable_names or name not in methods:
        return {f"method {name}"}
    arguments = {argument.arg for argument in methods[name].args.args}
    return (set(body) - known) | {f"kwargs.{key}" for key in body.get("kwargs", {}) if key not in arguments}


def _plain(params: Any) -> dict[str, Any]:
    names = [
        *("n", "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty"),
        *("frequency_penalty", "seed", "logprobs", "prompt_logprobs", "max_tokens", "min_tokens", "ignore_eos"),
        *("stop", "stop_token_ids", "skip_special_tokens", "spaces_between_special_tokens", "watermarking"),
        *("include_stop_str_in_output", "logit_bias", "allowed_token_ids", "bad_words", "thinking_token_budget"),
    ]
    return {name: getattr(params, name) for name in names}


def answer(what: str, version: str) -> Any:
    """An answer as the server's own classes write it."""
    usage = UsageInfo(prompt_tokens=3, completion_tokens=2, total_tokens=5)
    if what == "sample":
        choice = CompletionResponseChoice(
            index=0,
            text="x",
            logprobs=CompletionLogProbs(
                text_offset=[0, 1], token_logprobs=[-0.5, -0.25], tokens=["x", "</s>"], top_logprobs=[None, None]
            ),
            finish_reason="stop",
            stop_reason=2,
            token_ids=[8, 2],
            prompt_token_ids=[5, 6, 7],
            weight_versions=[WeightVersionSpan(version=version, start=0, end=2)],
        )
    elif what == "score":
        scored = [None, *({token: Logprob(logprob=-1.5, rank=3, decoded_token="a")} for token in (6, 7))]
        spans = [WeightVersionSpan(version=version, start=0, end=1)]
        choice = CompletionResponseChoice(
            index=0, text="x", finish_reason="length", prompt_logprobs=scored, weight_versions=spans
        )
    elif what == "label":
        # The route has no class for it: one name in a dictionary.
        assert '{"weight_version": weight_version}' in inspect.getsource(weight_info)
        return {"weight_version": version}
    elif what == "asleep":
        assert '{"is_sleeping": is_sleeping}' in inspect.getsource(is_sleeping)
        return {"is_sleeping": True}
    elif what == "models":
        return ModelList(data=[ModelCard(id=version)]).model_dump(mode="json")
    else:
        return TokenizeResponse(count=2, max_model_len=8, tokens=[5, 6]).model_dump(mode="json")
    # As the route does it: a plain dump, then JSON, which turns the keys of a dictionary into text.
    return CompletionResponse(model=version, choices=[choice], usage=usage).model_dump()


def parse(command: list[str]) -> dict[str, Any]:
    """What the server's own parser makes of the arguments behind `vllm serve`. A wrong flag ends the process."""
    return {name: value for name, value in vars(_parser().parse_args(command)).items() if _is_plain(value)}


@cache
def _parser() -> Any:
    return make_arg_parser(FlexibleArgumentParser())


def longest(config: dict[str, Any], overrides: dict[str, Any], asked: int) -> int:
    """Tokens that the server takes of a model with this config.json when it is asked for so many; it raises where it takes fewer.

    Its own rule; what reads a config before it, transformers, is not installed here.
    """
    read = SimpleNamespace(**{"model_type": "qwen2", **config, **overrides})
    model_config.iter_rope_parameters = lambda found: [found.rope_parameters] if found.rope_parameters else []
    derived = SimpleNamespace(derived_max_model_len_and_key=(read.max_position_embeddings, "max_position_embeddings"))
    return model_config._get_and_verify_max_len(
        hf_config=read,
        model_arch_config=derived,
        tokenizer_config=None,
        max_model_len=asked,
        disable_sliding_window=False,
        sliding_window=None,
    )


def environment() -> list[str]:
    return sorted(vllm.envs.environment_variables)


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str | list | dict)
