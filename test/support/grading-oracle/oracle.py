"""Answers what an official harness finds in a log: JSON lines in, JSON lines out, in the same order.

    oracle.py KIND FOLDER [--texts NAMES]

`--texts` with a JSON list of parsers prints {parser: {"words": [...], "lines": [...]}} and ends: what stands literally in the parser,
its helpers and its tables, and lines that their patterns take, so that logs hold what a parser knows, not only what a maker of
logs thought of.

KIND: swebench-4.1, swebench-5, fork-4.0.3, rebench-v2, or fork-rules (swebench 4.1 without its second reading of the
whole log, which with equal parsers is what the fork does). FOLDER holds the package `swebench`, or a checkout of
SWE-rebench-V2.

In:  {"id", "parser", "logBase64", "failToPass"?, "passToPass"?, "evalType"?}
Out: {"id", "statusMap": [[name, status], ...], "resolved", "tests"} or {"id", "error": "<exception type>: ..."}

The harness's own functions run unchanged. Only the packages' `__init__` files are passed over and libraries that grading
never calls stand empty, so that neither Docker nor the hub has to be installed.
"""

import base64
import enum
import importlib
import importlib.machinery
import importlib.util
import json
import pathlib
import re
import sys
import tempfile
import types

import pattern_lines

UNUSED_LIBRARIES = {
    "datasets": ["Dataset", "load_dataset", "load_from_disk"],
    "docker": [],
    "dotenv": ["load_dotenv"],
    "requests": [],
    "tqdm": ["tqdm"],
    "unidiff": ["PatchSet"],
}


def open_package(folder: pathlib.Path) -> None:
    """Makes `swebench.*` importable without running the packages' own `__init__`."""
    for name in ["swebench", "swebench.harness"]:
        package = types.ModuleType(name)
        package.__path__ = [str(folder.joinpath(*name.split(".")))]
        sys.modules[name] = package
    for name, members in UNUSED_LIBRARIES.items():
        library = types.ModuleType(name)
        for member in members:
            setattr(library, member, lambda *_: None)
        sys.modules[name] = library
    # Only an annotation in what grading imports; the real module builds Docker files.
    spec = types.ModuleType("swebench.harness.test_spec.test_spec")
    spec.TestSpec = object
    package = types.ModuleType("swebench.harness.test_spec")
    package.test_spec = spec
    sys.modules["swebench.harness.test_spec"] = package
    sys.modules["swebench.harness.test_spec.test_spec"] = spec


class Swebench:
    """4.1, 5 and the fork: a log file, a stub of the specification, the harness's report."""

    def __init__(self, kind: str, folder: pathlib.Path, work: pathlib.Path) -> None:
        open_package(folder)
        self.kind = kind
        self.log = work / "test_output.txt"
        self.grading = importlib.import_module("swebench.harness.grading")
        self.calls = 0
        if kind == "swebench-5":
            self.parsers = self.grading.PARSER_REGISTRY
            return
        self.parsers = self.grading.MAP_REPO_TO_PARSER
        self.specs = self.grading.MAP_REPO_VERSION_TO_SPECS
        if kind != "fork-4.0.3":
            self.add_function_names(importlib.import_module("swebench.harness.log_parsers.python"))
        if kind == "fork-rules":
            for name, parser in list(self.parsers.items()):
                self.parsers[name] = self.called_once(parser)

    def add_function_names(self, module: types.ModuleType) -> None:
        for name in dir(module):
            if name.startswith("parse_log_"):
                self.parsers.setdefault(name, getattr(module, name))
                self.specs.setdefault(name, {"": {"test_cmd": ""}})

    def called_once(self, parser):
        def parse(log, spec):
            self.calls += 1
            return parser(log, spec) if self.calls == 1 else {}

        return parse

    def parser(self, name: str):
        return self.parsers[name]

    def answer(self, case: dict) -> dict:
        self.calls = 0
        log = base64.b64decode(case["logBase64"])
        # Version 5 decodes what the container printed before it writes the file that it grades.
        self.log.write_bytes(log.decode(errors="replace").encode() if self.kind == "swebench-5" else log)
        name = case["parser"]
        parser = self.parsers[name]
        spec = types.SimpleNamespace(
            instance_id="x",
            repo=name,
            version=None,
            log_parser=name,
            eval_type=case.get("evalType", "pass_and_fail"),
            install_config={"log_parser": name, "test_cmd": ""},
            FAIL_TO_PASS=case.get("failToPass", []),
            PASS_TO_PASS=case.get("passToPass", []),
        )
        if "failToPass" not in case and "passToPass" not in case:
            with open(self.log, encoding="utf-8") as file:
                return {"statusMap": list(parser(file.read(), spec).items()), "resolved": None}
        if self.kind in ("swebench-4.1", "fork-rules"):
            spec.version = next(iter(self.specs[name]))
        if self.kind != "swebench-5" and spec.eval_type == "fail_only":
            self.grading.FAIL_ONLY_REPOS = {name}
        elif self.kind != "swebench-5":
            self.grading.FAIL_ONLY_REPOS = set()
        statuses, _ = self.grading.get_logs_eval(spec, str(self.log))
        self.calls = 0
        prediction = {"instance_id": "x", "model_patch": "x"}
        report = self.grading.get_eval_report(spec, prediction, str(self.log), True)["x"]
        return {
            "statusMap": list(statuses.items()),
            "resolved": report["resolved"],
            "tests": report.get("tests_status"),
        }


