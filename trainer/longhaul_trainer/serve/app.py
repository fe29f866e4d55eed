"""HTTP routes: parse the request, pass it to the model thread, return the response."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from longhaul_trainer import VERSION
from longhaul_trainer.serve.answers import completion_answer, token_text
from longhaul_trainer.serve.engine import Engine, Generation
from longhaul_trainer.serve.faults import FAULTS, tokenized
from longhaul_trainer.serve.registry import Registry
from longhaul_trainer.serve.scheduler import Scheduler
from longhaul_trainer.serve.wire import (
    CompletionRequest,
    DetokenizeRequest,
    FaultsRequest,
    HttpError,
    Model,
    ReleaseRequest,
    ReloadRequest,
    TokenizeRequest,
    invalid,
    parse,
)


def build_app(
    *, registry: Registry, scheduler: Scheduler, faults: set[str] | None = None, api_key: str | None = None
) -> FastAPI:
    app = FastAPI(title="Longhaul embedded policy server", version=VERSION, openapi_url=None)

    if api_key is not None:
        expected = f"Bearer {api_key}".encode()

        @app.middleware("http")
        async def _require_key(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
            given = request.headers.get("authorization", "").encode()
            # Probes have no key, and /health reveals nothing about policies.
            if request.url.path == "/health" or secrets.compare_digest(given, expected):
                return await answer(request)
            refusal = HttpError(401, "invalid_api_key", "Expected the server's key as a bearer token")
            return JSONResponse(refusal.body, status_code=refusal.status)

    @app.exception_handler(HttpError)
    async def _answer_error(_: Request, error: HttpError) -> JSONResponse:
        return JSONResponse(error.body, status_code=error.status)

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/version")
    async def version() -> dict[str, str]:
        return {"version": VERSION}

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        data = [
            {"id": entry["version"], "object": "model", "owned_by": "longhaul", **_context(entry)}
            for entry in registry.list()
        ]
        return {"object": "list", "data": data}

    def _context(entry: dict[str, Any]) -> dict[str, Any]:
        return {"root": entry["path"], "max_model_len": registry.engine(entry["version"]).max_model_len}

    @app.get("/weight_info")
    async def weight_info() -> dict[str, Any]:
        entries = registry.list()
        return {"weight_versions": [entry["version"] for entry in entries], "versions": entries}

    @app.post("/v1/completions")
    async def completions(request: Request) -> dict[str, Any]:
        asked = await _read(CompletionRequest, request)
        engine = registry.engine(asked.model)
        done = await _generate(scheduler, engine, asked, request.headers.get("x-session-id"))
        return completion_answer(asked, engine, done)

    @app.post("/tokenize")
    async def tokenize(request: Request) -> dict[str, Any]:
        asked = await _read(TokenizeRequest, request)
        engine = registry.engine(asked.model)
        ids = engine.tokenizer.encode(asked.prompt, add_special_tokens=asked.add_special_tokens).ids
        ids = tokenized(ids, faults or set())
        strings = [token_text(engine, token) for token in ids] if asked.return_token_strs else None
        return {"count": len(ids), "max_model_len": engine.max_model_len, "tokens": ids, "token_strs": strings}

    @app.post("/detokenize")
    async def detokenize(request: Request) -> dict[str, str]:
        asked = await _read(DetokenizeRequest, request)
        engine = registry.engine(asked.model)
        return {"prompt": engine.tokenizer.decode(asked.tokens, skip_special_tokens=False)}

    @app.post("/v1/reload")
    async def reload(request: Request) -> dict[str, Any]:
        asked = await _read(ReloadRequest, request)
        return await asyncio.to_thread(registry.load, **asked.model_dump())

    @app.post("/v1/release")
    async def release(request: Request) -> dict[str, Any]:
        asked = await _read(ReleaseRequest, request)
        return {"released": await asyncio.to_thread(registry.release, holder=asked.holder, version=asked.version)}

    if faults is not None:

        @app.post("/v1/faults")
        async def change_faults(request: Request) -> dict[str, Any]:
            wanted = (await _read(FaultsRequest, request)).faults
            if any(name not in FAULTS for name in wanted):
                raise invalid(f"Expected `faults` to be a list of {', '.join(FAULTS)}")
            faults.clear()
            faults.update(wanted)
            return {"faults": sorted(faults)}

    return app


async def _read(model: type[Model], request: Request) -> Model:
    try:
        body = json.loads(await request.body())
    except ValueError as error:
        raise invalid(f"Expected a JSON body: {error}") from error
    return parse(model, body)


async def _generate(scheduler: Scheduler, engine: Engine, asked: CompletionRequest, session: str | None) -> Generation:
    _check_fits(engine, asked)
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def settle(error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(HttpError(500, "internal_error", f"{type(error).__name__}: {error}"))

    generation = Generation(
        prompt=asked.prompt,
        max_tokens=asked.max_tokens,
        temperature=asked.temperature,
        seed=secrets.randbits(62) if asked.seed is None else asked.seed,
        stop_ids=frozenset(asked.stop_token_ids or ()),
        salt=asked.cache_salt or "",
        session=session,
        score_prompt=asked.prompt_logprobs is not None,
        finish=lambda error: loop.call_soon_threadsafe(settle, error),
    )
    scheduler.submit(engine, generation)
    await future
    return generation


def _check_fits(engine: Engine, asked: CompletionRequest) -> None:
    if asked.max_tokens == 0 and asked.prompt_logprobs is None:
        raise invalid("Expected `max_tokens` of at least 1, or `prompt_logprobs` to score the prompt only")
    if (highest := max(asked.prompt)) >= engine.vocab_size:
        raise invalid(f"Expected token ids below {engine.vocab_size}, got {highest}")
    asked_len = len(asked.prompt) + asked.max_tokens
    if asked_len > engine.max_model_len:
        raise HttpError(
            400,
            "context_length_exceeded",
            f"This model's maximum context length is {engine.max_model_len} tokens, the request needs {asked_len} "
            f"[prompt={len(asked.prompt)}, max_tokens={asked.max_tokens}]",
            max_model_len=engine.max_model_len,
        )
