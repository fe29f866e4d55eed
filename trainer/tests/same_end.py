"""Checks that two layouts of one job end with equal results within rounding. A different training would fail the check."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from job_files import JobFiles
from safetensors.numpy import load_file


def expect_same_end(job: JobFiles, other: JobFiles, start: Path) -> None:
    """Compares steps, canary and weights of two jobs that started from the policy `start`.

    Adam moves a weight by about the learning rate per step, whatever its gradient, and rounding may flip the sign of a gradient near
    zero. A bound on the difference of single weights would have to allow the largest movement, and would accept any training. So the
    check compares the movement of all weights by its norm, and the policies by their log-probabilities.
    """
    for found, expected in zip(steps_of(job), steps_of(other), strict=True):
        assert found["n_tokens"] == expected["n_tokens"]
        assert found["loss"] == pytest.approx(expected["loss"], abs=1e-6)
        assert found["grad_norm"] == pytest.approx(expected["grad_norm"], rel=1e-5)
    base, ours, theirs = (load_file(path / "model.safetensors") for path in (start, job.policy, other.policy))
    assert base.keys() == ours.keys() == theirs.keys()
    # Measured, two ranks against one: losses 4e-8, gradient norms 2e-7, movement 2e-6 of its norm.
    assert length_of_difference(ours, theirs) < 1e-4 * length_of_difference(theirs, base)
    mine, others = (canary_of(made) for made in (job, other))
    common = mine.keys() & others.keys()
    assert len(common) > 0.9 * len(others)
    assert [mine[place] for place in common] == pytest.approx([others[place] for place in common], abs=1e-4)


def canary_of(job: JobFiles) -> dict[tuple[int, int], float]:
    """New log-probability by row and position. The positions are those that moved most, so rounding may select others."""
    stored = load_file(job.policy / "canary.safetensors")
    places = zip(stored["position_row"].tolist(), stored["position_index"].tolist(), strict=True)
    return dict(zip(places, stored["new_logprobs"].tolist(), strict=True))


def length_of_difference(left: dict[str, Any], right: dict[str, Any]) -> float:
    squares = [np.square(left[name].astype(np.float64) - right[name]).sum() for name in left]
    return float(np.sqrt(np.sum(squares)))


def steps_of(job: JobFiles) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (job.checkpoint / "metrics.jsonl").read_text().splitlines()]
