"""The policy server as a process: its responses, its refusals, and its state after a kill."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import uvicorn
from job_files import TRAINER, die_with_parent, sha256
from tiny_policy import write_tiny_policy

from longhaul_trainer.parallel.ranks import Ranks
from longhaul_trainer.serve.command import serve
from longhaul_trainer.serve.draws import sample_rows, uniform
from longhaul_trainer.step.forward import gather_rows
from longhaul_trainer.trainable import ModelOptions, make_scorer
from longhaul_trainer.weight_files import hugging_face_weights

END = 258


class Server:
    """One server process on a free loopback port."""

    def __init__(self, state: Path, *, max_versions: int = 2, options: tuple[str, ...] = ()) -> None:
        self.state = state
        self.options = options
        self.authorization: str | None = None
        self.max_versions = max_versions
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "longhaul_trainer", "serve", "--port", str(self.port)]
        command += ["--state", str(self.state), "--max-versions", str(self.max_versions), *self.options]
        self.process = subprocess.Popen(command, cwd=TRAINER, env=dict(os.environ), preexec_fn=die_with_parent)
        deadline = time.monotonic() + 1200
        while time.monotonic() < deadline:
            try:
                if self.get("/health")[0] == 200:
                    return
            except OSError:
                time.sleep(0.05)
            assert self.process.poll() is None
        pytest.fail("The server did not become healthy")

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(30)

    def get(self, path: str) -> tuple[int, Any]:
        return self._ask(urllib.request.Request(f"http://127.0.0.1:{self.port}{path}"))

    def post(self, path: str, body: Any, session: str | None = None) -> tuple[int, Any]:
        headers = {"content-type": "application/json", **({"X-Session-ID": session} if session else {})}
        url = f"http://127.0.0.1:{self.port}{path}"
        return self._ask(urllib.request.Request(url, json.dumps(body).encode(), headers))

    def _ask(self, request: urllib.request.Request) -> tuple[int, Any]:
        if self.authorization is not None:
            request.add_header("Authorization", self.authorization)
        try:
            with urllib.request.urlopen(request, timeout=1200) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def load(self, path: Path, version: str, **fields: Any) -> tuple[int, Any]:
        return self.post("/v1/reload", {"path": str(path), "version": version, **fields})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, policy: Path) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("served"))
    assert server.load(policy, "v0")[0] == 200
    yield server
    assert server.stop() == 0


def request(**changes: Any) -> dict[str, Any]:
    """Every field that a training client sends."""
    fields = {
        "model": "v0",
        "prompt": list(range(40)),
        "max_tokens": 20,
        "n": 1,
        "temperature": 1.0,
        "top_p": 1,
        "top_k": -1,
        "min_p": 0,
        "repetition_penalty": 1,
        "presence_penalty": 0,
        "frequency_penalty": 0,
        "seed": 5,
        "stop_token_ids": [END],
        "logprobs": 0,
        "return_token_ids": True,
        "cache_salt": "v0",
        "return_weight_versions": True,
        "watermarking": False,
        "request_id": "r1",
        "skip_special_tokens": False,
    }
    return {**fields, **changes}


def test_completion_answers_in_the_shape_a_training_client_reads(server: Server) -> None:
    status, answer = server.post("/v1/completions", request())
    choice = answer["choices"][0]
    assert status == 200
    assert answer["model"] == "v0"
    assert choice["weight_versions"] == [{"version": "v0", "start": 0, "end": len(choice["token_ids"])}]
    assert choice["prompt_token_ids"] == list(range(40))
    assert len(choice["token_ids"]) == len(choice["logprobs"]["token_logprobs"]) == answer["usage"]["completion_tokens"]
    assert choice["finish_reason"] in ("stop", "length")
    assert all(value <= 0 for value in choice["logprobs"]["token_logprobs"])


def test_stop_token_is_returned_as_an_id_but_not_as_text(server: Server) -> None:
    for seed in range(200):
        _, answer = server.post("/v1/completions", request(seed=seed, max_tokens=40))
        choice = answer["choices"][0]
        if choice["finish_reason"] == "stop":
            assert choice["token_ids"][-1] == choice["stop_reason"] == END
            assert "<|im_end|>" not in choice["text"]
            return
    pytest.fail("No request ended with the stop token")


def test_logprobs_of_whole_episodes_agree_with_the_trainer(server: Server, policy: Path) -> None:
    """Multi-turn episodes run concurrently and reuse their sessions' keys; the policy may sample any id, also special ones."""
    episodes: list[tuple[list[int], list[float], list[int]]] = []

    def play(seed: int) -> None:
        rng = np.random.default_rng(seed)
        ids = rng.integers(0, 250, 30 + 7 * seed).tolist()
        logprobs, mask = [0.0] * len(ids), [0] * len(ids)
        for turn in range(4):
            body = request(prompt=ids, seed=100 * seed + turn, stop_token_ids=[], temperature=0.8, max_tokens=15)
            _, answer = server.post("/v1/completions", body, session=f"s{seed}")
            choice = answer["choices"][0]
            observed = rng.integers(0, 250, 9).tolist()
            sampled = choice["logprobs"]["token_logprobs"]
            ids = ids + choice["token_ids"] + observed
            logprobs += sampled + [0.0] * len(observed)
            mask += [1] * len(sampled) + [0] * len(observed)
        episodes.append((ids, logprobs, mask))

    threads = [threading.Thread(target=play, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(episodes) == 6
    micro = gather_rows(
        list(range(6)),
        offsets=np.concatenate(([0], np.cumsum([len(ids) for ids, _, _ in episodes]))),
        input_ids=np.concatenate([ids for ids, _, _ in episodes]),
        label_mask=np.concatenate([mask for _, _, mask in episodes]),
        device=torch.device("cpu"),
    )
    scorer = make_scorer(policy, hugging_face_weights(policy), ModelOptions(ranks=Ranks(device=torch.device("cpu"))))
    with torch.no_grad():
        found, _ = scorer(micro, 0.8)
    sampled = np.concatenate([logprobs for _, logprobs, _ in episodes])[micro.index]
    assert np.abs(found.numpy() - sampled).max() < 1e-5


def test_request_alone_and_among_others_gives_the_same_tokens(server: Server) -> None:
    bodies = [request(seed=seed, prompt=list(range(1, 20 + 3 * seed)), max_tokens=30) for seed in range(12)]
    alone = [server.post("/v1/completions", body)[1]["choices"][0]["token_ids"] for body in bodies]
    together: dict[int, list[int]] = {}

    def ask(at: int) -> None:
        together[at] = server.post("/v1/completions", bodies[at])[1]["choices"][0]["token_ids"]

    threads = [threading.Thread(target=ask, args=(at,)) for at in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [together[at] for at in range(12)] == alone
    assert len({tuple(ids) for ids in alone}) == 12


def test_session_reuses_its_prefix_under_one_salt_only(server: Server) -> None:
    prompt = list(range(60))
    _, first = server.post("/v1/completions", request(prompt=prompt, stop_token_ids=[]), session="reuse")
    longer = prompt + first["choices"][0]["token_ids"] + [1, 2, 3]
    _, other = server.post("/v1/completions", request(prompt=longer, cache_salt="other"), session="reuse")
    _, again = server.post("/v1/completions", request(prompt=longer), session="reuse")
    assert first["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert other["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] >= 60
    assert again["choices"][0]["token_ids"] == other["choices"][0]["token_ids"]


def test_prompt_logprobs_score_a_prompt(server: Server) -> None:
    _, sampled = server.post("/v1/completions", request(stop_token_ids=[]))
    choice = sampled["choices"][0]
    ids = choice["prompt_token_ids"] + choice["token_ids"]
    status, scored = server.post("/v1/completions", request(prompt=ids, max_tokens=1, prompt_logprobs=0))
    entries = scored["choices"][0]["prompt_logprobs"]
    assert status == 200
    assert entries[0] is None
    values = [entries[at][str(ids[at])]["logprob"] for at in range(40, len(ids))]
    assert values == pytest.approx(choice["logprobs"]["token_logprobs"], abs=1e-5)


@pytest.mark.parametrize(
    "changes",
    [
        {"top_k": 20},
        {"top_p": 0.9},
        {"min_p": 0.1},
        {"n": 2},
        {"n": True},
        {"presence_penalty": 0.5},
        {"repetition_penalty": 1.1},
        {"logprobs": 5},
        {"stream": True},
        {"prompt": "text"},
        {"prompt": []},
        {"prompt": [-1]},
        {"prompt": [10_000]},
        {"temperature": -1},
        {"seed": "x"},
        {"max_tokens": 0},
        {"cache_salt": ""},
        {"beam_width": 4},
    ],
)
def test_unknown_or_non_neutral_field_is_400(server: Server, changes: dict[str, Any]) -> None:
    status, answer = server.post("/v1/completions", request(**changes))
    assert status == 400
    assert answer["error"]["message"]


def test_context_overflow_and_unknown_model_have_their_own_codes(server: Server) -> None:
    status, answer = server.post("/v1/completions", request(prompt=[1] * 500, max_tokens=13))
    assert (status, answer["error"]["code"]) == (400, "context_length_exceeded")
    assert server.post("/v1/completions", request(prompt=[1] * 500, max_tokens=12))[0] == 200
    status, answer = server.post("/v1/completions", request(model="v9"))
    assert (status, answer["error"]["code"]) == (404, "model_not_found")


def test_tokenize_maps_special_spellings_and_detokenize_restores_the_text(server: Server) -> None:
    text = "é\t<|im_start|>user\nhi<|im_end|>"
    _, answer = server.post("/tokenize", {"model": "v0", "prompt": text, "add_special_tokens": False})
    assert answer["count"] == len(answer["tokens"])
    assert answer["tokens"][-1] == END
    assert 257 in answer["tokens"]
    assert server.post("/detokenize", {"model": "v0", "tokens": answer["tokens"]})[1]["prompt"] == text
    assert server.post("/tokenize", {"model": "v0", "prompt": text, "surprise": 1})[0] == 400


def test_reload_is_idempotent_and_refuses_another_manifest(server: Server, policy: Path, other_policy: Path) -> None:
    digest = sha256((policy / "MANIFEST.json").read_bytes())
    assert server.load(policy, "v0", manifest_sha256=digest)[0] == 200
    status, answer = server.load(other_policy, "v0", manifest_sha256="0" * 64)
    assert (status, answer["error"]["code"]) == (409, "version_conflict")
    status, answer = server.load(other_policy, "v5", manifest_sha256="0" * 64)
    assert (status, answer["error"]["code"]) == (422, "bad_policy_directory")
    assert server.load(policy / "absent", "v6")[0] == 422
    assert [entry["id"] for entry in server.get("/v1/models")[1]["data"]] == ["v0"]


def test_leases_hold_places_and_a_restarted_server_serves_the_same(
    tmp_path: Path, policy: Path, other_policy: Path
) -> None:
    server = Server(tmp_path / "state")
    try:
        third = tmp_path / "third"
        write_tiny_policy(third, seed=2)
        assert server.load(policy, "a", holder="run-1", lease_s=600)[0] == 200
        assert server.load(other_policy, "b", holder="run-2", lease_s=600)[0] == 200
        before = [server.post("/v1/completions", request(model=name))[1]["choices"][0]["token_ids"] for name in "ab"]
        assert before[0] != before[1]
        status, answer = server.load(third, "c", holder="run-3", lease_s=600)
        assert (status, answer["error"]["code"]) == (409, "busy")
        assert answer["error"]["holders"] == ["run-1", "run-2"]
        assert server.stop(signal.SIGKILL) == -signal.SIGKILL
        server.start()
        after = [server.post("/v1/completions", request(model=name))[1]["choices"][0]["token_ids"] for name in "ab"]
        assert after == before
        assert server.load(third, "c", holder="run-3")[1]["error"]["holders"] == ["run-1", "run-2"]
        assert server.post("/v1/release", {"holder": "run-1"})[1] == {"released": ["a"]}
        assert server.load(third, "c", holder="run-3", lease_s=600)[0] == 200
        assert server.get("/weight_info")[1]["weight_versions"] == ["b", "c"]
        assert server.post("/v1/completions", request(model="a"))[0] == 404
        # A holder's next version may evict its own version.
        assert server.load(policy, "d", holder="run-3", lease_s=600)[0] == 200
        assert server.get("/weight_info")[1]["weight_versions"] == ["b", "d"]
    finally:
        server.stop()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "10.0.0.7", "gpu-1", "127.0.0.1.example.org"])
def test_address_for_other_machines_is_refused_without_a_key(
    host: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    monkeypatch.setattr(uvicorn, "run", lambda *_, **__: pytest.fail("A port was opened"))
    options: dict[str, Any] = {"port": 1, "state_dir": tmp_path, "max_versions": 1, "threads": 1}
    assert serve(host=host, **options) == 64
    assert "loopback address or a key" in capsys.readouterr().err
    assert serve(host=host, api_key_variable="NO_SUCH_KEY", **options) == 64
    assert "Expected a key in the variable NO_SUCH_KEY" in capsys.readouterr().err


def test_server_with_a_key_answers_only_health_without_it(
    tmp_path: Path, policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVER_KEY", "correct horse")
    server = Server(tmp_path / "state", options=("--host", "0.0.0.0", "--api-key-variable", "SERVER_KEY"))
    try:
        for wrong in (None, "Bearer ", "Bearer correct hors", "correct horse", "Bearer correct horse ü"):
            server.authorization = wrong
            assert server.get("/health")[0] == 200
            assert server.load(policy, "v0")[0] == 401
            for path in ("/v1/models", "/version", "/weight_info", "/health/", "/nothing"):
                status, answer = server.get(path)
                assert (status, answer["error"]["code"]) == (401, "invalid_api_key")
        server.authorization = "Bearer correct horse"
        assert server.load(policy, "v0")[0] == 200
        assert server.post("/v1/completions", request())[0] == 200
    finally:
        server.stop()


def test_draws_depend_only_on_the_distribution_and_the_seed() -> None:
    logits = torch.log(torch.tensor([[0.5, 0.0, 0.25, 0.25]])).repeat(4000, 1)
    draws = [uniform(seed, 3) for seed in range(4000)]
    ids, logprobs = sample_rows(logits, [1.0] * 4000, draws)
    shares = np.bincount(ids, minlength=4) / 4000
    # The standard error of a share of 0.5 over 4,000 draws is 0.008.
    assert shares.tolist() == pytest.approx([0.5, 0.0, 0.25, 0.25], abs=0.03)
    assert logprobs[0] == pytest.approx(np.log([0.5, 1, 0.25, 0.25])[ids[0]])
    assert uniform(1, 2) == uniform(1, 2) != uniform(2, 1)
