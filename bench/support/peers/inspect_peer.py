"""The tasks of the race for Inspect, and what its logs say of them.

As a task file of Inspect: its own docker sandbox (Compose), its own agent (`react` with the tool `bash`), and a scorer as that of
inspect_evals' SWE-bench: the evaluation script runs in the agent's sandbox and swebench 4.1.0 reads the log. PEERS_JOB names a JSON file
{"tasks": [{"id", "statement", "image", "repo", "version", "failToPass", "passToPass", "script"}]}.

As a program, `inspect_peer.py LOGS` prints {task: verdict} of the newest log that has one.
"""

import importlib
import json
import os
import pathlib
import sys
import tempfile
import types

from inspect_ai import Task, task
from inspect_ai.agent import react
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.log import list_eval_logs, read_eval_log
from inspect_ai.scorer import Score, accuracy, scorer
from inspect_ai.tool import bash
from inspect_ai.util import sandbox
from inspect_ai.util._sandbox.docker import prereqs

COMPOSE = """services:
  default:
    image: "{image}"
    x-local: true
    command: tail -f /dev/null
    init: true
    network_mode: none
    working_dir: /testbed
"""


async def any_engine() -> None:
    """Inspect asks for engine 24.0.6; the one of the race may be older, and is the same for all."""


prereqs.validate_docker_engine = any_engine


def sample(one, folder):
    compose = folder / f"{one['id']}.compose.yaml"
    compose.write_text(COMPOSE.format(image=one["image"]))
    return Sample(id=one["id"], input=one["statement"], sandbox=("docker", str(compose)), metadata=one)


@scorer(metrics=[accuracy()])
def swebench_tests():
    async def score(state, _target):
        one = state.metadata
        await sandbox().write_file("/eval.sh", one["script"])
        ran = await sandbox().exec(["bash", "-c", "bash /eval.sh 2>&1"], cwd="/testbed", timeout=1800)
        resolved = verdict_of(one, ran.stdout)
        return Score(value=1 if resolved else 0, answer="resolved" if resolved else "unresolved")

    return score


def verdict_of(one, log):
    grading = harness()
    spec = types.SimpleNamespace(
        instance_id=one["id"],
        repo=one["repo"],
        version=one["version"],
        FAIL_TO_PASS=one["failToPass"],
        PASS_TO_PASS=one["passToPass"],
    )
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.write(log)
        file.flush()
        prediction = {"instance_id": one["id"], "model_patch": "applied"}
        return grading.get_eval_report(spec, prediction, file.name, True)[one["id"]]["resolved"]


def harness():
    name = "swebench.harness.grading"
    if name not in sys.modules:
        sys.path.append(os.environ["PEERS_HARNESS_PACKAGE"])
        importlib.import_module("harness_package").open_package(pathlib.Path(os.environ["PEERS_HARNESS"]))
    return importlib.import_module(name)


@task
def peers():
    path = pathlib.Path(os.environ["PEERS_JOB"])
    tasks = json.loads(path.read_text())["tasks"]
    return Task(
        dataset=MemoryDataset([sample(one, path.parent) for one in tasks]),
        solver=react(tools=[bash(timeout=120)]),
        scorer=swebench_tests(),
    )


def main():
    verdicts = {}
    for info in list_eval_logs(sys.argv[1], descending=False):
        for one in read_eval_log(info).samples or []:
            for score in (one.scores or {}).values():
                verdicts[one.id] = score.answer
    print(json.dumps(verdicts))


if __name__ == "__main__":
    main()
