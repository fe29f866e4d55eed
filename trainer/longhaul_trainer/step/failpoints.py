"""Named places at which a test may inject a real signal into the job. Off unless LONGHAUL_TRAINER_STRIKE is set.

`KILL@after-update:2` sends SIGKILL the second time that the place is passed (`:1` when left out); `STOP@before-backward/1`
does it only in rank 1. Places: `started`, `reference`, `loaded`, `prox`, `before-backward`, `after-backward`, `after-update`, and of each
commit `KIND.staged` (files written, no manifest), `KIND.sealed` (manifest, not renamed), `KIND.renamed` (no marker),
`KIND.committed`, where KIND is reference, prox, canary-old, inner, checkpoint, policy or window.
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
    """Marks that the job passes `place`. Without the variable it costs one look-up of the environment."""
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
