"""Mutation testing, with mutmut, of the code that decides what is trained: `objective/`, `batch/` and `step/`.

    python trainer/mutate.py [--json OUT] [--scratch DIRECTORY] [--processes N] [--sample FOLDER=N] [PATH …]

PATH is a folder or file below `longhaul_trainer/`, such as `objective` or `batch/micro.py`. Without PATH all three folders run, and the
result is written to RESULT.
A mutant is one small change of the code. It runs in a process forked from one that has imported torch, against those of the folder's
TESTS that reach the changed function, fastest first, until one fails. A mutant survives if no test fails.

A folder may have more mutants than a machine can test in a night. `--sample step=500` tests 500 of them, chosen by a hash of their
names, so that a larger sample contains a smaller one. The score is then an estimate with an interval.

Run it with the trainer's interpreter. `requirements-mutate.lock` pins mutmut's further dependencies, which are installed once into the
user's cache. Mutants run in a copy of the tree: in a temporary folder, or below `--scratch`, which is kept and whose killed mutants are
not tested again. Exit 1: a folder's score is below LEAST_SCORE, or PAGE does not explain a survivor. Exit 2: nothing could be measured.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import hashlib
import importlib.metadata
import json
import math
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PACKAGE = "longhaul_trainer"
LEAST_SCORE = 0.9
RESULT = HERE.parent / "bench" / "results" / "mutation-python.json"
LOCK = HERE / "requirements-mutate.lock"
PAGE = HERE.parent / "docs" / "mutation-testing-python.md"
# Quick tests in one process. Long tests (kill matrices, several ranks, real subprocesses) would take minutes per mutant.
# A surviving mutant runs all tests of its folder, so each folder has its own list.
TESTS = {
    "objective": (
        "test_objectives",
        "test_algorithms::test_each_algorithm_has_its_own_token_weights_for_short_and_long_trajectories",
        "test_algorithms::test_gspo_clips_the_geometric_mean_of_a_row",
        "test_algorithms::test_gspo_takes_the_dual_clip_of_a_whole_row",
        "test_algorithms::test_cispo_clips_the_weight_and_keeps_the_gradient",
        "test_algorithms::test_cispo_counts_the_tokens_beyond_its_bounds",
        "test_algorithms::test_experts_are_imitated_with_their_weights_and_have_no_ratio",
        "test_algorithms::test_the_divergence_is_a_double_and_0_without_a_reference",
        "test_algorithms::test_a_tensor_that_the_algorithm_needs_may_not_be_missing",
        "test_algorithms::test_dr_grpo_needs_a_length",
        "test_algorithms::test_a_row_of_gspo_has_a_bounded_ratio",
        "test_algorithms::test_the_divergence_of_a_token_is_bounded_and_has_no_gradient_there",
        "test_algorithms::test_entropy_and_divergence_are_averaged_as_the_algorithm_averages",
        "test_algorithms::test_row_corrections_use_the_product_or_the_geometric_mean",
        "test_algorithms::test_dpo_is_minus_the_log_of_the_logistic_of_the_margin",
    ),
    "batch": (
        "test_batch_rules",
        "test_micro",
        "test_algorithms::test_a_token_budget_fills_mini_batches_in_order",
        "test_algorithms::test_a_batch_that_was_cut_for_another_budget_is_refused",
    ),
    "step": (
        "test_step_parts",
        "test_step_reading",
        "test_training_step",
        "test_job_records",
        "test_spec",
        "test_algorithms::test_a_constant_token_budget_replaces_the_token_count_as_divisor",
        "test_algorithms::test_each_turn_is_trained_by_its_own_advantage",
        "test_algorithms::test_pairs_give_the_loss_and_gradient_of_dpo_in_one_micro_batch_or_eight",
        "test_algorithms::test_a_reference_other_than_the_one_of_the_config_is_refused",
        "test_algorithms::test_a_checkpoint_and_a_policy_with_another_tokenizer_are_no_reference",
        "test_unreadable_inputs",
        "test_step::test_next_job_continues_the_optimizer_and_the_step_count",
        "test_step::test_the_first_update_begins_with_the_moments_of_the_input_where_they_are_carried",
        "test_step::test_manifest_counts_the_updates_and_names_the_resulting_state",
        "test_step::test_an_update_that_is_applied_twice_ends_the_job",
        "test_window::test_a_policy_gets_log_probabilities_with_and_without_its_rope",
    ),
}
# The fake GPU of this test stays registered in its process. Torch then starts threads for backward passes, and no process forked
# afterwards can train: every mutant that a test with a job reaches would count as killed.
LEFT_OUT = "tests/test_step_reading.py::test_updates_on_a_gpu_are_fused_and_others_are_not"
# mutmut derives the time limit of a mutant from the time of its tests and these two. They are generous, because it counts wall time,
# also on a busy machine.
TIMEOUT_S, TIMEOUT_FACTOR = 10.0, 4.0
DETECTED = ("killed", "timeout")
NOT_TRIED = "not tried"


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """pytest hook in the mutants' processes: runs fast tests first, so that a slow test runs only if no other fails."""
    from mutmut.state import state

    durations = state().duration_by_test
    items.sort(key=lambda item: durations.get(item.nodeid, 0.0))


