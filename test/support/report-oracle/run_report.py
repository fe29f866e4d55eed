"""Has swebench write its own run report over files that are already there: run_report.py SITE_PACKAGES CASE.json

CASE.json: {"runId", "ids", "predictions": [prediction]}; the working directory holds logs/. Prints the report's file name.
Libraries that only talk to engines and the network are stand-ins: nothing here calls them.
"""

import contextlib
import importlib.abc
import importlib.machinery
import json
import pathlib
import sys
from unittest.mock import MagicMock

STAND_INS = {
    "bs4",
    "chardet",
    "datasets",
    "docker",
    "dotenv",
    "fastcore",
    "ghapi",
    "git",
    "huggingface_hub",
    "modal",
    "requests",
    "rich",
    "tenacity",
    "tqdm",
    "unidiff",
}


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in STAND_INS:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        module = MagicMock(name=spec.name)
        module.__path__ = []
        module.__spec__ = spec
        return module

    def exec_module(self, module):
        pass


sys.meta_path.append(StandIns())
sys.path.insert(0, sys.argv[1])
case = json.loads(pathlib.Path(sys.argv[2]).read_text())
with contextlib.redirect_stdout(sys.stderr):
    from swebench.harness.reporting import make_run_report

    report = make_run_report(
        {prediction["instance_id"]: prediction for prediction in case["predictions"]},
        [{"instance_id": instance_id} for instance_id in case["ids"]],
        case["runId"],
    )
print(report)
