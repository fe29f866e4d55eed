"""Continuous batching for one loaded policy. Only the model thread may run it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from tokenizers import Tokenizer

from longhaul_trainer.hf_model import context_length, end_token_ids
from longhaul_trainer.serve.draws import sample_rows, uniform
from longhaul_trainer.serve.faults import filtered, penalised, precision, reported
from longhaul_trainer.serve.slots import Parked, Slots

MAX_ROWS = 64
# Padded tokens of one prefill: running requests then wait tens of milliseconds, not seconds.
PREFILL_TOKENS = 2048
PARKED_BYTES = 256 * 1024 * 1024
SCORE_CHUNK = 1024


@dataclass
class Generation:
    """One request inside the engine. The model thread calls `finish` once, with None or the error."""

    prompt: list[int]
    max_tokens: int
    temperature: float
    seed: int
    stop_ids: frozenset[int]
    salt: str
    session: str | None
    score_prompt: bool
    finish: Callable[[BaseException | None], object]
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    prompt_logprobs: list[float] | None = None
    finish_reason: str = "length"
    stop_reason: int | None = None
    cached_tokens: int = 0

    @property
    def held(self) -> list[int]:
        """Ids whose keys and values are in memory: all but the newest sample, which the model has not read yet."""
        return self.prompt + self.ids[:-1]


class Engine:
    def __init__(self, *, model: Any, tokenizer: Tokenizer, version: str, faults: set[str] | None = None) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.version = version
        self._faults = set() if faults is None else faults
        self.max_model_len = context_length(model)
        self.vocab_size = int(model.config.vocab_size)
        self.in_flight = 0
        self._end_ids = end_token_ids(model)
        self._slots = Slots(model.config, model.device)
        self._waiting: list[Generation] = []
        self._running: list[Generation] = []
        self._parked: OrderedDict[tuple[str, str], Parked] = OrderedDict()
        self._parked_bytes = 0

    @property
    def is_busy(self) -> bool:
        return bool(self._waiting or self._running)

    def submit(self, generation: Generation) -> None:
        self._waiting.append(generation)

    def release_memory(self) -> None:
        """Frees the key/value memory of running requests; call it only while idle. Parked sessions stay. The next request allocates again."""
        self._slots = Slots(self.model.config, self.model.device)

    def fail_all(self, error: BaseException) -> None:
        failed, self._waiting, self._running = self._waiting + self._running, [], []
        for generation in failed:
            generation.finish(error)

    @torch.inference_mode()
    def iterate(self) -> None:
        """Prefills some waiting requests, then samples one token for every running request."""
        self._admit()
        if self._running:
            self._decode()

    def _admit(self) -> None:
        room = MAX_ROWS - len(self._running)
        if not self._waiting or room <= 0:
            return
        first = len(self._running)
        taken: list[Generation] = []
        starts: list[int] = []
        longest = 0
        while self._waiting and len(taken) < room:
            generation = self._waiting[0]
            if generation.score_prompt:
                generation.prompt_logprobs = self.score(generation.prompt)
                generation.score_prompt = False
            start = self._reusable(generation)
            needed = len(generation.prompt) - start
            if taken and max(longest, needed) * (len(taken) + 1) > PREFILL_TOKENS:
                break
            self._waiting.pop(0)
            if generation.max_tokens == 0:
                generation.finish(None)
                continue
            # Added before the forward pass, so that `fail_all` reaches this request too.
            self._running.append(generation)
            self._restore(first + len(taken), generation, start)
            taken.append(generation)
            starts.append(start)
            longest = max(longest, needed)
        if not taken:
            return
        lengths = [len(generation.prompt) - start for generation, start in zip(taken, starts, strict=True)]
        tokens = torch.zeros(len(taken), longest, dtype=torch.long)
        for row, (generation, start) in enumerate(zip(taken, starts, strict=True)):
            tokens[row, : lengths[row]] = torch.tensor(generation.prompt[start:])
        hidden = self._read(first, tokens, starts)
        last = torch.tensor(lengths, device=hidden.device) - 1
        self._sample(first, hidden[torch.arange(len(taken), device=hidden.device), last])

    def _decode(self) -> None:
        tokens = torch.tensor([[generation.ids[-1]] for generation in self._running])
        starts = [len(generation.prompt) + len(generation.ids) - 1 for generation in self._running]
        self._sample(0, self._read(0, tokens, starts)[:, 0])

    def _read(self, first: int, tokens: torch.Tensor, starts: list[int]) -> torch.Tensor:
        """tokens: [n, Q] of the rows from `first` on; starts: position of each row's first token. Returns hidden states [n, Q, hidden]."""
        device = self.model.device
        offsets = torch.arange(tokens.shape[1], device=device)
        positions = torch.tensor(starts, device=device)[:, None] + offsets
        mask = self._slots.focus(first, positions)
        with precision(self._faults):
            return self.model.base_model(
                input_ids=tokens.to(device),
                attention_mask=mask,
                position_ids=positions,
                past_key_values=self._slots,
                use_cache=True,
            ).last_hidden_state

    def _sample(self, first: int, hidden: torch.Tensor) -> None:
        rows = self._running[first : first + hidden.shape[0]]
        with precision(self._faults):
            logits = self.model.get_output_embeddings()(hidden)
        uniforms = [uniform(row.seed, len(row.prompt) + len(row.ids)) for row in rows]
        temperatures = [row.temperature for row in rows]
        ids, logprobs = self._draw(rows, logits, temperatures, uniforms)
        for row, token, logprob in zip(rows, ids, logprobs, strict=True):
            row.ids.append(token)
            row.logprobs.append(logprob)
        self._retire(first)

    def _draw(
        self, rows: list[Generation], logits: torch.Tensor, temperatures: list[float], uniforms: list[float]
    ) -> tuple[list[int], list[float]]:
        faults = self._faults
        if not faults:
            return sample_rows(logits, temperatures, uniforms)
        used = [1.0] * len(rows) if faults & {"ignore-temperature", "hidden-temperature"} else temperatures
        changed = penalised(logits, [row.prompt + row.ids for row in rows], faults)
        ids, logprobs = sample_rows(filtered(changed, used, faults), used, uniforms)
        return ids, reported(logits, ids, logprobs, temperatures, faults)

    def _retire(self, first: int) -> None:
        # From the end, so that the row that fills a gap has already been checked.
        for index in range(len(self._running) - 1, first - 1, -1):
            row = self._running[index]
            if not self._is_finished(row):
                continue
            self._park(index, row)
            last = len(self._running) - 1
            if index != last:
                self._slots.move(last, index, len(self._running[last].held))
                self._running[index] = self._running[last]
            self._running.pop()
            row.finish(None)

    def _is_finished(self, row: Generation) -> bool:
        token = row.ids[-1]
        if token in row.stop_ids:
            row.finish_reason, row.stop_reason = "stop", token
            return True
        if token in self._end_ids:
            row.finish_reason = "stop"
            return True
        return len(row.ids) >= row.max_tokens

    def _reusable(self, generation: Generation) -> int:
        """Number of leading prompt tokens whose keys the session already has. At least one token is always read again."""
        parked = self._parked.get((generation.salt, generation.session or ""))
        if parked is None:
            return 0
        limit = min(len(parked.ids), len(generation.prompt) - 1)
        same = 0
        while same < limit and parked.ids[same] == generation.prompt[same]:
            same += 1
        return same

    def _restore(self, row: int, generation: Generation, tokens: int) -> None:
        generation.cached_tokens = tokens
        if tokens:
            self._slots.restore(row, self._parked[(generation.salt, generation.session or "")], tokens)

    def _park(self, index: int, row: Generation) -> None:
        if row.session is None:
            return
        key = (row.salt, row.session)
        if (old := self._parked.pop(key, None)) is not None:
            self._parked_bytes -= old.bytes
        parked = self._slots.park(index, row.held)
        self._parked[key] = parked
        self._parked_bytes += parked.bytes
        while self._parked_bytes > PARKED_BYTES:
            _, oldest = self._parked.popitem(last=False)
            self._parked_bytes -= oldest.bytes

    @torch.inference_mode()
    def score(self, ids: list[int]) -> list[float]:
        """Log-probability of ids[1:], each given its prefix, at temperature 1."""
        tokens = torch.tensor([ids], device=self.model.device)
        with precision(self._faults):
            hidden = self.model.base_model(input_ids=tokens, use_cache=False).last_hidden_state[0, :-1]
        scores: list[float] = []
        for start in range(0, len(ids) - 1, SCORE_CHUNK):
            with precision(self._faults):
                logits = self.model.get_output_embeddings()(hidden[start : start + SCORE_CHUNK]).float()
            labels = tokens[0, start + 1 : start + 1 + len(logits)]
            scores += torch.log_softmax(logits, dim=-1).gather(1, labels[:, None])[:, 0].tolist()
        return scores