def main() -> int:
    parser = argparse.ArgumentParser(description="Mutation testing of objective/, batch/ and step/", allow_abbrev=False)
    parser.add_argument("paths", nargs="*", metavar="PATH", help="folders or files below longhaul_trainer/")
    parser.add_argument(
        "--json",
        type=Path,
        metavar="OUT",
        help="where the result is written (default: RESULT where all folders run, else nowhere)",
    )
    parser.add_argument("--scratch", type=Path, help="folder of the copy, kept; killed mutants are not tried again")
    parser.add_argument("--processes", type=int, default=1, help="mutants at once (default 1)")
    parser.add_argument(
        "--sample", action="append", default=[], metavar="FOLDER=N", help="try N mutants of the folder, not all of them"
    )
    options = parser.parse_args()
    samples = dict(_sample(text) for text in options.sample)
    patterns = [_pattern(path) for path in options.paths or TESTS]
    packages = _install_mutmut()
    sys.path.append(str(packages))
    mutants, survivors = [], []
    began = time.monotonic()
    with _scratch(options.scratch) as scratch:
        resumed = any(scratch.iterdir())
        for folder in TESTS:
            if chosen := [pattern for pattern in patterns if pattern.split("/")[1] == folder]:
                found = _mutate(scratch / folder, folder, chosen, packages, (options.processes, samples.get(folder)))
                if not found:
                    print(f"Expected mutants of {folder} and tests that pass without them, see above", file=sys.stderr)
                    return 2
                mutants += found
                survivors += _describe_survivors(scratch / folder, found)
    result = _summarise(mutants, survivors, seconds=time.monotonic() - began, resumed=resumed)
    target = options.json or (None if options.paths else RESULT)
    if target is not None:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    return _judge(result)


def _pattern(path: str) -> str:
    """Path below PACKAGE → glob of mutmut. Raises SystemExit 2 if it does not exist."""
    name = path.removeprefix("trainer/").removeprefix(f"{PACKAGE}/").rstrip("/")
    if name.split("/")[0] not in TESTS or not (HERE / PACKAGE / name).exists():
        print(f"Expected PATH to be a folder or file below {', '.join(TESTS)}, got {path}", file=sys.stderr)
        raise SystemExit(2)
    return f"{PACKAGE}/{name}" if name.endswith(".py") else f"{PACKAGE}/{name}/*"


def _sample(text: str) -> tuple[str, int]:
    """FOLDER=N → (folder, N). Raises SystemExit 2 for any other text."""
    folder, _, count = text.partition("=")
    if folder not in TESTS or not count.isdecimal() or int(count) == 0:
        print(
            f"Expected --sample to be FOLDER=N with a folder of {', '.join(TESTS)} and N ≥ 1, got {text}",
            file=sys.stderr,
        )
        raise SystemExit(2)
    return folder, int(count)


def run_mutmut_sampled(count: int) -> None:
    """Runs mutmut's CLI over the `count` mutants whose names have the smallest hashes."""
    import mutmut.__main__ as mutmut

    collect = mutmut.collect_source_file_mutation_data

    def collect_sample(*, mutant_names: Any) -> Any:
        mutants, data = collect(mutant_names=mutant_names)
        return sorted(mutants, key=lambda mutant: hashlib.sha256(mutant[1].encode()).hexdigest())[:count], data

    mutmut.collect_source_file_mutation_data = collect_sample
    mutmut.cli()


def _install_mutmut() -> Path:
    """Folder of the pinned packages, named by the lock's hash and the Python version. Installs them if it is missing."""
    try:
        importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        print(f"Expected the trainer's environment (requirements.lock), got {sys.executable}", file=sys.stderr)
        raise SystemExit(2) from None
    version = ".".join(platform.python_version_tuple()[:2])
    name = f"{hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]}-{version}"
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "longhaul" / "mutmut" / name
    if folder.exists():
        return folder
    print("installing mutmut (once)", file=sys.stderr)
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder.parent))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    try:
        subprocess.run([*pip, "--require-hashes", "--target", str(unfinished), "-r", str(LOCK)], check=True)
        # The rename fails if another process finished the folder meanwhile; that folder is equivalent.
        with contextlib.suppress(OSError):
            unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder


