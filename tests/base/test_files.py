from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from messages import mentions
from stageguard.errors import OutputError, OutputExistsError
from stageguard.files import write_text_atomic, write_together

posix = pytest.mark.skipif(sys.platform == "win32", reason="needs signals, pipes and links")


def names_in(folder):
    return [path.name for path in folder.iterdir()]


def test_text_is_written_as_utf8_without_touching_newlines(tmp_path):
    write_text_atomic(tmp_path / "a.txt", "τ = 1\r\nβ\n")
    assert (tmp_path / "a.txt").read_bytes() == "τ = 1\r\nβ\n".encode()
    assert names_in(tmp_path) == ["a.txt"]


def test_existing_file_is_kept_unless_overwritten(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(OutputExistsError) as caught:
        write_text_atomic(path, "new")
    assert str(path) in str(caught.value) and "overwrite=True" in str(caught.value)
    assert path.read_text() == "old"
    write_text_atomic(path, "new", overwrite=True)
    assert path.read_text() == "new"
    assert names_in(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("old", ["old", None])
def test_interrupted_write_leaves_what_was_there_and_nothing_else(tmp_path, monkeypatch, error, old):
    path = tmp_path / "a.txt"
    if old is not None:
        path.write_text(old)
    seen = []

    def interrupted(temporary, target):
        seen.append(temporary.read_text())
        raise error

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(error):
        write_text_atomic(path, "new", overwrite=True)
    assert seen == ["new"]  # it was under way
    assert names_in(tmp_path) == ([] if old is None else ["a.txt"])
    assert old is None or path.read_text() == old


@posix
def test_killed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    code = (
        "import os, signal, sys\nfrom pathlib import Path\n"
        "from stageguard.files import write_text_atomic\n"
        "Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "write_text_atomic(sys.argv[1], 'new', overwrite=True)"
    )
    run = subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert run.returncode == -signal.SIGKILL
    assert path.read_text() == "old"


def test_a_read_only_disk_is_one_line_that_names_the_output(tmp_path, monkeypatch):
    def refuse(path, *_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    for name in ("open", "unlink"):  # such a disk refuses to remove even what does not exist
        monkeypatch.setattr(Path, name, refuse)
    with pytest.raises(OutputError, match=r"cannot write .*out\.txt: Read-only file system") as caught:
        write_text_atomic(tmp_path / "out.txt", "text")
    assert ".tmp" not in str(caught.value)


def test_full_disk_is_one_line(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(OutputError) as caught:
        write_text_atomic(tmp_path / "a.txt", "new")
    assert f"{tmp_path / 'a.txt'}: No space left" in str(caught.value)


@posix
@pytest.mark.parametrize("n_bytes", [2_000, 200_000], ids=["in-the-buffer", "beyond-the-buffer"])
def test_a_disk_that_fills_up_keeps_nothing_of_the_file(tmp_path, n_bytes):
    path = tmp_path / "a.txt"
    path.write_text("old")
    code = (
        "import resource, signal, sys\nfrom stageguard.errors import OutputError\n"
        "from stageguard.files import write_text_atomic\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try: write_text_atomic(sys.argv[1], 'x' * int(sys.argv[2]), overwrite=True)\n"
        "except OutputError as error: print(error)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(path), str(n_bytes)], check=True, capture_output=True, text=True
    )
    assert run.stdout.count("\n") == 1 and f"{path}: File too large" in run.stdout
    assert names_in(tmp_path) == ["a.txt"]
    assert path.read_text() == "old"


def test_missing_folder_is_named(tmp_path):
    path = tmp_path / "no" / "a.txt"
    with pytest.raises(OutputError) as caught:
        write_text_atomic(path, "new")
    assert str(caught.value) == f"cannot write {path}: folder {path.parent} does not exist. Create it first."


def test_folder_is_no_file_even_with_overwrite(tmp_path):
    with pytest.raises(OutputError) as caught:
        write_text_atomic(tmp_path, "new", overwrite=True)
    assert mentions(str(caught.value), tmp_path, "folder")


@posix
def test_device_is_never_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OutputError) as caught:
        write_text_atomic(pipe, "new", overwrite=True)
    assert str(pipe) in str(caught.value) and "is a pipe" in str(caught.value)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_new_file_has_the_permissions_of_any_new_file(tmp_path):
    write_text_atomic(tmp_path / "ours", "x")
    (tmp_path / "theirs").write_text("x")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "theirs").stat().st_mode


@posix
def test_link_is_written_through(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_text_atomic(link, "new", overwrite=True)
    assert link.is_symlink()
    assert target.read_text() == "new"


@posix
def test_the_file_to_spare_is_not_written_through_a_link(tmp_path):
    read, link = tmp_path / "night.csv", tmp_path / "night.tsv"
    read.write_text("the only copy")
    link.symlink_to(read)
    with pytest.raises(OutputError, match=r"night\.tsv: .* same file .*night\.csv"):
        write_together({link: "new"}, overwrite=True, spare=[read])
    assert read.read_text() == "the only copy"


@posix
def test_two_names_of_one_file_are_refused(tmp_path):
    first, second = tmp_path / "a", tmp_path / "b"
    second.symlink_to(first)
    with pytest.raises(OutputError, match=r"/b: .* same file .*/a\."):
        write_together({first: "1", second: "2"}, overwrite=True)
    assert not first.exists()
    assert names_in(tmp_path) == ["b"]
