"""A pytest plugin that writes what happened, event by event, to the file that LONGHAUL_PYTEST_EVENTS names.

Its last line is written by the end of the session: a session that ended earlier has none. `judge-pytest.ts` reads it.
"""

from __future__ import annotations

import json
import os
from typing import Any


def _write(event: dict[str, Any]) -> None:
    # Opened each time, so that an abrupt end loses no line.
    with open(os.environ["LONGHAUL_PYTEST_EVENTS"], "a", encoding="utf-8") as events:
        events.write(json.dumps(event) + "\n")


def _reason(report: Any) -> str:
    """A skip is (file, line, "Skipped: reason")."""
    longrepr = report.longrepr
    text = longrepr[2] if isinstance(longrepr, tuple) else str(longrepr)
    return text.removeprefix("Skipped: ")


def _error(report: Any) -> str:
    """What was raised, and below it where."""
    text = str(report.longrepr)
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = text.strip().splitlines() or [""]
    return f"{lines[-1].removeprefix('E ').strip() if crash is None else crash.message}\n{text}"


def pytest_deselected(items: Any) -> None:
    for item in items:
        marks = sorted({mark.name for mark in item.iter_markers()} - {"parametrize", "usefixtures"})
        _write({"type": "deselected", "test": item.nodeid, "reason": f"deselected, marked {' '.join(marks) or 'nothing'}"})


def pytest_collectreport(report: Any) -> None:
    if report.skipped:
        _write({"type": "unread", "test": report.nodeid, "reason": _reason(report)})
    if report.failed:
        _write({"type": "failed", "test": report.nodeid, "when": "collect", "error": _error(report)})


def pytest_collection_finish(session: Any) -> None:
    _write({"type": "collected", "tests": [item.nodeid for item in session.items]})


def pytest_runtest_logreport(report: Any) -> None:
    event = {"test": report.nodeid, "when": report.when, "seconds": report.duration}
    expected = getattr(report, "wasxfail", None)
    if report.failed:
        _write({**event, "type": "failed", "error": _error(report)})
    elif expected is not None and report.when == "call" or report.skipped:
        reason = _reason(report) if expected is None else f"xfail: {expected or 'without a reason'}"
        _write({**event, "type": "skipped", "reason": reason})
    else:
        _write({**event, "type": "passed"})


def pytest_sessionfinish(session: Any, exitstatus: Any) -> None:
    _write({"type": "end", "status": int(exitstatus)})