@contextlib.contextmanager
def _scratch(chosen: Path | None) -> Iterator[Path]:
    if chosen is not None:
        chosen.mkdir(parents=True, exist_ok=True)
        yield chosen.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="longhaul-mutate-") as folder:
        yield Path(folder)


def _mutate(
    scratch: Path, folder: str, patterns: list[str], packages: Path, effort: tuple[int, int | None]
) -> list[dict[str, Any]]:
    """`effort`: (processes, number of mutants to test; None: all). Returns an empty list if mutmut could not run."""
    _copy_tree(scratch, folder, patterns)
    if (scratch / "mutants").exists():
        _forget_survivors(scratch)
    return _read_mutants(scratch, patterns) if _run_mutmut(scratch, packages, *effort) == 0 else []


def _copy_tree(scratch: Path, folder: str, patterns: list[str]) -> None:
    for name in (PACKAGE, "tests"):
        # Keep the `mutants` folder: mutmut recognises changed files by their modification times.
        shutil.rmtree(scratch / name, ignore_errors=True)
        shutil.copytree(HERE / name, scratch / name, ignore=shutil.ignore_patterns("__pycache__"))
    # Not beside the package: mutmut removes that folder from the path, so that only the mutated package can be imported.
    (scratch / "plugin").mkdir(exist_ok=True)
    shutil.copy2(__file__, scratch / "plugin" / "mutate.py")
    settings = {
        "source_paths": [PACKAGE],
        "only_mutate": patterns,
        "pytest_add_cli_args_test_selection": [_select(name) for name in TESTS[folder]],
        "pytest_add_cli_args": ["-p", "mutate", "-p", "no:cacheprovider", "-m", "not slow", "--deselect", LEFT_OUT],
        "timeout_constant": TIMEOUT_S,
        "timeout_multiplier": TIMEOUT_FACTOR,
        "use_setproctitle": False,
        "use_git_change_detection": False,
    }
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    markers = 'markers = ["slow: long proofs"]'
    text = "\n".join(["[tool.mutmut]", *lines, "", "[tool.pytest.ini_options]", markers, ""])
    (scratch / "pyproject.toml").write_text(text)


def _select(name: str) -> str:
    """`file` or `file::test` → argument of pytest."""
    file, _, test = name.partition("::")
    return f"tests/{file}.py::{test}" if test else f"tests/{file}.py"


def _forget_survivors(scratch: Path) -> None:
    """Makes mutmut test survivors again, because new tests may kill them, and timeouts, because the machine may have been busy."""
    for meta in (scratch / "mutants").rglob("*.meta"):
        value = json.loads(meta.read_text())
        codes = value["exit_code_by_key"]
        value["exit_code_by_key"] = {name: code if _status(code) == "killed" else None for name, code in codes.items()}
        meta.write_text(json.dumps(value, indent=4))
    (scratch / "mutants" / "mutmut-stats.json").unlink(missing_ok=True)


def _run_mutmut(scratch: Path, packages: Path, processes: int, sample: int | None) -> int:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(scratch / "plugin"), str(packages)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    # mutmut dies with this process (Linux, PR_SET_PDEATHSIG; SIGKILL, because jobs in the tests handle SIGTERM) and runs at low
    # priority.
    program = "import ctypes, os, signal, sys; ctypes.CDLL(None).prctl(1, signal.SIGKILL); os.nice(15); "
    program += (
        "from mutmut.__main__ import cli; sys.exit(cli())"
        if sample is None
        else f"from mutate import run_mutmut_sampled; sys.exit(run_mutmut_sampled({sample}))"
    )
    command = [sys.executable, "-c", program, "run", "--max-children", str(processes)]
    if sys.stdout.isatty():
        return subprocess.run(command, cwd=scratch, env=environment, check=False).returncode
    log = scratch / "mutmut.log"
    with log.open("wb") as file:
        code = subprocess.run(command, cwd=scratch, env=environment, stdout=file, stderr=file, check=False).returncode
    if code != 0:
        # mutmut's progress overwrites one line.
        print("\n".join(log.read_text().replace("\r", "\n").splitlines()[-60:]), file=sys.stderr)
    return code


def _status(code: int | None) -> str:
    from mutmut.stats import status_by_exit_code

    return NOT_TRIED if code is None else status_by_exit_code[code]


def _read_mutants(scratch: Path, patterns: list[str]) -> list[dict[str, Any]]:
    """One entry per mutant: file below PACKAGE, mutmut's name, status."""
    mutants = []
    for meta in sorted((scratch / "mutants" / PACKAGE).rglob("*.py.meta")):
        file = meta.relative_to(scratch / "mutants" / PACKAGE).as_posix().removesuffix(".meta")
        if not any(Path(PACKAGE, file).match(pattern) for pattern in patterns):
            continue
        codes = json.loads(meta.read_text())["exit_code_by_key"]
        mutants += [{"file": file, "name": name, "status": _status(code)} for name, code in codes.items()]
    return mutants


