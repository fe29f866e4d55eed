"""Effects of one optimizer step on the weights: gradient clipping and learning rate, measured by the weights' movement."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from gradient_case import Case, Silent, open_case, write_case
from job_files import make_config, make_draft, make_job
from safetensors.torch import load_file

from longhaul_trainer.parallel.ranks import Ranks
from longhaul_trainer.step.command import step
from longhaul_trainer.step.state import TrainerState, build_optimizer
from longhaul_trainer.step.training import Trainer
from longhaul_trainer.trainable import ModelOptions, make_scorer
from longhaul_trainer.weight_files import hugging_face_weights

Weights = dict[str, torch.Tensor]


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory, policy: Path) -> Case:
    case = Case(tmp_path_factory.mktemp("case"), policy, objective=None)
    write_case(case)
    return case


def copy_of(model: Any) -> Weights:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def moved(before: Weights, after: Weights) -> torch.Tensor:
    return torch.cat([(after[name].double() - before[name].double()).flatten() for name in before])


def run_steps(
    case: Case,
    *,
    first: int = 0,
    steps: int = 1,
    make_optimizer: Callable[[Any, Any], torch.optim.Optimizer] = build_optimizer,
    **changes: Any,
) -> tuple[list[torch.Tensor], list[dict[str, Any]]]:
    """Movement of the weights in each step of the real trainer, and its metrics. `first`: global step before the first step."""
    path = case.root / "config.json"
    text = path.read_text()
    config = json.loads(text)
    try:
        path.write_text(json.dumps({**config, **changes, "optimizer": {**config["optimizer"], **changes["optimizer"]}}))
        batch, parsed, prox = open_case(case)
    finally:
        path.write_text(text)
    ranks = Ranks(device=torch.device("cpu"))
    scorer = make_scorer(case.policy, hugging_face_weights(case.policy), ModelOptions(ranks=ranks))
    trainer = Trainer(
        scorer=scorer,
        ranks=ranks,
        optimizer=make_optimizer(scorer.model, parsed),
        batch=batch,
        config=parsed,
        prox=prox,
        max_tokens=case.max_tokens,
        progress=Silent(),  # pyright: ignore[reportArgumentType]
        check_stop=lambda: None,
    )
    state = TrainerState(global_step=first, done=0, metrics=[], alarms=[])
    movements = []
    for _ in range(steps):
        before = copy_of(scorer.model)
        state = trainer.run_step(state)
        movements.append(moved(before, copy_of(scorer.model)))
    return movements, state.metrics


def plain_descent(model: Any, config: Any) -> torch.optim.Optimizer:
    """SGD: weights move by rate · gradient, so the movement shows the gradient's norm, which Adam would rescale."""
    return torch.optim.SGD(model.parameters(), lr=config.optimizer.lr)


def descend(case: Case, grad_clip: object) -> tuple[float, float]:
    """Norm of the applied gradient, and the reported norm."""
    (movement,), (metrics,) = run_steps(
        case, make_optimizer=plain_descent, optimizer={"lr": 1.0, "grad_clip": grad_clip}
    )
    return float(movement.norm()), metrics["grad_norm"]


def test_a_gradient_above_the_limit_is_scaled_down_and_reported_unscaled(case: Case) -> None:
    applied, whole = descend(case, "none")
    # The norm must be far above the limits below; otherwise the comparison would prove nothing.
    assert whole > 1.0
    assert applied == pytest.approx(whole, rel=1e-4)
    for limit in (0.01, 0.5):
        applied, reported = descend(case, limit)
        # The factor is limit / (norm + 1e-6).
        assert applied == pytest.approx(limit * whole / (whole + 1e-6), rel=1e-4)
        assert reported == pytest.approx(whole, rel=1e-6)
    # Below the limit nothing changes: the factor is at most 1.
    applied, reported = descend(case, 2 * whole)
    assert applied == pytest.approx(whole, rel=1e-4)
    assert reported == pytest.approx(whole, rel=1e-6)


