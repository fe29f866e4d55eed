"""Leases of served versions, and the choice of a version to evict. Pure functions; times are in seconds since 1970."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Lease:
    renewed_at: float
    lease_s: float


@dataclass
class Loaded:
    """One served version. `last_used` renews its leases: a policy that is being sampled is not abandoned."""

    version: str
    path: str
    manifest_sha256: str | None
    last_used: float
    leases: dict[str, Lease] = field(default_factory=dict)

    def holders(self, now: float) -> list[str]:
        return sorted(
            holder
            for holder, lease in self.leases.items()
            if now < max(lease.renewed_at, self.last_used) + lease.lease_s
        )


def choose_eviction(versions: list[Loaded], *, holder: str | None, now: float) -> Loaded | None:
    """The least recently used version without holders, or else without holders other than `holder`; None if there is none.

    A holder never waits for itself: its next version may replace its own ones.
    """
    free = [loaded for loaded in versions if not loaded.holders(now)]
    if free:
        return min(free, key=lambda loaded: loaded.last_used)
    own = [loaded for loaded in versions if holder is not None and loaded.holders(now) == [holder]]
    return min(own, key=lambda loaded: loaded.last_used, default=None)
