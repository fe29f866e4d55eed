"""Prints the evaluation scripts that an official harness makes of rows: scripts.py KIND FOLDER < rows.json > scripts.json

KIND: swebench-4.1, swebench-5 or fork-4.0.3. A row that the harness raises for gives {"error": "<exception type>"}.
"""

import importlib
import json
import pathlib
import sys

import harness_package

kind, folder = sys.argv[1], pathlib.Path(sys.argv[2])
harness_package.open_package(folder)
harness_package.without_network()


def script_of(row: dict) -> str:
    if kind == "swebench-5":
        utils = importlib.import_module("swebench.harness.utils")
        run = importlib.import_module("swebench.harness.run_evaluation")
        spec = utils.make_test_spec(row)
        # As it stages files that are there.
        entries = [entry for key in ("test_patch", "patch") for entry in spec.image_assets.get(key) or []]
        paths = [entry["path"] for entry in entries if entry.get("path")]
        restore = [f"mkdir -p $(dirname {path}) && cp /image_assets/{path.replace('/', '__')} {path}" for path in paths]
        return run._inject_asset_restore(spec.eval_script, restore)
    if kind == "fork-4.0.3":
        row = importlib.import_module("swebench.harness.utils")._clean_install_config(row)
    return importlib.import_module("swebench.harness.test_spec.test_spec").make_test_spec(row).eval_script


answers = []
for row in json.load(sys.stdin):
    try:
        answers.append({"script": script_of(row)})
    except Exception as error:
        answers.append({"error": type(error).__name__})
json.dump(answers, sys.stdout)
