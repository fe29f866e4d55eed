"""Failpoints at which a test can send the job a real signal. Off unless LONGHAUL_TRAINER_STRIKE is set.

`KILL@after-update:2` sends SIGKILL at the second pass of the failpoint (default `:1`); `STOP@before-backward/1` sends SIGSTOP in rank 1
only. Failpoints: `started`, `reference`, `loaded`, `prox`, `before-backward`, `after-backward`, `after-update`, and in each commit
`KIND.staged` (files written, no manifest), `KIND.sealed` (manifest written, not renamed), `KIND.renamed` (no marker) and `KIND.committed`.
KIND is reference, prox, canary-old, inner, checkpoint, policy or window.
"""

from __future__ import annotations

import os
import re
import signal
from collections import Counter

VARIABLE = "LONGHAUL_TRAINER_STRIKE"
_FORM = re.compile(r"(?P<signal>[A-Z0-9]+)@(?P<place>[a-z.-]+)(:(?P<count>[1-9]\d*))?(/(?P<rank>\d+))?")
_passed: Counter[str] = Counter()


def hit(place: str) -> None:
    """Marks that the job passes `place`. Without the variable this costs one look-up in the environment."""
    setting = os.environ.get(VARIABLE)
    if setting is None:
        return
    match = _FORM.fullmatch(setting)
    if match is None:
        raise ValueError(f"Expected {VARIABLE} to look like KILL@after-update:2/1, got {setting!r}")
    if match["place"] != place or match["rank"] not in (None, os.environ.get("RANK", "0")):
        return
    _passed[setting] += 1
    if _passed[setting] == int(match["count"] or 1):
        os.kill(os.getpid(), getattr(signal, f"SIG{match['signal']}"))
