"""Judges requests by the classes of one serving engine: a JSON question a line in, a JSON answer a line out."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import sys
from typing import Any


def main() -> None:
    package = sys.argv[1]
    # What the package says while it is imported must not look like an answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    rules = importlib.import_module(f"{package}_rules")
    for line in sys.stdin:
        question = json.loads(line)
        print(json.dumps(_answer(rules, package, question), default=_spell), file=answers, flush=True)


def _answer(rules: Any, package: str, question: dict[str, Any]) -> Any:
    try:
        if question["ask"] == "judge":
            return rules.judge(question["method"], question["path"], question["query"], question.get("body"))
        if question["ask"] == "answer":
            return rules.answer(question["what"], question["version"])
        if question["ask"] == "parse":
            return rules.parse(question["command"])
        if question["ask"] == "longest":
            return {"tokens": rules.longest(question["config"], question["overrides"], question["asked"])}
        if question["ask"] == "environment":
            return rules.environment()
        return {"version": importlib.metadata.version(package)}
    except (Exception, SystemExit) as error:
        return {"error": f"{type(error).__name__}: {error}"}


def _spell(value: Any) -> Any:
    return sorted(value) if isinstance(value, set | frozenset) else vars(value)


main()