class RebenchV2:
    """Its evaluation script with the container replaced by the log that it would have printed."""

    def __init__(self, folder: pathlib.Path, work: pathlib.Path) -> None:
        sys.path.insert(0, str(folder))
        loader = importlib.machinery.SourceFileLoader("rebench_v2_eval", str(folder / "scripts" / "eval.py"))
        spec = importlib.util.spec_from_loader(loader.name, loader)
        self.eval = importlib.util.module_from_spec(spec)
        loader.exec_module(self.eval)
        self.eval.LOGS_DIR = work
        self.eval.run_in_container = lambda **_: (0, self.output)

    def parser(self, name: str):
        return self.eval.get_parser(name)

    def answer(self, case: dict) -> dict:
        parser = self.parser(case["parser"])
        # As `subprocess` does it for text.
        text = base64.b64decode(case["logBase64"]).decode("utf-8")
        self.output = text.replace("\r\n", "\n").replace("\r", "\n")
        statuses = parser(self.output)
        if "failToPass" not in case and "passToPass" not in case:
            return {"statusMap": list(statuses.items()), "resolved": None}
        row = {
            "instance_id": "x",
            "repo": "x/x",
            "patch": "x",
            "test_patch": "x",
            "install_config": {"test_cmd": ["x"], "log_parser": case["parser"]},
            "FAIL_TO_PASS": case.get("failToPass", []),
            "PASS_TO_PASS": case.get("passToPass", []),
        }
        result = self.eval.evaluate_instance(row, "x", None)
        normalised = {self.eval._normalize_test_name(name): status for name, status in statuses.items()}
        return {"statusMap": list(normalised.items()), "resolved": result["passed_match"]}


LINES_OF_EACH = 120


def texts_of(function) -> dict:
    texts = constants_of(function)
    return {"words": words_in(texts), "lines": pattern_lines.lines_of(texts, LINES_OF_EACH)}


def constants_of(function) -> list[str]:
    """The string constants that a function reaches in its own module."""
    seen, texts = set(), []

    def visit(value) -> None:
        if id(value) in seen:
            return
        seen.add(id(value))
        if isinstance(value, str):
            texts.append(value)
        elif isinstance(value, re.Pattern):
            visit(value.pattern)
        elif isinstance(value, dict):
            for entry in [*value.keys(), *value.values()]:
                visit(entry)
        elif isinstance(value, (tuple, list, set, frozenset)):
            for entry in value:
                visit(entry)
        elif isinstance(value, type) and issubclass(value, enum.Enum):
            visit([member.value for member in value])
        elif isinstance(value, types.CodeType):
            visit(value.co_consts)
        elif isinstance(value, types.FunctionType):
            visit([constant for constant in value.__code__.co_consts if constant != value.__doc__])
            for name in reached_names(value.__code__):
                visit(value.__globals__.get(name))
            for cell in value.__closure__ or ():
                visit(cell.cell_contents)

    visit(function)
    return texts


def words_in(texts: list[str]) -> list[str]:
    """Words, symbols and phrases."""
    found = set()
    for text in texts:
        if 2 <= len(text) <= 60 and not re.search(r"[\\^$*+?()\[\]{}|\n]", text):
            found.add(text)
        plain = re.sub(r"\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|\\.", " ", text)
        found.update(re.findall(r"[^\W\d_][\w'’-]+", plain))
        found.update(re.findall(r"[^\w\s\x00-\x7f]", plain))
    return sorted(word for word in found if word.strip() != "")


def reached_names(code: types.CodeType) -> set[str]:
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return set(code.co_names).union(*(reached_names(one) for one in inner))


def main() -> None:
    kind, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as work:
        if kind == "rebench-v2":
            oracle = RebenchV2(folder, pathlib.Path(work))
        else:
            oracle = Swebench(kind, folder, pathlib.Path(work))
        if sys.argv[3:4] == ["--texts"]:
            names = json.loads(sys.argv[4])
            print(json.dumps({name: texts_of(oracle.parser(name)) for name in names}))
            return
        for line in sys.stdin:
            case = json.loads(line)
            try:
                answer = oracle.answer(case)
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps({"id": case["id"], **answer}), flush=True)


main()
