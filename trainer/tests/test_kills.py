"""The kill matrix with one rank: real signals at every failpoint of failpoints.py, torn directories, a full disk.

The disturbed job is always the same: DAPO, two mini-batches, two epochs, so four optimizer steps; commits in order are
prox, canary-old, inner 1 to 3, checkpoint, policy.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import shutil
import signal
from pathlib import Path

import pytest
from job_files import JobFiles, make_config, make_draft, make_job
from strikes import finish, run, start

from longhaul_trainer.directory import open_sealed

CUTS = ("staged", "sealed", "renamed", "committed")
# Always run: one failpoint of each kind, and every cut of an inner commit and of the final commit.
OFTEN = [
    "started",
    "prox:2",
    "before-backward:6",
    "after-backward:6",
    "after-update:2",
    *(f"inner.{cut}" for cut in CUTS),
    *(f"checkpoint.{cut}" for cut in CUTS),
    "policy.renamed",
]
SELDOM = [
    "loaded",
    "prox",
    "before-backward",
    "after-backward",
    *(f"after-update:{count}" for count in (1, 3, 4)),
    *(f"inner.{cut}:2" for cut in CUTS),
    *(f"{kind}.{cut}" for kind in ("prox", "canary-old", "policy") for cut in CUTS if f"{kind}.{cut}" not in OFTEN),
]
PLACES = [*OFTEN, *(pytest.param(place, marks=pytest.mark.slow) for place in SELDOM)]


def dapo_job(root: Path, policy: Path) -> JobFiles:
    return make_job(root, policy, make_draft(policy, stage="dapo"), make_config("dapo"))


def outputs(job: JobFiles) -> tuple[bytes, str, str, str]:
    """Outputs that must not depend on interruptions."""
    return (
        (job.checkpoint / "state.safetensors").read_bytes(),
        (job.checkpoint / "metrics.jsonl").read_text(),
        open_sealed(job.checkpoint).sha256,
        open_sealed(job.policy).sha256,
    )


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, policy: Path) -> JobFiles:
    job = dapo_job(tmp_path_factory.mktemp("undisturbed"), policy)
    assert run(job.write()) == 0
    return job


@pytest.mark.parametrize("place", PLACES)
def test_sigkill_loses_at_most_one_step_and_no_bit(
    tmp_path: Path, policy: Path, undisturbed: JobFiles, place: str
) -> None:
    job = dapo_job(tmp_path, policy)
    assert run(job.write(), strike=f"KILL@{place}") == -signal.SIGKILL
    assert run(job.write(fence=2, attempt=2)) == 0
    assert outputs(job) == outputs(undisturbed)
    first, second = ([e["opt_step"] for e in job.events(fence) if e["event"] == "opt_step"] for fence in (1, 2))
    # Together the attempts run every step once, and at most one step twice.
    assert sorted({*first, *second}) == [1, 2, 3, 4]
    assert len(first) + len(second) <= 5
    # A directory with its final name is adopted, not written again.
    if place in ("checkpoint.renamed", "checkpoint.committed") or place.startswith("policy."):
        assert second == []
    assert not list(job.root.rglob(".staging-*"))


def test_a_job_killed_at_each_of_its_attempts_still_ends_in_the_same_bits(
    tmp_path: Path, policy: Path, undisturbed: JobFiles
) -> None:
    job = dapo_job(tmp_path, policy)
    strikes = ("prox.renamed", "after-update:1", "inner.sealed:1", "checkpoint.renamed", "policy.staged")
    for fence, place in enumerate(strikes, start=1):
        assert run(job.write(fence=fence, attempt=fence), strike=f"KILL@{place}") == -signal.SIGKILL
    assert run(job.write(fence=9, attempt=9)) == 0
    assert outputs(job) == outputs(undisturbed)


def test_two_concurrent_attempts_commit_once(tmp_path: Path, policy: Path, undisturbed: JobFiles) -> None:
    """The older attempt stops just before its rename, the newer one commits, then the older one continues."""
    job = dapo_job(tmp_path, policy)
    older = start(job.write(), strike="STOP@checkpoint.sealed")
    os.waitpid(older, os.WUNTRACED)
    assert run(job.write(fence=2)) == 0
    os.kill(older, signal.SIGCONT)
    assert finish(older) == 76
    assert outputs(job) == outputs(undisturbed)
    # After the last check of fences the rename decides. With equal keys both outputs are right.
    shutil.rmtree(job.root)
    job = dapo_job(tmp_path, policy)
    older, younger = (start(job.write(fence=fence)) for fence in (1, 2))
    assert finish(younger) == 0
    assert finish(older) in (0, 76)
    assert outputs(job) == outputs(undisturbed)


@pytest.mark.parametrize("harm", ["missing marker", "missing shard", "flipped byte", "foreign marker"])
def test_torn_checkpoint_is_never_loaded(tmp_path: Path, policy: Path, undisturbed: JobFiles, harm: str) -> None:
    job = dapo_job(tmp_path, policy)
    assert run(job.write(), strike="KILL@after-update:3") == -signal.SIGKILL
    torn = job.job_dir / "inner" / "2"
    state = torn / "state.safetensors"
    if harm == "missing marker":
        # With all files intact it would be finished, like one that was cut after its rename.
        (torn / "COMMITTED").unlink()
        (torn / "metrics.jsonl").write_text("")
    elif harm == "missing shard":
        state.unlink()
    elif harm == "flipped byte":
        data = bytearray(state.read_bytes())
        data[len(data) // 2] ^= 1
        state.write_bytes(data)
    else:
        (torn / "COMMITTED").write_text("0" * 64)
    assert run(job.write(fence=2)) == 0
    assert [e["opt_step"] for e in job.events(2) if e["event"] == "resumed"] == [1]
    assert outputs(job) == outputs(undisturbed)


@pytest.mark.parametrize("harm", ["missing shard", "flipped byte", "missing marker"])
def test_torn_final_checkpoint_is_moved_aside_and_made_again(
    tmp_path: Path, policy: Path, undisturbed: JobFiles, harm: str
) -> None:
    job = dapo_job(tmp_path, policy)
    assert run(job.write(), strike="KILL@checkpoint.committed") == -signal.SIGKILL
    state = job.checkpoint / "state.safetensors"
    data = bytearray(state.read_bytes())
    data[-1] ^= 1
    state.unlink()
    if harm != "missing shard":
        state.write_bytes(data)
    if harm == "missing marker":
        (job.checkpoint / "COMMITTED").unlink()
    assert run(job.write(fence=2)) == 0
    assert outputs(job) == outputs(undisturbed)
    assert len(list(job.checkpoint.parent.glob(".torn-*"))) == 1


TERM_PLACES = ["started", "prox", "before-backward", "after-update:2", "checkpoint.staged"]
TERM_SELDOM = ["loaded", "after-backward:6", "inner.staged", "checkpoint.committed", "policy.staged"]


@pytest.mark.parametrize("place", [*TERM_PLACES, *(pytest.param(p, marks=pytest.mark.slow) for p in TERM_SELDOM)])
def test_sigterm_at_every_phase_leaves_a_resumable_job(
    tmp_path: Path, policy: Path, undisturbed: JobFiles, place: str
) -> None:
    job = dapo_job(tmp_path, policy)
    code = run(job.write(), strike=f"TERM@{place}")
    # After the commit of the last step the job finishes instead of stopping.
    assert code == (0 if place.startswith(("checkpoint", "policy")) else 75)
    assert job.exit_report()["code"] == code
    assert run(job.write(fence=2)) == 0
    assert outputs(job) == outputs(undisturbed)


def mount_small_disk(at: Path, size: str) -> None:
    """Mounts a tmpfs in a mount namespace of the calling process, which disappears with it. Needs root."""
    libc = ctypes.CDLL(None, use_errno=True)
    new_namespace, private = 0x00020000, 0x40000 | 0x4000
    assert libc.unshare(new_namespace) == 0, os.strerror(ctypes.get_errno())
    assert libc.mount(b"none", b"/", None, private, None) == 0, os.strerror(ctypes.get_errno())
    options = f"size={size}".encode()
    assert libc.mount(b"tmpfs", str(at).encode(), b"tmpfs", 0, options) == 0, os.strerror(ctypes.get_errno())


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
@pytest.mark.parametrize("size", ["16k", "400k", "1200k"])
def test_full_disk_is_73_and_leaves_no_partial_output(tmp_path: Path, policy: Path, size: str) -> None:
    """Disks of the three sizes fill up in the first save, between inner checkpoints, and in the final checkpoint."""
    job = dapo_job(tmp_path, policy)
    disk = tmp_path / "disk"
    disk.mkdir()
    for name in ("checkpoint_uri", "policy_uri"):
        job.spec["output"][name] = f"file://{disk}/{name}/{job.spec['output']['policy_version']}"
    job.spec["work"]["job_dir"] = str(disk / "job")
    seen = tmp_path / "seen.json"

    def look() -> None:
        """Runs in the child, which alone sees the disk."""
        names = [path.relative_to(disk).as_posix() for path in disk.rglob("*")]
        seen.write_text(json.dumps({"names": names, "exit": (disk / "job/attempts/1/exit.json").exists()}))

    assert run(job.write(), before=lambda: mount_small_disk(disk, size), after=look) == 73
    names = json.loads(seen.read_text())["names"]
    assert not [name for name in names if name.startswith("checkpoint_uri/v")]
    assert not [name for name in names if ".staging-" in name]


def test_out_of_memory_is_78(tmp_path: Path, policy: Path) -> None:
    draft = make_draft(policy, stage="dapo", groups=16, longest=500, batch_size=64)
    config = make_config("dapo", batch_size=64, epochs=1)
    job = make_job(tmp_path, policy, draft, config, execution={"max_tokens_per_micro": 100_000})

    def limit() -> None:
        """Limits memory to 24 MiB more, after using up heap memory that earlier tests have freed."""
        malloc = ctypes.CDLL(None).malloc
        malloc.argtypes, malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        now = pages * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now, resource.RLIM_INFINITY))
        while malloc(2**18) is not None:
            pass
        resource.setrlimit(resource.RLIMIT_AS, (now + 24 * 2**20, now + 24 * 2**20))

    assert run(job.write(), before=limit) == 78
    assert job.exit_report()["class"] == "out-of-memory"
    assert not job.checkpoint.exists()
    # The same limit with smaller micro-batches.
    job.spec["execution"]["max_tokens_per_micro"] = 512
    assert run(job.write(fence=2), before=limit) == 0


def test_diverged_job_stops_with_77_and_commits_nothing(tmp_path: Path, policy: Path) -> None:
    """With a learning rate of 1e30 the first update destroys the weights, and the second step has no finite gradient."""
    config = make_config("dapo")
    config["optimizer"]["lr"] = 1e30
    job = make_job(tmp_path, policy, make_draft(policy, stage="dapo"), config)
    assert run(job.write()) == 77
    assert [e["metric"] for e in job.events() if e["event"] == "alarm" and e["action"] == "halt"] == ["grad_norm"]
    assert not job.checkpoint.exists()
    assert not job.policy.exists()
    # A second attempt diverges too: divergence depends on the job, not on the attempt.
    assert run(job.write(fence=2)) == 77
