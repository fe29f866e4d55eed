"""Ranks of one machine communicate over loopback, and no rank reads a pickle. Otherwise the network could run code in a job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from job_files import TRAINER, die_with_parent, make_config, make_draft, make_job
from rank_processes import run_ranks
from test_rank_jobs import TWO, torchrun

from longhaul_trainer.directory import Sealed
from longhaul_trainer.failures import JobError
from longhaul_trainer.parallel.ranks import Ranks

WATCH = Path(__file__).parent / "pickle_watch"
# Writes the addresses on which this rank and its parent listen, in the kernel's notation, while both ranks run.
LISTENERS = """
import json, os, torch, torch.distributed as dist
from pathlib import Path
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
OBJECTS = None
sockets = set()
for pid in (os.getpid(), os.getppid()):
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        try:
            sockets.add(os.readlink(fd))
        except OSError:
            pass
found = []
for table in ("tcp", "tcp6"):
    for line in Path("/proc/self/net", table).read_text().splitlines()[1:]:
        words = line.split()
        if words[3] == "0A" and f"socket:[{words[9]}]" in sockets:
            found.append(words[1].split(":")[0])
Path(os.environ["FOUND"], os.environ["RANK"]).write_text(json.dumps(found))
dist.barrier()
dist.destroy_process_group()
# As the trainer ends its ranks: see end_process.
os._exit(0)
"""
LOOPBACK = "0100007F"


def launch(launcher: list[str], script: str, folder: Path, **environment: str) -> dict[str, Any]:
    """Launches two ranks and returns what each wrote below `folder`."""
    (folder / "script.py").write_text(script)
    found = folder / "found"
    found.mkdir()
    command = [sys.executable, "-m", *launcher, "--nproc-per-node=2", "--max-restarts=0", str(folder / "script.py")]
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "FOUND": str(found), **environment}
    subprocess.run(command, cwd=TRAINER, env=variables, check=True, timeout=600, preexec_fn=die_with_parent)
    return {path.name: json.loads(path.read_text()) for path in found.iterdir()}


@pytest.mark.skipif(sys.platform != "linux", reason="reads the kernel's tables of Linux")
def test_ranks_of_one_machine_and_their_launcher_listen_on_loopback(tmp_path: Path) -> None:
    found = launch(["longhaul_trainer.parallel.launch"], LISTENERS, tmp_path)
    assert sorted(found) == ["0", "1"]
    for addresses in found.values():
        # The launcher's store, and the rank's listener for the other rank.
        assert addresses == [LOOPBACK, LOOPBACK]


@pytest.mark.skipif(sys.platform != "linux", reason="reads the kernel's tables of Linux")
def test_the_listener_check_sees_those_of_torchruns_own_rendezvous(tmp_path: Path) -> None:
    found = launch(["torch.distributed.run", "--standalone"], LISTENERS, tmp_path, GLOO_SOCKET_IFNAME="lo")
    assert set(found["0"]) - {LOOPBACK} == {"0" * 32}


def watched(notes: Path) -> dict[str, str]:
    notes.mkdir()
    return {"PYTHONPATH": str(WATCH), "PICKLE_NOTES": str(notes)}


def test_whole_job_of_two_ranks_reads_no_pickle(tmp_path: Path, policy: Path) -> None:
    job = make_job(tmp_path / "two", policy, make_draft(policy, stage="dapo"), make_config("dapo"), execution=TWO)
    notes = tmp_path / "notes"
    assert torchrun(job, variables=watched(notes)) == 0
    # Writes are ignored: at import a library tries whether one of its objects can be pickled.
    assert {path.name: path.read_text() for path in notes.glob("*-read.txt")} == {}


def test_a_pickle_between_ranks_is_recorded(tmp_path: Path) -> None:
    script = LISTENERS.replace("OBJECTS = None", "dist.all_gather_object([None, None], {})")
    notes = tmp_path / "notes"
    launch(["longhaul_trainer.parallel.launch"], script, tmp_path, **watched(notes))
    kinds = {path.stem.partition("-")[2] for path in notes.iterdir()}
    assert kinds == {"read", "write"}


def exchange(ranks: Ranks) -> list[Any]:
    values = [None, "ü" * 1000 * ranks.rank, [1, 2.5, {"a": None}], {"rank": ranks.rank}]
    sealed = Sealed(path=Path(f"/{ranks.rank}/a b"), sha256="ab", manifest={"files": [], "x": 1.5})
    return [
        [ranks.gather(value) for value in values],
        ranks.first(lambda: {"who": ranks.rank}),
        ranks.first_sealed(lambda: sealed)
        == Sealed(path=Path("/0/a b"), sha256="ab", manifest={"files": [], "x": 1.5}),
        ranks.first_found(lambda: None),
    ]


def test_values_of_any_size_reach_every_rank_as_json() -> None:
    both = [[None, None], ["", "ü" * 1000], [[1, 2.5, {"a": None}]] * 2, [{"rank": 0}, {"rank": 1}]]
    assert run_ranks(exchange, world=2) == [[both, {"who": 0}, True, None]] * 2


def refuse(ranks: Ranks) -> str:
    def work() -> Any:
        return object() if ranks.is_first else pytest.fail("Only the first rank works")

    try:
        ranks.first(work)
    except JobError as error:
        return f"{error.code} {error.message}"
    return "accepted"


def test_value_that_json_cannot_carry_fails_every_rank_and_leaves_none_waiting() -> None:
    said = run_ranks(refuse, world=2)
    assert said[0] == said[1]
    assert said[0].startswith("70 Ranks exchange JSON values")
