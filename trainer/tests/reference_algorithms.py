"""Reference implementations of all algorithms in float64, one trajectory at a time, each formula as its paper prints it.

They share no code with the trainer and use stop-gradients only where the paper does: GSPO's ratio is differentiated directly, and the
entropy comes from the full distribution. Here every row is a complete trajectory.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from reference import PlainModel, ReferenceStep, weight_at

Array = np.ndarray[Any, Any]


def reference_policy_step(
    directory: Path,
    rows: list[dict[str, Any]],
    *,
    temperature: float,
    objective: dict[str, Any],
    token_budget: int | None = None,
) -> ReferenceStep:
    """rows: each has `ids`, `mask`, `advantages`, `prox`, `behaviour`, with a KL `reference`, and for experts `expert`, their weight."""
    model = PlainModel(directory)
    total_tokens = sum(int(row["mask"].sum()) for row in rows)
    loss = torch.zeros((), dtype=torch.float64)
    entropies = 0.0
    for row in rows:
        logprobs = torch.log_softmax(model.logits(torch.from_numpy(row["ids"]).long()) / temperature, -1)
        places = np.flatnonzero(row["mask"])
        before = logprobs[places - 1]
        picked = before.gather(1, torch.from_numpy(row["ids"][places]).long()[:, None])[:, 0]
        entropy = -(before.exp() * before).sum(1)
        entropies += float(entropy.detach().sum())
        is_expert = row.get("expert") is not None
        terms = row["expert"] * picked if is_expert else objective_terms(picked, row, places, objective)
        if "entropy_coef" in objective and not is_expert:
            terms = terms + objective["entropy_coef"] * entropy
        if "kl" in objective and not is_expert:
            behind = torch.from_numpy(row["reference"][places].astype(np.float64)) - picked
            terms = terms - objective["kl"]["coef"] * (behind.exp() - 1 - behind)
        # Each algorithm reduces the terms of a trajectory differently.
        match objective.get("algorithm", "dapo"):
            case "dapo" | "cispo":
                loss = loss - terms.sum() / (token_budget or total_tokens)
            case "grpo" | "gspo":
                loss = loss - terms.mean() / len(rows)
            case "dr_grpo":
                loss = loss - terms.sum() / objective["length"] / len(rows)
    loss.backward()
    gradients = {name: leaf.grad for name, leaf in model.weights.items() if leaf.grad is not None}
    return ReferenceStep(
        loss=float(loss.detach()), gradients=gradients, entropy=entropies / total_tokens, n_tokens=total_tokens
    )


def reference_dpo_step(
    directory: Path, rows: list[dict[str, Any]], *, temperature: float, beta: float
) -> ReferenceStep:
    """DPO's loss (arXiv 2305.18290 eq. 7), computed directly. rows: `ids`, `mask`, `reference`; each chosen row precedes its rejected row."""
    model = PlainModel(directory)
    ratios: list[torch.Tensor] = []
    entropies, tokens = 0.0, 0
    for row in rows:
        logprobs = torch.log_softmax(model.logits(torch.from_numpy(row["ids"]).long()) / temperature, -1)
        places = np.flatnonzero(row["mask"])
        before = logprobs[places - 1]
        picked = before.gather(1, torch.from_numpy(row["ids"][places]).long()[:, None])[:, 0]
        entropies += float(-(before.exp() * before).sum().detach())
        tokens += len(places)
        ratios.append((picked - torch.from_numpy(row["reference"][places].astype(np.float64))).sum())
    losses = [
        -torch.log(1 / (1 + torch.exp(-beta * (chosen - rejected))))
        for chosen, rejected in zip(ratios[::2], ratios[1::2], strict=True)
    ]
    loss = sum(losses, torch.zeros((), dtype=torch.float64)) / len(losses)
    loss.backward()
    gradients = {name: leaf.grad for name, leaf in model.weights.items() if leaf.grad is not None}
    chosen, rejected = (beta * float(torch.stack(side).detach().mean()) for side in (ratios[::2], ratios[1::2]))
    return ReferenceStep(
        loss=float(loss.detach()),
        gradients=gradients,
        entropy=entropies / tokens,
        n_tokens=tokens,
        rewards=(chosen, rejected),
    )


def reference_turn_advantages(step_rewards: list[list[float]], delta: float) -> list[list[float]]:
    """Advantages of one group's turns as in GiGPO (arXiv 2505.10978 eq. 7), with the turn's index as anchor state."""
    result = []
    for rewards in step_rewards:
        advantages = []
        for turn in range(len(rewards)):
            siblings = [sum(other[turn:]) for other in step_rewards if len(other) > turn]
            mean = sum(siblings) / len(siblings)
            squares = sum((value - mean) ** 2 for value in siblings)
            deviation = (squares / max(1, len(siblings) - 1)) ** 0.5
            advantages.append((sum(rewards[turn:]) - mean) / (deviation + delta))
        result.append(advantages)
    return result


def objective_terms(
    picked: torch.Tensor, row: dict[str, Array], places: Array, objective: dict[str, Any]
) -> torch.Tensor:
    """The algorithm's term (to maximise) of each loss token of one trajectory."""
    prox = torch.from_numpy(row["prox"][places].astype(np.float64))
    low, high = 1 - objective["clip_low"], 1 + objective["clip_high"]
    ratios = (picked - prox).exp()
    if objective.get("algorithm") == "gspo":
        ratios = (picked - prox).mean().exp().expand(len(places))
        if len(set(row["advantages"][places].tolist())) > 1:
            # Advantages differ by turn: GSPO-token (arXiv 2507.18071, section 4.3), whose printed formula has a stop-gradient.
            ratios = ratios.detach() * (picked - picked.detach()).exp()
    terms = []
    for at, place in enumerate(places):
        advantage = float(row["advantages"][place])
        ratio = ratios[at]
        if objective.get("algorithm") == "cispo":
            fixed = min(max(float(ratio.detach()), low), high)
            term = fixed * advantage * picked[at]
        else:
            clipped = torch.tensor(min(max(float(ratio.detach()), low), high), dtype=torch.float64)
            # The smaller of the two terms; a clipped term is a constant.
            term = ratio * advantage
            if float(clipped) * advantage < float(term.detach()):
                term = clipped * advantage
            limit = objective["dual_clip"]
            if limit != "none" and advantage < 0 and float(term.detach()) < limit * advantage:
                term = torch.tensor(limit * advantage, dtype=torch.float64)
        terms.append(term * weight_at(row, int(place), objective))
    return torch.stack(terms)
