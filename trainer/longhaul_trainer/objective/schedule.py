"""Learning rate: a pure function of the global step, so that a resumed job needs no scheduler state."""

from __future__ import annotations

import math

from longhaul_trainer.config import Schedule


def learning_rate(step: int, *, peak: float, schedule: Schedule) -> float:
    """Rate of the update after `step` earlier ones: peak·(step+1)/W while step < W, then the decay of `schedule.kind`."""
    warmup = schedule.warmup_steps
    if step < warmup:
        return peak * (step + 1) / warmup
    if schedule.kind == "constant":
        return peak
    done = min(1.0, (step - warmup) / (schedule.total_steps - warmup))
    if schedule.kind == "linear":
        return peak + (schedule.end_lr - peak) * done
    return schedule.end_lr + (peak - schedule.end_lr) * 0.5 * (1 + math.cos(math.pi * done))