@pytest.mark.parametrize(("grad_clip", "limit"), [(0.05, 0.05), (0.25, 0.25), ("none", None)])
def test_a_job_carries_the_clipped_gradient_into_its_first_moment(
    tmp_path: Path, policy: Path, grad_clip: object, limit: float | None
) -> None:
    """From config file to checkpoint: after one update exp_avg is (1 - 0.9) · gradient, before Adam's scaling."""
    config = make_config("rft", epochs=1, batch_size=16)
    config["optimizer"]["grad_clip"] = grad_clip
    job = make_job(tmp_path, policy, make_draft(policy, stage="rft", batch_size=16), config)
    assert step(job.write(), dry_run=False) == 0
    (metrics,) = [json.loads(line) for line in (job.checkpoint / "metrics.jsonl").read_text().splitlines()]
    assert metrics["grad_norm"] > 0.5
    state = load_file(job.checkpoint / "state.safetensors")
    moment = torch.cat([tensor.double().flatten() for name, tensor in state.items() if name.startswith("exp_avg.")])
    assert float(moment.norm()) / 0.1 == pytest.approx(metrics["grad_norm"] if limit is None else limit, rel=1e-4)


# Peak 1e-3, three steps of warm-up: 1/3, 2/3 and 3/3 of it. Steps 3 to 6 decay by 0, 1/3, 2/3 and all of the way to 1e-4:
# linear 1e-3 - 9e-4·(0, 1/3, 2/3, 1), cosine 1e-4 + 9e-4·(1 + cos(0°, 60°, 120°, 180°))/2. The rate then stays constant.
WARM = [1e-3 / 3, 2e-3 / 3, 1e-3]
RATES = {
    "constant": [*WARM, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3],
    "linear": [*WARM, 1e-3, 7e-4, 4e-4, 1e-4, 1e-4],
    "cosine": [*WARM, 1e-3, 7.75e-4, 3.25e-4, 1e-4, 1e-4],
}


@pytest.mark.parametrize("kind", RATES)
@pytest.mark.parametrize("first", [0, 2, 5])
def test_each_update_uses_the_learning_rate_of_its_global_step(case: Case, kind: str, first: int) -> None:
    """With both betas 0 and no weight decay Adam moves a weight by the rate times the sign of its gradient, so the largest movement
    of a step equals its rate. The test reads warm-up and decay from the weights, not only from the metrics."""
    schedule: dict[str, Any] = {"kind": kind, "warmup_steps": 3}
    if kind != "constant":
        schedule |= {"total_steps": 6, "end_lr": 1e-4}
    expected = RATES[kind][first:]
    optimizer = {"lr": 1e-3, "betas": [0.0, 0.0], "eps": 1e-12, "weight_decay": 0.0, "grad_clip": 1.0}
    movements, metrics = run_steps(case, first=first, steps=len(expected), optimizer=optimizer, schedule=schedule)
    # Near 1 the spacing of fp32 is 6e-8, so a movement of 1e-4 is accurate to a thousandth.
    assert [float(movement.abs().max()) for movement in movements] == pytest.approx(expected, rel=2e-3)
    assert [entry["lr"] for entry in metrics] == pytest.approx(expected, rel=1e-9)


def test_weight_decay_shrinks_matrices_and_leaves_norms_alone(case: Case) -> None:
    """Decoupled weight decay: with decay d a weight w moves by -rate·d·w more than without."""
    optimizer = {"lr": 1e-3, "betas": [0.0, 0.0], "eps": 1e-12, "grad_clip": 1.0}
    (plain,), _ = run_steps(case, optimizer={**optimizer, "weight_decay": 0.0})
    (decayed,), _ = run_steps(case, optimizer={**optimizer, "weight_decay": 0.5})
    scorer = make_scorer(
        case.policy, hugging_face_weights(case.policy), ModelOptions(ranks=Ranks(device=torch.device("cpu")))
    )
    expected = torch.cat(
        [
            (-1e-3 * 0.5 * parameter.detach().double() * (parameter.ndim >= 2)).flatten()
            for _, parameter in scorer.model.named_parameters()
        ]
    )
    # fp32 rounding of weights below 2 is 1.2e-7 in each run.
    assert float((decayed - plain - expected).abs().max()) < 3e-7
    assert float(expected.abs().max()) > 1e-4
