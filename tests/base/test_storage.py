"""Addresses such as s3://bucket/night.csv: what is one, and how it is read and written."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stageguard as sg
from cli_runner import error_line, write_night
from stageguard import storage
from stageguard.errors import (
    FileFormatError,
    InputError,
    MissingExtraError,
    MissingFileError,
    OutputError,
    OutputExistsError,
    StageGuardError,
)
from stageguard.files import read_file, real_path, write_together
from stageguard.formats.registry import formats, named
from stageguard.storage import is_remote, location

fsspec = pytest.importorskip("fsspec")
pytest.importorskip("upath")

PROFILE = "human-psg-5"
ODD_NAMES = ("a b#c%20d.csv", "a?b=1.csv", "Größe 夜.csv", "a[1]*.csv", "C:\\x.csv")


@pytest.fixture
def memory():
    """An empty store in memory."""
    store = fsspec.filesystem("memory")
    store.store.clear()
    store.pseudo_dirs[:] = [""]
    yield store
    store.store.clear()


@pytest.fixture
def night(tmp_path):
    return write_night(tmp_path / "night.csv", hours=1)


# ---- what is an address


@pytest.mark.parametrize(
    "path",
    ["C:/nights/a.csv", "C:\\nights\\a.csv", "a:b/c.csv", "x/s3:/a", "/s3:/a", "night:1.csv", "s3", "a//b"],
)
def test_paths_stay_paths(path):
    assert location(path) == Path(path)
    assert location(Path(path)) == Path(path)


@given(st.from_regex(r"[A-Za-z][A-Za-z0-9+.\-]{1,8}:/[a-z][ -~]{0,20}", fullmatch=True))
def test_an_address_that_lost_a_slash_is_refused(address):
    for path in (address, Path(address)):
        with pytest.raises(InputError, match="lost a slash"):
            location(path)


def test_a_file_address_is_a_path(tmp_path, night):
    night.rename(tmp_path / "a b#1.csv")
    address = (tmp_path / "a b#1.csv").as_uri()
    assert "%20" in address
    assert location(address) == tmp_path / "a b#1.csv"
    assert sg.read_density(address).n_epochs == 120
    with pytest.raises(InputError, match="another computer"):
        location("file://elsewhere/a.csv")


@pytest.mark.parametrize(("scheme", "module", "extra"), [("s3", "s3fs", "remote"), ("gs", "gcsfs", "gs")])
def test_a_missing_library_is_one_line_with_its_extra(monkeypatch, scheme, module, extra):
    for name in (module, "upath"):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, name, None)
            patch.setattr(storage, "import_module", None, raising=False)
            with pytest.raises(MissingExtraError) as caught:
                location(f"{scheme}://bucket/night.csv")
            assert f'pip install "stageguard[{extra}]"' in str(caught.value)
            assert "\n" not in str(caught.value)


def test_local_paths_load_no_fsspec(night):
    code = (
        "import sys\nfrom stageguard.cli import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit as end:\n    assert not end.code\n"
        "assert not {'fsspec', 'upath', 's3fs', 'urllib.request'} & set(sys.modules), sorted(sys.modules)\n"
    )
    arguments = ["decode", str(night), "-p", PROFILE, "-o", str(night.parent / "out")]
    ran = subprocess.run(
        [sys.executable, "-c", code, *arguments], check=False, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    assert (night.parent / "out" / "night.hypnogram.json").is_file()


# ---- reading


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_are_read_and_written(memory, night, name):
    memory.pipe(f"/nights/{name}", night.read_bytes())
    density = sg.read_density(f"memory://nights/{name}")
    assert density == sg.read_density(night) or density.source == name
    assert np.array_equal(density.probabilities, sg.read_density(night).probabilities)
    written = sg.decode(density, PROFILE).save(f"memory://out/{name}.hypnogram.tsv")
    assert memory.exists(f"/out/{name}.hypnogram.tsv") and memory.exists(f"/out/{name}.hypnogram.json")
    assert sg.read_hypnogram(written.path).n_epochs == 120


WRITABLE = [form.name for form in formats() if form.does("write") and form.does("hypnogram")]


@pytest.mark.parametrize("form", WRITABLE)
def test_formats_are_read_from_a_store_as_from_files(memory, tmp_path, form):
    """Readers that need a file of this computer, and companions beside a file, work in a store."""
    profile = "kdd2026-mouse-eeg-emg" if form.startswith("accusleep") else PROFILE
    night = sg.decode(sg.simulate_night(profile, hours=1, seed=1).density, profile)
    suffix = named(form, "write").written_suffix
    written = night.save(tmp_path / f"night{suffix}", format=form)
    stored = night.save(f"memory://n/night{suffix}", format=form)
    assert [path.name for path in stored.files] == [path.name for path in written.files]
    read = [
        sg.read_hypnogram(one.path, format=form, scheme=night.hypnogram.scheme) for one in (written, stored)
    ]
    assert read[0] == read[1] and read[0].n_epochs > 100


def test_a_changed_object_is_read_again(memory, night):
    memory.pipe("/night.csv", night.read_bytes())
    before = sg.read_density("memory://night.csv")
    memory.pipe("/night.csv", night.read_bytes()[:-200].rpartition(b"\n")[0] + b"\n")
    assert sg.read_density("memory://night.csv").n_epochs < before.n_epochs
    memory.rm("/night.csv")
    with pytest.raises(MissingFileError, match=r"memory://night.csv: No such file"):
        sg.read_density("memory://night.csv")


def test_objects_that_are_no_files(memory, night):
    memory.pipe("/nights/night.csv", night.read_bytes())
    memory.pipe("/empty.csv", b"")
    with pytest.raises(FileFormatError, match="nights: is a folder"):
        sg.read_density("memory://nights")
    with pytest.raises(FileFormatError, match=r"empty.csv: is empty"):
        sg.read_density("memory://empty.csv")
    with pytest.raises(MissingFileError):
        sg.read_recording("memory://none.edf")


def test_objects_have_limits(memory, monkeypatch):
    memory.pipe("/large.csv", b"x" * 100)
    monkeypatch.setattr("stageguard.files.MOST_BYTES", 99)
    with pytest.raises(FileFormatError, match=r"^large.csv: has 100 bytes, expected at most 99"):
        read_file(location("memory://large.csv"))


# ---- bytes and open files


def test_bytes_and_open_files_are_read_like_files(night):
    expected = sg.read_density(night).probabilities
    data = night.read_bytes()
    for source in (data, bytearray(data), memoryview(data), io.BytesIO(data)):
        assert np.array_equal(sg.read_density(source).probabilities, expected)
    with night.open("rb") as file:
        density = sg.read_density(file)
        assert not file.closed
    assert density.source == "night.csv"
    assert sg.read_hypnogram(b"W\nN1\nN2\nR\n" * 5).n_epochs == 20
    array = io.BytesIO()
    np.save(array, expected)
    array.seek(0)
    assert np.array_equal(sg.read_density(array, stages=["W", "N1", "N2", "N3", "R"]).probabilities, expected)


@pytest.mark.parametrize("read", [sg.read_density, sg.read_hypnogram, sg.read_recording])
def test_what_cannot_be_read_from_is_one_line(tmp_path, read):
    with pytest.raises(InputError, match="open as text"):
        read(io.StringIO("W,N1\n"))
    with (tmp_path / "x").open("wb") as file, pytest.raises(InputError, match="open for reading"):
        read(file)
    with pytest.raises(FileFormatError, match=r"^bytes: "):
        read(b"")
    closed = io.BytesIO(b"abc")
    closed.close()
    with pytest.raises(InputError, match="closed"):
        read(closed)


# ---- writing


def test_nothing_is_replaced_unless_told(memory):
    path = location("memory://out/a.txt")
    write_together({path: "1"})
    with pytest.raises(OutputExistsError):
        write_together({path: "2"})
    assert memory.cat("/out/a.txt") == b"1"
    write_together({path: "2"}, overwrite=True)
    assert memory.cat("/out/a.txt") == b"2"


def test_outputs_spare_inputs(memory, night):
    memory.pipe("/night.csv", night.read_bytes())
    path = location("memory://night.csv")
    with pytest.raises(OutputError, match="same file"):
        write_together({path: "x"}, overwrite=True, spare=[location("memory:///night.csv")])
    assert real_path(path) == path and is_remote(path)


def test_an_object_that_appears_meanwhile_is_not_replaced(memory, monkeypatch):
    path = location("memory://out/a.txt")
    monkeypatch.setattr("stageguard.files.check_places", lambda *_, **__: None)
    memory.pipe("/out/a.txt", b"of another process")
    with pytest.raises(OutputExistsError):
        write_together({path: "2"})
    assert memory.cat("/out/a.txt") == b"of another process"


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_failure_restores_the_objects_before(memory, monkeypatch, overwrite):
    first, second, last = (location(f"memory://out/{name}") for name in ("a", "b", "c.json"))
    if overwrite:
        memory.pipe("/out/a", b"old")
    real, order = storage.write_object, []

    def failing(path, data, **options):
        order.append(path.name)
        if path == last:
            raise OSError(28, "No space left")
        real(path, data, **options)

    monkeypatch.setattr(storage, "write_object", failing)
    with pytest.raises(OutputError, match="No space left"):
        write_together({first: "1", second: "2", last: "{}"}, overwrite=overwrite)
    assert order[:3] == ["a", "b", "c.json"]
    assert {name: memory.cat(name) for name in memory.find("/out")} == (
        {"/out/a": b"old"} if overwrite else {}
    )


def test_the_sidecar_is_written_last(memory, monkeypatch):
    order = []
    real = storage.write_object
    monkeypatch.setattr(
        storage, "write_object", lambda path, *a, **k: (order.append(path.name), real(path, *a, **k))[1]
    )
    decoding = sg.decode(sg.simulate_night(PROFILE, hours=1, seed=1).density, PROFILE)
    decoding.save("memory://out/n.hypnogram.tsv")
    assert order == ["n.hypnogram.tsv", "n.hypnogram.json"]


# ---- the web


class _Site(BaseHTTPRequestHandler):
    def do_HEAD(self):
        self.do_GET(has_body=False)

    def do_GET(self, *, has_body=True):
        path, _, query = self.path.partition("?")
        code = 200 if path == "/night%201.csv" else 404
        if path == "/secret.csv":
            code = 200 if query == "token=SECRET" or "Authorization" in self.headers else 403
        data = self.server.content if code == 200 else b""
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if has_body:
            self.wfile.write(data)

    def log_message(self, *_):
        pass


@pytest.fixture
def site(night):
    """A web site with one night, and one that asks for a token."""
    server = HTTPServer(("127.0.0.1", 0), _Site)
    server.content = night.read_bytes()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_the_web_is_read_and_not_written(site, night):
    density = sg.read_density(f"http://{site}/night 1.csv")
    assert np.array_equal(density.probabilities, sg.read_density(night).probabilities)
    with pytest.raises(OutputError, match="only read"):
        density.save(f"http://{site}/out.csv")
    with pytest.raises(MissingFileError, match="No such file"):
        sg.read_density(f"http://{site}/none.csv")
    with pytest.raises(MissingFileError, match="not reached"):
        sg.read_density("http://127.0.0.1:1/night.csv")


def test_secrets_of_an_address_are_used_and_never_shown(site, tmp_path, run):
    for address in (f"http://{site}/secret.csv?token=SECRET", f"http://me:SECRET@{site}/secret.csv#x"):
        density = sg.read_density(address)
        assert density.source == "secret.csv"
        ran = run("decode", address, "-p", PROFILE, "-o", tmp_path / "out", "--overwrite")
        assert ran.code == 0
        assert "SECRET" not in ran.out + ran.err
        assert "SECRET" not in "".join(path.read_text() for path in (tmp_path / "out").iterdir())
    for address in (
        f"http://{site}/secret.csv?token=SECRETS",
        f"http://me:SECRET@{site}/none.csv",
        f"http://{site}/none.csv?token=SECRET",
        "http://me:SECRET@127.0.0.1:1/night.csv?token=SECRET",
        "s3://me:SECRET@bucket/night.csv",
        "xyz://me:SECRET@bucket/night.csv?token=SECRET",
        "s3:/me:SECRET@bucket/night.csv?token=SECRET",
    ):
        line = error_line(run("decode", address, "-p", PROFILE, "-o", tmp_path / "none"))
        assert "SECRET" not in line
        with pytest.raises(StageGuardError) as caught:
            sg.read_density(address)
        assert "SECRET" not in str(caught.value)
    with pytest.raises(MissingFileError, match="Permission denied"):
        sg.read_density(f"http://{site}/secret.csv")


# ---- every command


def test_a_profile_is_saved_and_loaded(memory):
    profile = sg.Profile.load(PROFILE)
    profile.save("memory://profiles/mine.toml")
    assert sg.Profile.load("memory://profiles/mine.toml") == profile
    assert sg.Profile.load(location("memory://profiles/mine.toml")) == profile


def test_a_simulated_cohort_is_marked_in_a_store(memory, night):
    memory.pipe("/cohort/nights/night.csv", night.read_bytes())
    from stageguard.files import is_synthetic

    assert not is_synthetic("memory://cohort/nights/night.csv")
    memory.pipe("/cohort/synthetic.json", b"{}")
    assert is_synthetic("memory://cohort/nights/night.csv")
