"""Sealed directories: which files are hashed, by which rank, and the messages for differences."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from longhaul_trainer.directory import (
    TornDirectory,
    mark_committed,
    open_sealed,
    seal,
    sha256_bytes,
    verify_files,
    write_durably,
    write_manifest,
)

NAMES = [f"state-{rank}" for rank in range(5)]


def make_directory(path: Path) -> Path:
    path.mkdir()
    for name in NAMES:
        (path / name).write_bytes(name.encode() * 1000)
    return path


def test_known_hashes_are_reused_and_the_manifest_is_the_same(tmp_path: Path) -> None:
    alone, given = make_directory(tmp_path / "alone"), make_directory(tmp_path / "given")
    expected = seal(alone, kind="inner", facts={"key": "k"})
    known = {name: sha256_bytes(name.encode() * 1000) for name in NAMES[:3]}
    assert write_manifest(given, kind="inner", facts={"key": "k"}, known=known) == expected
    mark_committed(given, expected)
    assert open_sealed(given).sha256 == expected
    wrong = make_directory(tmp_path / "wrong")
    mark_committed(wrong, write_manifest(wrong, kind="inner", facts={}, known={"state-1": "0" * 64}))
    with pytest.raises(TornDirectory, match=r"state-1 to hash to 0{64}"):
        open_sealed(wrong)


def test_writers_with_one_process_id_never_show_a_mixture(tmp_path: Path) -> None:
    """Like ranks in several containers, which all write exit.json when a rank is lost."""
    path = tmp_path / "exit.json"
    texts = [str(writer).encode() * (writer + 1) * 1000 for writer in range(4)]
    with ThreadPoolExecutor(len(texts)) as pool:
        writers = [pool.submit(write_durably, path, text) for text in texts * 25]
        while not all(writer.done() for writer in writers):
            assert not path.exists() or path.read_bytes() in texts
    assert [writer.exception() for writer in writers] == [None] * 100
    assert [entry.name for entry in tmp_path.iterdir()] == ["exit.json"]


def test_a_marker_that_is_not_text_is_torn(tmp_path: Path) -> None:
    path = make_directory(tmp_path / "sealed")
    seal(path, kind="checkpoint", facts={})
    (path / "COMMITTED").write_bytes(b"\xff\xfe" * 32)
    with pytest.raises(TornDirectory, match=r"Expected .*COMMITTED to hold"):
        open_sealed(path)


@pytest.mark.parametrize("name", NAMES)
def test_exactly_one_of_all_parts_finds_a_changed_file(tmp_path: Path, name: str) -> None:
    path = make_directory(tmp_path / "sealed")
    seal(path, kind="checkpoint", facts={})
    manifest = open_sealed(path).manifest
    (path / name).write_bytes(b"x" * (path / name).stat().st_size)
    found = []
    for part in range(3):
        try:
            verify_files(path, manifest, hashes=True, part=(part, 3))
        except TornDirectory as error:
            found.append(str(error))
    assert len(found) == 1
    assert str(path / name) in found[0]
