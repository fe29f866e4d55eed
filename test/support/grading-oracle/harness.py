"""Grades predictions with an official harness in real containers: harness.py KIND FOLDER JOB.json

KIND: swebench-4.1, swebench-5 or fork-4.0.3; FOLDER holds the package `swebench`. JOB: {"dataset": path of a JSON list of
rows, "runs": [{"id", "predictions": path, "timeout": seconds}], "workers"}. Files come into the working directory, where
the harness puts them.

The harness runs unchanged but for three things that decide no verdict: requirement files are not fetched (images are built
already), containers have no network (as ours), and they are removed at once instead of after 15 s of waiting for a process
that ignores its end. Libraries that grading containers never calls stand empty.
"""

import importlib
import json
import pathlib
import sys

import harness_package


def main() -> None:
    kind, folder, job = sys.argv[1], pathlib.Path(sys.argv[2]), json.loads(pathlib.Path(sys.argv[3]).read_text())
    harness_package.open_package(folder)
    harness_package.without_network()
    harness = importlib.import_module("swebench.harness.run_evaluation")
    harness.cleanup_container = lambda _client, container, _logger: container and container.remove(force=True)
    common = {
        "dataset_name": job["dataset"],
        "split": "test",
        "instance_ids": [],
        "max_workers": job["workers"],
        "open_file_limit": 1024,
        "rewrite_reports": False,
        "modal": False,
    }
    if kind != "swebench-5":
        namespace = "swerebench" if kind == "fork-4.0.3" else "swebench"
        common |= {"force_rebuild": False, "cache_level": "instance", "clean": False, "namespace": namespace}
    for run in job["runs"]:
        harness.main(**common, predictions_path=run["predictions"], run_id=run["id"], timeout=run["timeout"])


main()
