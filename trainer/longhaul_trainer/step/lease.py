"""One writer per job: each attempt creates leases/<fence>.json and stops when it sees a higher fence."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

from longhaul_trainer.directory import json_bytes
from longhaul_trainer.failures import FENCED, JobError
from longhaul_trainer.step.clock import now_ms


class Lease:
    """Correctness rests on the order of fences and needs no clocks."""

    def __init__(self, job_dir: Path, fence: int) -> None:
        self._job_dir = job_dir
        self._directory = job_dir / "leases"
        self._fence = fence

    def acquire(self) -> None:
        """Raises JobError 76 if another live process holds this fence, or a higher fence is claimed.

        A claim is a spec file. A launcher claims the next fence when it knows of no attempt under this one. An attempt that starts
        after the launcher gave up must not run beside the newer attempt, which may not have its lease yet. Only the lease of a newer
        attempt stops a running one, never a claim.
        """
        self._directory.mkdir(parents=True, exist_ok=True)
        self.check()
        claims = (path.stem.removeprefix("spec.") for path in self._job_dir.glob("spec.*.json"))
        newest = max((int(claim) for claim in claims if claim.isdigit()), default=-1)
        if newest > self._fence:
            raise JobError(FENCED, f"Fence {self._fence} is superseded by the claim to {newest}")
        path = self._directory / f"{self._fence}.json"
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:
            if _is_alive(_read(path)):
                raise JobError(FENCED, f"Fence {self._fence} is held by a running process [{path}]") from None
            # The same launch restarted after its process died. No other process can hold this fence.
            path.write_bytes(json_bytes(_owner(self._fence)))
        else:
            with os.fdopen(descriptor, "wb") as file:
                file.write(json_bytes(_owner(self._fence)))
                file.flush()
                os.fsync(file.fileno())
        self.check()

    def check(self) -> None:
        highest = max((int(path.stem) for path in self._directory.glob("*.json") if path.stem.isdigit()), default=-1)
        if highest > self._fence:
            raise JobError(FENCED, f"Fence {self._fence} is superseded by {highest}")


def _owner(fence: int) -> dict[str, Any]:
    pid = os.getpid()
    return {
        "fence": fence,
        "host": socket.gethostname(),
        "pid": pid,
        "pid_start": _start_time(pid),
        "boot_id": _boot_id(),
        "launcher": os.environ.get("LONGHAUL_LAUNCHER_HANDLE"),
        **_trace(),
        "t": now_ms(),
    }


def _trace() -> dict[str, str]:
    """W3C trace context of the activity that launched this attempt, if its worker exports traces."""
    traceparent = os.environ.get("TRACEPARENT")
    return {"traceparent": traceparent} if traceparent else {}


def _read(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _is_alive(owner: dict[str, Any]) -> bool:
    if owner.get("host") != socket.gethostname():
        # This process cannot check another machine, so it counts as alive. An unreadable lease names no host.
        return "host" in owner
    if owner.get("boot_id") != _boot_id() or owner.get("pid") == os.getpid():
        return False
    start = _start_time(int(owner.get("pid", 0)))
    return start is not None and start == owner.get("pid_start")


def _boot_id() -> str | None:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def _start_time(pid: int) -> str | None:
    """Start time of a process in clock ticks since boot; with the pid it identifies the process. None if the process is gone."""
    try:
        # The command name may contain spaces and brackets, so count fields after the last closing bracket.
        text = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if text[0] in ("Z", "X") else text[19]
