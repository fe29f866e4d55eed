"""Checks batch.json against itself and against the tensors: counts, mini-batches, groups, trajectories, lag. Violations raise JobError 65."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from longhaul_trainer.batch.tensors import refuse

Array = np.ndarray[Any, Any]
# Dispositions that the policy itself caused. Only such trajectories may train.
DISPOSITIONS = ("submitted", "turn-limit", "context-limit", "time-limit", "agent-gave-up")
# Returns that differ by less are equal: the same step rewards summed in another order.
EQUAL_RETURNS = 1e-9
NEUTRAL = {"top_p": (1,), "top_k": (-1, 0), "min_p": (0,), "repetition_penalty": (1,)}


@dataclass(frozen=True)
class Minibatch:
    first_row: int
    rows: int
    loss_tokens: int
    trajectories: int


@dataclass(frozen=True)
class InputPolicy:
    """Identity of the policy that the job starts from; `version` is None for a plain model directory."""

    version: str | None
    manifest_sha256: str


def check_sampling(sampling: dict[str, Any]) -> float:
    """Returns the temperature. Filters must be neutral: with one, log μ would not be the policy's log-probability."""
    temperature: Any = sampling.get("temperature")
    if type(temperature) not in (int, float) or not 0 < temperature < math.inf:
        raise refuse(f"Expected sampling.temperature above 0, found {temperature!r}")
    for name, allowed in NEUTRAL.items():
        if sampling.get(name) not in allowed:
            raise refuse(f"Expected sampling.{name} to be neutral ({allowed[0]}), found {sampling.get(name)!r}")
    mode = sampling.get("logprobs_mode")
    if mode != "processed_logprobs" and not (mode == "raw_logprobs" and temperature == 1):
        raise refuse(f"Expected sampling.logprobs_mode processed_logprobs, found {mode!r}")
    return float(temperature)


def check_counts(manifest: dict[str, Any], loss_tokens: int) -> None:
    counts = manifest["counts"]
    found = {
        "groups": len(manifest["groups"]),
        "trajectories": len(manifest["trajectories"]),
        "loss_tokens": loss_tokens,
    }
    for name, value in found.items():
        if counts.get(name) != value:
            raise refuse(f"Expected counts.{name} to be {value}, found {counts.get(name)}")


