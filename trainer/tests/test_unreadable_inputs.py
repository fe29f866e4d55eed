"""An unreadable input gives 66. With 73 the pipeline would retry the job, and an operator would inspect the output."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from job_files import TRAINER, die_with_parent, make_config, make_draft, make_job

from longhaul_trainer.directory import Sealed, open_sealed, sha256_bytes
from longhaul_trainer.failures import INPUT_UNUSABLE, INVALID_SPEC, IO_ERROR, OUTPUT_UNWRITABLE, JobError, io_code
from longhaul_trainer.parallel.ranks import Ranks
from longhaul_trainer.step.command import step
from longhaul_trainer.step.commit import adopt
from longhaul_trainer.step.inputs import find_damage
from longhaul_trainer.step.spec import parse_spec

CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2
PR_CAPBSET_DROP = 24


def obey_modes() -> None:
    """Runs in the child before exec: drops the capabilities with which root reads every file."""
    die_with_parent()
    if os.geteuid() == 0:
        for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
            assert ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0


def run(*words: str | Path) -> tuple[int, str]:
    command = [sys.executable, "-m", "longhaul_trainer", *map(str, words)]
    ended = subprocess.run(command, cwd=TRAINER, capture_output=True, text=True, preexec_fn=obey_modes, check=False)
    return ended.returncode, ended.stderr


@pytest.fixture
def own(tmp_path: Path, policy: Path) -> Path:
    """A policy whose permissions a test may change."""
    return shutil.copytree(policy, tmp_path / "policy")


@pytest.mark.parametrize(
    ("closed", "code", "kind"),
    [("policy/model.safetensors", 66, "input-unusable"), ("batch/batch.safetensors", 65, "batch-refused")],
)
def test_an_unreadable_input_of_a_job_is_refused_by_its_name(
    tmp_path: Path, own: Path, closed: str, code: int, kind: str
) -> None:
    job = make_job(tmp_path, own, make_draft(own, stage="rft"), make_config("rft"))
    spec = job.write()
    assert run("step", "--spec", spec, "--dry-run")[0] == 0
    (tmp_path / closed).chmod(0)
    found, told = run("step", "--spec", job.write(fence=2), "--dry-run")
    assert (found, job.exit_report(2)["class"]) == (code, kind)
    assert f"{kind}: " in told
    assert str(tmp_path / closed) in told


def test_a_job_that_cannot_write_still_reports_it(tmp_path: Path, own: Path) -> None:
    job = make_job(tmp_path, own, make_draft(own, stage="rft"), make_config("rft"))
    job.job_dir.mkdir()
    job.job_dir.chmod(0o500)
    found, told = run("step", "--spec", job.write(), "--dry-run")
    assert found == OUTPUT_UNWRITABLE
    assert str(job.job_dir) in told


@pytest.fixture
def broken() -> Path:
    """A file that exists and may be opened; each read fails with EIO, like one on a disk or a mount with a fault."""
    path = Path("/proc/self/mem")
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        path.read_bytes()
    return path


@pytest.mark.parametrize("name", ["config.json", "batch/batch.json", "policy/MANIFEST.json", "policy/COMMITTED"])
def test_an_input_with_a_read_error_is_retried_and_not_refused(
    tmp_path: Path, own: Path, broken: Path, name: str
) -> None:
    job = make_job(tmp_path, own, make_draft(own, stage="rft"), make_config("rft"))
    spec = job.write()
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to(broken)
    assert step(spec, dry_run=True) == IO_ERROR
    assert job.exit_report(1)["class"] == "io-error"


def test_a_spec_with_a_read_error_is_retried_and_a_missing_one_refused(tmp_path: Path, broken: Path) -> None:
    assert step(broken, dry_run=True) == IO_ERROR
    assert step(tmp_path / "spec.json", dry_run=True) == INVALID_SPEC


def test_an_output_with_a_read_error_is_not_moved_aside(tmp_path: Path, own: Path, broken: Path) -> None:
    sealed = open_sealed(own)
    intact = (own / "MANIFEST.json").rename(tmp_path / "intact")
    (own / "MANIFEST.json").symlink_to(broken)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        adopt(own, key="k")
    intact.replace(own / "MANIFEST.json")
    assert open_sealed(own) == sealed


class OfTwo(Ranks):
    """The first of two ranks; the other one finds nothing."""

    def gather(self, value: object) -> list[object]:
        return [value, None]


def test_a_rank_that_cannot_read_its_part_ends_the_job_and_reports_no_damage(tmp_path: Path, broken: Path) -> None:
    ranks = OfTwo(device=torch.device("cpu"), world=2)
    manifest = {"files": [{"path": broken.name, "bytes": 0, "sha256": "0" * 64}]}
    with pytest.raises(JobError) as caught:
        find_damage(Sealed(path=broken.parent, sha256="", manifest=manifest), ranks)
    assert (caught.value.code, "Input/output error" in caught.value.message) == (IO_ERROR, True)
    readable = tmp_path / broken.name
    readable.touch()
    found = find_damage(Sealed(path=tmp_path, sha256="", manifest=manifest), ranks)
    assert found == f"Expected {readable} to hash to {'0' * 64}, found {sha256_bytes(b'')}"


def test_an_export_distinguishes_an_unreadable_source_from_an_unwritable_target(tmp_path: Path, own: Path) -> None:
    shelf = tmp_path / "shelf"
    shelf.mkdir(0o500)
    found, told = run("export", own, shelf / "plain")
    assert (found, told.split(":")[0]) == (OUTPUT_UNWRITABLE, "output-unwritable")
    (own / "model.safetensors").chmod(0)
    found, told = run("export", own, tmp_path / "plain")
    assert (found, told.split(":")[0]) == (INPUT_UNUSABLE, "input-unusable")
    assert str(own / "model.safetensors") in told
    assert not (tmp_path / "plain").exists()


def test_an_import_names_the_unreadable_file(tmp_path: Path, own: Path) -> None:
    (own / "model.safetensors").chmod(0)
    found, told = run("import", own, tmp_path / "made")
    assert (found, told.splitlines()[-1].split(":")[0]) == (INPUT_UNUSABLE, "input-unusable")
    assert f"Permission denied: '{own / 'model.safetensors'}'" in told


@pytest.mark.parametrize(
    ("number", "path", "code"),
    [
        (errno.EACCES, "/in/deep/weights", INPUT_UNUSABLE),
        (errno.EPERM, "/in", INPUT_UNUSABLE),
        (errno.EACCES, "/inner/weights", OUTPUT_UNWRITABLE),
        (errno.EACCES, None, OUTPUT_UNWRITABLE),
        (errno.ENOSPC, "/in/weights", OUTPUT_UNWRITABLE),
        (errno.EIO, "/in/weights", IO_ERROR),
    ],
)
def test_the_path_of_an_os_error_decides_between_input_and_output_fault(
    number: int, path: str | None, code: int
) -> None:
    error = OSError(number, os.strerror(number), path)
    assert io_code(error, [Path("/other"), Path("/in")]) == code


def test_the_inputs_of_a_job_are_those_of_its_spec(tmp_path: Path, policy: Path) -> None:
    job = make_job(tmp_path, policy, make_draft(policy, stage="rft"), make_config("rft"))
    reference = {"uri": "file:///reference", "manifest_sha256": open_sealed(policy).sha256}
    assert parse_spec(job.spec).input_paths == [policy]
    assert parse_spec({**job.spec, "reference": reference}).input_paths == [policy, Path("/reference")]