def _describe_survivors(scratch: Path, mutants: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Location and change of each survivor. Its `id` is stable under edits elsewhere, unlike mutmut's own numbers."""
    from mutmut.mutation.diff_apply import get_diff_for_mutant
    from mutmut.utils.format_utils import orig_function_and_class_names_from_key

    found = []
    with contextlib.chdir(scratch):
        for mutant in mutants:
            if mutant["status"] in (*DETECTED, NOT_TRIED):
                continue
            lines = get_diff_for_mutant(mutant["name"], path=Path(PACKAGE, mutant["file"])).splitlines()[3:]
            before, after = ([line[1:].strip() for line in lines if line[0] == sign] for sign in "-+")
            function, owner = orig_function_and_class_names_from_key(mutant["name"])
            place = {"file": mutant["file"], "function": f"{owner}.{function}" if owner else function}
            change = {"before": "\n".join(before), "after": "\n".join(after)}
            text = json.dumps([place, change], sort_keys=True)
            identity = hashlib.sha256(text.encode()).hexdigest()[:8]
            found.append({"id": identity, **place, "status": mutant["status"], **change})
    return found


def _summarise(
    mutants: list[dict[str, Any]], survivors: list[dict[str, Any]], *, seconds: float, resumed: bool
) -> dict[str, Any]:
    folders: dict[str, Counter[str]] = {}
    for mutant in mutants:
        folders.setdefault(mutant["file"].split("/")[0], Counter())[mutant["status"]] += 1
    packages = ("mutmut", "pytest", "torch", "transformers", "numpy")
    return {
        "command": " ".join(["python", "trainer/mutate.py", *sys.argv[1:]]),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": _git("rev-parse", "HEAD"),
        "dirty": _git("status", "--porcelain") != "",
        "machine": {"cores": os.cpu_count(), "kernel": platform.release(), "architecture": platform.machine()},
        "versions": {
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in packages},
        },
        "sources_sha256": _hash_sources(),
        "tests": TESTS,
        "seconds": round(seconds),
        "resumed": resumed,
        "folders": {
            name: {"mutants": counts.total(), **dict(sorted(counts.items())), **_score(counts)}
            for name, counts in sorted(folders.items())
        },
        "survivors": survivors,
    }


def _score(counts: Counter[str]) -> dict[str, Any]:
    """Share of tested mutants that a test detected; for a sample also Wilson's 95 % interval of the share over all mutants."""
    tried = counts.total() - counts[NOT_TRIED]
    share = sum(counts[status] for status in DETECTED) / tried
    if tried == counts.total():
        return {"score": round(share, 4)}
    z = 1.959964
    centre = (share + z * z / (2 * tried)) / (1 + z * z / tried)
    half = z * math.sqrt(share * (1 - share) / tried + z * z / (4 * tried * tried)) / (1 + z * z / tried)
    return {"score": round(share, 4), "interval": [round(centre - half, 4), round(centre + half, 4)]}


def _git(*arguments: str) -> str:
    found = subprocess.run(["git", *arguments], cwd=HERE, capture_output=True, text=True, check=False)
    return found.stdout.strip() if found.returncode == 0 else "unknown"


def _hash_sources() -> str:
    """Hash of the mutated folders and of their tests, by name and content."""
    files = [path for folder in TESTS for path in (HERE / PACKAGE / folder).rglob("*.py")]
    files += [HERE / _select(name).partition("::")[0] for names in TESTS.values() for name in names]
    total = hashlib.sha256()
    for path in sorted(files):
        total.update(f"{path.relative_to(HERE).as_posix()}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()


def _judge(result: dict[str, Any]) -> int:
    for name, counts in result["folders"].items():
        tried = counts["mutants"] - counts.get(NOT_TRIED, 0)
        sample = "" if "interval" not in counts else " ({:.1%} to {:.1%})".format(*counts["interval"])
        print(f"{name:10} {tried:5} of {counts['mutants']:5} mutants  score {counts['score']:.1%}{sample}")
    page = PAGE.read_text() if PAGE.exists() else ""
    unexplained = [survivor for survivor in result["survivors"] if survivor["id"] not in page]
    for survivor in unexplained:
        print(f"not in {PAGE.name}: {survivor['id']} {survivor['file']} {survivor['function']} ({survivor['status']})")
        print("\n".join([f"  - {survivor['before']}", f"  + {survivor['after']}"]))
    low = [name for name, counts in result["folders"].items() if counts["score"] < LEAST_SCORE]
    if low:
        print(f"Expected a score of {LEAST_SCORE:.0%} in each folder, got less in {', '.join(low)}")
    return 1 if low or unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