def check_minibatches(
    manifest: dict[str, Any],
    tensors: dict[str, Array],
    batch_size: int | None,
    token_budget: int | None = None,
    *,
    pairs: bool = False,
) -> list[Minibatch]:
    """Checks that no trajectory is in two mini-batches and that their sizes follow from `batch_size` or `token_budget`.

    pairs: two adjacent trajectories count as one unit.
    """
    listed = manifest["minibatches"]
    sizes = (
        [2 * size for size in near_equal_sizes(len(manifest["trajectories"]) // 2, batch_size // 2)]
        if pairs and batch_size is not None
        else near_equal_sizes(len(manifest["trajectories"]), batch_size)
        if batch_size is not None
        else budget_sizes(_tokens_in_order(tensors), token_budget or 1)
    )
    if len(listed) != len(sizes):
        at = f"{len(manifest['trajectories'])} trajectories at {batch_size or f'{token_budget} loss tokens'}"
        raise refuse(f"Expected {len(sizes)} mini-batches for {at}, found {len(listed)}")
    offsets, owner = tensors["row_offsets"], tensors["row_trajectory"]
    result: list[Minibatch] = []
    row = 0
    for index, entry in enumerate(listed):
        last = row + entry["rows"]
        if entry["first_row"] != row or entry["rows"] < 1 or last > len(owner):
            raise refuse(f"Expected mini-batch {index} to begin at row {row} inside {len(owner)} rows, found {entry}")
        size = sizes[index]
        members = len(np.unique(owner[row:last]))
        if not entry["trajectories"] == members == size:
            raise refuse(
                f"Expected {size} trajectories in mini-batch {index}, found {members}, listed {entry['trajectories']}"
            )
        if last < len(owner) and owner[last - 1] == owner[last]:
            raise refuse(
                f"Expected trajectory {owner[last]} inside one mini-batch, found it across row {last}, token 0"
            )
        tokens = int(tensors["loss_mask"][offsets[row] : offsets[last]].sum(dtype=np.int64))
        if entry["loss_tokens"] != tokens:
            raise refuse(f"Expected mini-batch {index} to list {tokens} loss tokens, found {entry['loss_tokens']}")
        result.append(Minibatch(first_row=row, rows=entry["rows"], loss_tokens=tokens, trajectories=members))
        row = last
    if row != len(owner):
        raise refuse(f"Expected the mini-batches to cover {len(owner)} rows, found {row}")
    return result


def near_equal_sizes(trajectories: int, batch_size: int) -> list[int]:
    """Trajectories of each mini-batch: K = max(1, round(n / batch_size)) near-equal parts, larger ones first; half rounds up."""
    parts = max(1, math.floor(trajectories / batch_size + 0.5))
    return [trajectories // parts + (index < trajectories % parts) for index in range(parts)]


def budget_sizes(tokens: list[int], budget: int) -> list[int]:
    """Trajectories of each mini-batch, in the batch's order: as many as fit into the budget of loss tokens, at least one (C3PO)."""
    sizes: list[int] = []
    left = 0
    for count in tokens:
        if sizes and count <= left:
            sizes[-1] += 1
            left -= count
        else:
            sizes.append(1)
            left = budget - count
    return sizes


def _tokens_in_order(tensors: dict[str, Array]) -> list[int]:
    """Loss tokens of each trajectory, in the order of its rows."""
    owner = tensors["row_trajectory"]
    per_row = np.add.reduceat(tensors["loss_mask"].astype(np.int64), tensors["row_offsets"][:-1])
    firsts = np.concatenate(([0], np.flatnonzero(np.diff(owner)) + 1))
    return np.add.reduceat(per_row, firsts).tolist()


def experts_of(manifest: dict[str, Any], stage: str) -> Array:
    """bool [trajectories], true for experts: another policy made them; they have a weight instead of an advantage, and no ratio."""
    found = np.array(["expert" in entry for entry in manifest["trajectories"]], dtype=bool)
    if found.any() and stage != "dapo":
        raise refuse(
            f"Expected experts in dapo batches only, found {manifest['trajectories'][int(found.argmax())]['id']}"
        )
    return found


def check_trajectories(manifest: dict[str, Any], tensors: dict[str, Array]) -> None:
    trajectories = manifest["trajectories"]
    ids = [entry["id"] for entry in trajectories]
    if any(left >= right for left, right in itertools.pairwise(ids)):
        raise refuse("Expected trajectories sorted by id without repetition")
    owner, offsets = tensors["row_trajectory"], tensors["row_offsets"]
    starts = offsets[:-1]
    rows = np.bincount(owner, minlength=len(ids))
    trained = np.bincount(owner, np.add.reduceat(tensors["loss_mask"].astype(np.int64), starts), len(ids)).astype(
        np.int64
    )
    version = tensors.get("policy_version")
    sampled = None
    if version is not None:
        per_row = np.add.reduceat((version >= 0).astype(np.int64), starts)
        sampled = np.bincount(owner, per_row, len(ids)).astype(np.int64)
    dropped = 0
    for index, entry in enumerate(trajectories):
        name = entry["id"]
        if entry["disposition"] not in DISPOSITIONS:
            raise refuse(f"Expected trajectory {name} to end by the policy's own doing, found {entry['disposition']!r}")
        if entry["rows"] != rows[index]:
            raise refuse(f"Expected trajectory {name} to list {rows[index]} rows, found {entry['rows']}")
        expected = entry["sampled_tokens"] - entry["masked_tokens"]
        if trained[index] != expected:
            first = int(np.flatnonzero(owner == index)[0]) if rows[index] else -1
            raise refuse(
                f"Expected {expected} loss tokens (sampled - masked) in trajectory {name}, found {trained[index]} "
                f"from row {first}, token 0"
            )
        if sampled is not None and "expert" not in entry and sampled[index] != entry["sampled_tokens"]:
            raise refuse(f"Expected {entry['sampled_tokens']} sampled tokens in {name}, found {sampled[index]}")
        dropped += entry["masked_tokens"]
    if manifest["counts"].get("dropped_nonfinite", 0) > dropped:
        raise refuse("Expected counts.dropped_nonfinite to be among the masked tokens, found more")


def expected_advantages(manifest: dict[str, Any]) -> Array:
    """Advantage of each trajectory, recomputed from its group's rewards: (r - mean) / (std with n-1 + delta), or r - mean.

    With pairs it is 1 or -1, for an expert its weight. Raises JobError 65 if batch.json lists another value.
    """
    is_paired = has_pairs(manifest)
    delta = None if is_paired else _delta_of(manifest["adv"])
    groups = {group["id"]: group for group in manifest["groups"]}
    if len(groups) != len(manifest["groups"]):
        raise refuse("Expected each group id once")
    values = []
    places: set[tuple[str, int]] = set()
    for entry in manifest["trajectories"]:
        name, group = entry["id"], groups.get(entry["group"])
        if group is None:
            raise refuse(f"Expected the group {entry['group']!r} of trajectory {name} to be listed")
        if "expert" in entry:
            values.append(_weight_of_expert(entry))
            continue
        if group["dropped"] is not None:
            raise refuse(
                f"Expected no rows of dropped group {group['id']} ({group['dropped']}), found trajectory {name}"
            )
        rewards = np.asarray(group["rewards"], dtype=np.float64)
        if len(rewards) < 2 or not np.isfinite(rewards).all() or len(group["outcomes"]) != len(rewards):
            raise refuse(f"Expected finite rewards and outcomes of at least two siblings in group {group['id']}")
        if not 0 <= entry["member"] < len(rewards):
            raise refuse(f"Expected member of {name} in [0, {len(rewards)}), found {entry['member']}")
        if (place := (entry["group"], entry["member"])) in places:
            raise refuse(
                f"Expected each sibling once, found member {entry['member']} of group {group['id']} again in {name}"
            )
        places.add(place)
        value = rewards[entry["member"]] - rewards.mean()
        if delta is not None:
            value /= rewards.std(ddof=1) + delta
        if is_paired:
            value = 1.0 if group["outcomes"][entry["member"]] == 1 else -1.0
        listed = entry["advantage"]
        if type(listed) not in (int, float) or not abs(listed - value) <= 1e-5 * abs(value):
            raise refuse(f"Expected advantage {value:.8g} of {name} from its group's rewards, found {listed!r}")
        if value == 0:
            raise refuse(f"Expected no rows of a zero-advantage trajectory, found {name}")
        values.append(value)
    return np.asarray(values, dtype=np.float64)


def has_pairs(manifest: dict[str, Any]) -> bool:
    adv = manifest.get("adv")
    return isinstance(adv, dict) and "pairs" in adv


def check_pairs(manifest: dict[str, Any], tensors: dict[str, Array]) -> None:
    """In row order, trajectories alternate: a chosen one, then a rejected one of the same group."""
    if manifest["adv"]["pairs"] != "outcome":
        raise refuse(f"Expected adv.pairs to be 'outcome', found {manifest['adv']['pairs']!r}")
    entries = [manifest["trajectories"][at] for at in in_row_order(tensors["row_trajectory"])]
    for at in range(0, len(entries), 2):
        pair = entries[at : at + 2]
        found = [(entry["group"], entry["advantage"]) for entry in pair]
        if found != [(pair[0]["group"], 1), (pair[0]["group"], -1)]:
            raise refuse(
                f"Expected a chosen and a rejected trajectory of one group from {pair[0]['id']} on, found {found}"
            )


def in_row_order(row_trajectory: Array) -> Array:
    """Each trajectory's index once, in row order; the rows of a trajectory are adjacent."""
    return row_trajectory[np.concatenate(([0], np.flatnonzero(np.diff(row_trajectory)) + 1))]


def _weight_of_expert(entry: dict[str, Any]) -> float:
    weight = entry["expert"]
    if type(weight) not in (int, float) or not 0 < weight < math.inf:
        raise refuse(f"Expected a weight above 0 of the expert {entry['id']}, found {weight!r}")
    if (entry["member"], entry["advantage"]) != (None, None):
        raise refuse(f"Expected the expert {entry['id']} to be no member of its group and to have no advantage")
    return float(weight)


def turn_advantages(manifest: dict[str, Any]) -> list[Array] | None:
    """By trajectory, what each turn adds to the trajectory's advantage; None if turns have no rewards of their own.

    The return G of a turn is the sum of its step reward and all later ones. The result is (G - mean) / (std with n-1 + delta) over the
    siblings that have a turn of this index, 0 if all agree, times `adv.step_weight` (GiGPO, arXiv 2505.10978 eq. 7 and 8, with the turn's
    index as anchor state).
    """
    weight = manifest["adv"].get("step_weight")
    if weight is None:
        return None
    if type(weight) not in (int, float) or not 0 < weight < math.inf:
        raise refuse(f"Expected adv.step_weight above 0, found {weight!r}")
    by_group = {group["id"]: _over_turns(group, _delta_of(manifest["adv"])) for group in manifest["groups"]}
    result = []
    for entry in manifest["trajectories"]:
        if "expert" in entry:
            result.append(np.zeros(0))
            continue
        found = by_group[entry["group"]][entry["member"]]
        if len(found) != entry["turns"] or len(entry["turn_tokens"]) != entry["turns"]:
            raise refuse(
                f"Expected a step reward and a count of tokens for each of {entry['turns']} turns of {entry['id']}, "
                f"found {len(found)} and {len(entry['turn_tokens'])}"
            )
        if sum(entry["turn_tokens"]) != entry["sampled_tokens"] or min(entry["turn_tokens"]) < 0:
            raise refuse(f"Expected turn_tokens of {entry['id']} to add up to {entry['sampled_tokens']} sampled tokens")
        result.append(weight * found)
    return result


def _over_turns(group: dict[str, Any], delta: float | None) -> list[Array]:
    rewards = [np.asarray(turns, dtype=np.float64) for turns in group["step_rewards"]]
    if len(rewards) != len(group["rewards"]) or not all(np.isfinite(turns).all() for turns in rewards):
        raise refuse(f"Expected finite step rewards of {len(group['rewards'])} siblings in group {group['id']}")
    returns = [turns[::-1].cumsum()[::-1] for turns in rewards]
    advantages = [np.zeros(len(turns)) for turns in returns]
    for turn in range(max(map(len, returns), default=0)):
        members = [member for member, turns in enumerate(returns) if turn < len(turns)]
        values = np.array([returns[member][turn] for member in members])
        if np.ptp(values) < EQUAL_RETURNS:
            continue
        scale = 1.0 if delta is None else values.std(ddof=1) + delta
        for member, value in zip(members, (values - values.mean()) / scale, strict=True):
            advantages[member][turn] = value
    return advantages


def spread_over_tokens(
    manifest: dict[str, Any], tensors: dict[str, Array], own: Array, turns: list[Array] | None
) -> tuple[Array, Array]:
    """Expected advantage [T] of loss tokens, and the summed magnitude [T] of its parts, which bounds the rounding error.

    own: advantage of each trajectory; turns: what each turn adds. The sampled tokens of a trajectory belong to its turns in order.
    """
    lengths = np.diff(tensors["row_offsets"])
    expected = np.repeat(own[tensors["row_trajectory"]], lengths)
    if turns is None:
        return expected, np.abs(expected)
    owner = np.repeat(tensors["row_trajectory"], lengths)
    sampled = np.flatnonzero(tensors["policy_version"] >= 0)
    # Sorted by trajectory, and by position in the file within each.
    places = sampled[np.argsort(owner[sampled], kind="stable")]
    added = np.zeros(len(expected))
    tokens = [[] if "expert" in entry else entry["turn_tokens"] for entry in manifest["trajectories"]]
    added[places] = np.concatenate(
        [np.repeat(values, np.array(counts, dtype=np.int64)) for values, counts in zip(turns, tokens, strict=True)]
    )
    return expected + added, np.abs(expected) + np.abs(added)


def _delta_of(adv: Any) -> float | None:
    """Term added to the standard deviation; None: no division by it (Dr. GRPO, arXiv 2503.20783)."""
    if isinstance(adv, dict):
        if adv.get("std") == "none" and "delta" not in adv:
            return None
        if adv.get("std") == "n-1" and type(adv.get("delta")) in (int, float):
            return float(adv["delta"])
    raise refuse(f"Expected adv to be {{std: 'n-1', delta, filter}} or {{std: 'none', filter}}, found {adv!r}")


def check_lag(manifest: dict[str, Any], version: Array, policy: InputPolicy, allowed: int) -> None:
    """Checks that the input's policy, or one at most `allowed` versions older, sampled each token."""
    current = _number(policy.version or "v000000-")
    for index in np.unique(version[version >= 0]).tolist():
        entry = manifest["policies"][index]
        if entry["manifest_sha256"] == policy.manifest_sha256:
            continue
        lag = current - _number(entry["version"])
        same_number_other_policy = lag == 0 and entry["version"] != policy.version
        if not 0 <= lag <= allowed or same_number_other_policy:
            token = int(np.flatnonzero(version == index)[0])
            raise refuse(
                f"Expected tokens of policy {policy.version or policy.manifest_sha256[:8]} or at most {allowed} versions "
                f"older, found {entry['version']} at index {token}"
            )


def _number(version: str) -> int:
    match = re.match(r"v(\d{6})-", version)
    if match is None:
        raise refuse(f"Expected policy versions like v000123-<8 hex>, found {version!r}")
    return int(match[1])
