"""Rules over the tensors of a batch. A violation raises JobError 65 with row, token, expected and found value."""

from __future__ import annotations

from typing import Any

import numpy as np

from longhaul_trainer.batch.tensors import refuse
from longhaul_trainer.failures import JobError

Array = np.ndarray[Any, Any]
MAX_LOGPROB = 1e-3


class TokenRules:
    """Checks arrays of length T against conditions and names the first token that violates one."""

    def __init__(self, offsets: Array) -> None:
        self._offsets = offsets

    def blame(self, token: int, expected: str, found: Any) -> JobError:
        row = int(np.searchsorted(self._offsets, token, side="right")) - 1
        place = f"row {row}, token {token - int(self._offsets[row])} (index {token})"
        return refuse(f"Expected {expected}, found {found} at {place}")

    def require(self, good: Array, values: Array, expected: str) -> None:
        if not good.all():
            token = int(np.flatnonzero(~good)[0])
            raise self.blame(token, expected, values[token])


def check_offsets(offsets: Array, *, tokens: int, max_row_tokens: int) -> None:
    if offsets[0] != 0 or offsets[-1] != tokens:
        raise refuse(f"Expected row_offsets from 0 to {tokens}, found {offsets[0]} to {offsets[-1]}")
    lengths = np.diff(offsets)
    if (lengths <= 0).any():
        row = int(np.flatnonzero(lengths <= 0)[0])
        raise refuse(
            f"Expected row_offsets to increase strictly, found {offsets[row]} then {offsets[row + 1]} at row {row}"
        )
    if (lengths > max_row_tokens).any():
        row = int(np.flatnonzero(lengths > max_row_tokens)[0])
        raise refuse(f"Expected at most {max_row_tokens} tokens a row, found {lengths[row]} at row {row}, token 0")


def check_row_trajectories(row_trajectory: Array, trajectories: int) -> None:
    outside = (row_trajectory < 0) | (row_trajectory >= trajectories)
    if outside.any():
        row = int(np.flatnonzero(outside)[0])
        raise refuse(
            f"Expected row_trajectory in [0, {trajectories}), found {row_trajectory[row]} at row {row}, token 0"
        )
    changes = np.flatnonzero(np.diff(row_trajectory)) + 1
    firsts = row_trajectory[np.concatenate(([0], changes))]
    if len(np.unique(firsts)) != len(firsts):
        raise refuse("Expected the rows of one trajectory to be adjacent, found a trajectory in two places")


def check_tokens(tensors: dict[str, Array], *, vocab_size: int, policies: int, experts: Array) -> None:
    """experts: bool [R], rows of experts: they train, although no policy of the batch sampled them."""
    offsets, ids, mask = tensors["row_offsets"], tensors["input_ids"], tensors["loss_mask"]
    rules = TokenRules(offsets)
    rules.require((ids >= 0) & (ids < vocab_size), ids, f"a token id in [0, {vocab_size})")
    rules.require(mask <= 1, mask, "a loss mask of 0 or 1")
    firsts = offsets[:-1]
    if mask[firsts].any():
        row = int(np.flatnonzero(mask[firsts])[0])
        raise rules.blame(int(firsts[row]), "loss mask 0 at the first token of a row", 1)
    per_row = np.add.reduceat(mask.astype(np.int64), firsts)
    if (per_row == 0).any():
        row = int(np.flatnonzero(per_row == 0)[0])
        raise rules.blame(int(firsts[row]), "a loss token in every row", 0)
    trained = mask == 1
    version, logprobs = tensors.get("policy_version"), tensors.get("behaviour_logprobs")
    sampled = trained
    if version is not None:
        rules.require((version >= -1) & (version < policies), version, f"a policy index in [-1, {policies})")
        sampled = version >= 0
        expert = np.repeat(experts, np.diff(offsets))
        rules.require(sampled | ~trained | expert, version, "a sampled token (policy_version ≥ 0) under loss mask 1")
        rules.require(~sampled | ~expert, version, "no policy of the batch (policy_version -1) in a row of an expert")
    if logprobs is not None:
        # Behaviour log-probabilities may exceed 0 by rounding only.
        rules.require(np.isfinite(logprobs) & (logprobs <= MAX_LOGPROB), logprobs, f"a finite logprob ≤ {MAX_LOGPROB}")
        if version is not None:
            rules.require(sampled | (logprobs == 0), logprobs, "logprob 0.0 at a token that was not sampled")


def check_advantages(tensors: dict[str, Array], expected: Array, size: Array) -> None:
    """expected, size: [T]. Loss tokens must have the expected advantage within 1e-5 of `size`, all other tokens exactly 0.0."""
    advantages, trained = tensors["advantages"], tensors["loss_mask"] == 1
    rules = TokenRules(tensors["row_offsets"])
    rules.require(np.isfinite(advantages), advantages, "a finite advantage")
    rules.require(trained | (advantages == 0), advantages, "advantage 0.0 at a token without loss")
    close = np.abs(advantages - expected) <= 1e-5 * size
    bad = trained & ~close
    if bad.any():
        token = int(np.flatnonzero(bad)[0])
        raise rules.blame(token, f"advantage {expected[token]:.8g} from the group's rewards", advantages[token])
