"""Downloads against a server on this machine that drops connections, changes files and refuses."""

from __future__ import annotations

import hashlib
import json
from functools import partial
from importlib import import_module

import pytest

from file_server import serving
from messages import naming
from stageguard.datasets import RemoteFile, osf_files, parse_sha256sums, physionet_files
from stageguard.datasets import download as module
from stageguard.datasets.download import DownloadError, Patience, digest, download, fetch_bytes
from stageguard.errors import FileFormatError, InputError, OutputError, OutputExistsError

CONTENT = bytes(range(256)) * 4000  # 1,024,000 bytes
SHA256 = hashlib.sha256(CONTENT).hexdigest()
QUICK = Patience(tries=3, first_wait_seconds=0.001, longest_wait_seconds=0.01, timeout_seconds=5)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")


def remote(site, path="night.edf", **facts):
    return RemoteFile(path, f"{site.url}/{path}", **facts)


def leftovers(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_a_file_arrives_whole_below_its_folder(tmp_path):
    with serving(files={"/a/night.edf": CONTENT}) as site:
        assert download(remote(site, "a/night.edf", sha256=SHA256), tmp_path, patience=QUICK) is True
    assert (tmp_path / "a" / "night.edf").read_bytes() == CONTENT
    assert leftovers(tmp_path) == ["night.edf"]


def test_dropped_connections_are_resumed_not_repeated(tmp_path):
    with serving(files={"/night.edf": CONTENT}, drop_after=[300_000, 1, 0, 400_000]) as site:
        download(remote(site, sha256=SHA256), tmp_path, patience=QUICK)
    assert (tmp_path / "night.edf").read_bytes() == CONTENT
    asked = [None, "bytes=300000-", "bytes=300001-", "bytes=300001-", "bytes=700001-"]
    assert site.bytes_asked == asked


def test_a_stopped_download_goes_on_in_the_next_call(tmp_path):
    def stop(have, total):
        assert total == len(CONTENT)
        if have > 500_000:
            raise KeyboardInterrupt

    with serving(files={"/night.edf": CONTENT}) as site:
        with pytest.raises(KeyboardInterrupt):
            download(remote(site, sha256=SHA256), tmp_path, patience=QUICK, on_progress=stop)
        assert not (tmp_path / "night.edf").exists()
        have = (tmp_path / "night.edf.part").stat().st_size
        assert 500_000 < have < len(CONTENT)
        download(remote(site, sha256=SHA256), tmp_path, patience=QUICK)
    assert site.bytes_asked == [None, f"bytes={have}-"]
    assert (tmp_path / "night.edf").read_bytes() == CONTENT
    assert leftovers(tmp_path) == ["night.edf"]


def test_progress_counts_what_was_there_before(tmp_path):
    seen = []
    with serving(files={"/night.edf": CONTENT}, drop_after=[400_000]) as site:
        download(remote(site), tmp_path, patience=QUICK, on_progress=lambda *now: seen.append(now))
    assert [total for _, total in seen] == [len(CONTENT)] * len(seen)
    assert [have for have, _ in seen] == sorted(have for have, _ in seen)
    assert seen[-1] == (len(CONTENT), len(CONTENT))


def test_pooch_begins_again_where_this_goes_on(tmp_path):
    """Why it does not download for us: recordings are gigabytes, and connections break."""
    pooch = pytest.importorskip("pooch")
    with serving(files={"/night.edf": CONTENT}, drop_after=[300_000]) as site:
        fetch = partial(pooch.retrieve, f"{site.url}/night.edf", f"sha256:{SHA256}", "night.edf", tmp_path)
        with pytest.raises(Exception, match=r"300000|IncompleteRead"):
            fetch()
        fetch()
        assert site.bytes_asked == [None, None]


def test_a_server_without_ranges_starts_again(tmp_path):
    with serving(files={"/night.edf": CONTENT}, drop_after=[300_000], ranges=False) as site:
        download(remote(site, sha256=SHA256), tmp_path, patience=QUICK)
    assert (tmp_path / "night.edf").read_bytes() == CONTENT
    assert [status for _, _, status in site.log] == [200, 200]


def test_a_file_that_changed_meanwhile_is_not_mixed(tmp_path):
    new = CONTENT[::-1]
    with serving(files={"/night.edf": CONTENT}, drop_after=[300_000, 0, 0, 0]) as site:
        with pytest.raises(DownloadError, match=r"ended after 300,000 of 1,024,000 bytes \(3 attempts"):
            download(remote(site), tmp_path, patience=QUICK)
        assert (tmp_path / "night.edf.part").stat().st_size == 300_000
        site.files["/night.edf"] = new
        download(remote(site), tmp_path, patience=QUICK)
    assert (tmp_path / "night.edf").read_bytes() == new


def test_bytes_without_a_version_or_digest_are_not_built_upon(tmp_path):
    with serving(files={"/night.edf": CONTENT}, drop_after=[300_000], etags=False) as site:
        download(remote(site), tmp_path, patience=QUICK)
        assert site.bytes_asked == [None, None]
        site.log.clear()
        site.drop_after.append(300_000)
        download(remote(site, "night.edf", sha256=SHA256), tmp_path / "b", patience=QUICK)
        assert site.bytes_asked == [None, "bytes=300000-"]
    assert (tmp_path / "b" / "night.edf").read_bytes() == CONTENT


def test_a_wrong_range_is_noticed(tmp_path):
    with serving(files={"/night.edf": CONTENT}, drop_after=[300_000], wrong_range=True) as site:
        download(remote(site), tmp_path, patience=QUICK)
    assert (tmp_path / "night.edf").read_bytes() == CONTENT


def test_a_complete_part_is_finished_without_a_byte(tmp_path):
    (tmp_path / "night.edf.part").write_bytes(CONTENT)
    with serving(files={"/night.edf": CONTENT}) as site:
        note = {"url": f"{site.url}/night.edf", "version": ""}
        (tmp_path / "night.edf.part.json").write_text(json.dumps(note))
        download(remote(site, sha256=SHA256), tmp_path, patience=QUICK)
        assert [status for _, _, status in site.log] == [416]
    assert (tmp_path / "night.edf").read_bytes() == CONTENT


def test_an_unfinished_answer_without_a_length_is_told_by_the_published_size(tmp_path):
    with serving(files={"/night.edf": CONTENT}, drop_after=[300_000], lengths=False) as site:
        download(remote(site, size=len(CONTENT)), tmp_path, patience=QUICK)
    assert (tmp_path / "night.edf").read_bytes() == CONTENT


def test_a_damaged_file_is_fetched_once_more_and_then_refused(tmp_path):
    with serving(files={"/night.edf": CONTENT}) as site:
        with pytest.raises(DownloadError, match=r"has sha256 .+, expected 0{12}…; it was not kept"):
            download(remote(site, sha256="0" * 64), tmp_path, patience=QUICK)
        assert len(site.log) == 2
    assert leftovers(tmp_path) == []


def test_a_damaged_beginning_heals(tmp_path):
    (tmp_path / "night.edf.part").write_bytes(b"\x00" * 1000)
    with serving(files={"/night.edf": CONTENT}) as site:
        tag = hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()
        note = {"url": f"{site.url}/night.edf", "version": f'"{tag}"'}
        (tmp_path / "night.edf.part.json").write_text(json.dumps(note))
        download(remote(site, sha256=SHA256), tmp_path, patience=QUICK)
        assert site.bytes_asked == ["bytes=1000-", None]
    assert (tmp_path / "night.edf").read_bytes() == CONTENT


def test_md5_is_used_where_there_is_no_sha256(tmp_path):
    with serving(files={"/night.edf": CONTENT}) as site:
        with pytest.raises(DownloadError, match="has md5"):
            download(remote(site, md5="0" * 32), tmp_path, patience=QUICK)
        right = hashlib.md5(CONTENT, usedforsecurity=False).hexdigest().upper()
        assert download(remote(site, md5=right), tmp_path, patience=QUICK)


def test_what_is_there_is_kept_or_refused(tmp_path):
    with serving(files={"/night.edf": CONTENT}) as site:
        (tmp_path / "night.edf").write_bytes(CONTENT)
        assert download(remote(site, sha256=SHA256, size=len(CONTENT)), tmp_path, patience=QUICK) is False
        assert site.log == []
        (tmp_path / "night.edf").write_bytes(b"mine")
        with pytest.raises(OutputExistsError, match=r"has 4 bytes, expected 1,024,000\. Use overwrite=True"):
            download(remote(site, size=len(CONTENT)), tmp_path, patience=QUICK)
        assert (tmp_path / "night.edf").read_bytes() == b"mine"
        assert download(remote(site, size=len(CONTENT)), tmp_path, patience=QUICK, overwrite=True)
    assert (tmp_path / "night.edf").read_bytes() == CONTENT


def test_a_busy_server_is_asked_again(tmp_path):
    with serving(files={"/night.edf": CONTENT}, errors=[503, 429, 500]) as site:
        download(remote(site), tmp_path, patience=Patience(tries=4, first_wait_seconds=0.001))
        assert len(site.log) == 4


@pytest.mark.parametrize(
    ("errors", "message"),
    [
        ([404], ("answers", 404)),
        ([403], (403, "account")),
        ([503] * 9, ("answers", 503, 3, "attempts")),
    ],
)
def test_refusals_say_why(tmp_path, errors, message):
    with serving(files={}, errors=errors) as site, pytest.raises(DownloadError, match=naming(*message)):
        download(remote(site), tmp_path, patience=QUICK)
    assert leftovers(tmp_path) == []


def test_a_dead_server_is_given_up(tmp_path):
    with serving(files={}) as site:
        url = site.url
    with pytest.raises(DownloadError, match=naming(3, "attempts in a")):
        download(RemoteFile("a", f"{url}/a"), tmp_path, patience=QUICK)


def test_redirects_are_followed_but_not_out_of_encryption(tmp_path):
    with serving(files={"/night.edf": CONTENT}, redirects={"/old": "/night.edf"}) as site:
        download(RemoteFile("a", f"{site.url}/old"), tmp_path, patience=QUICK)
        assert (tmp_path / "a").read_bytes() == CONTENT
    handler = module._SafeRedirects()
    request = module.urllib.request.Request("https://example.org/a")
    with pytest.raises(DownloadError, match=naming("redirects to the", "unencrypted")):
        handler.redirect_request(request, None, 302, "Found", {}, "http://example.org/a")


@pytest.mark.parametrize("path", ["../out", "/etc/passwd", "a/../../b", "", "c:\\x", "a\\..\\b"])
def test_a_path_out_of_the_folder_is_refused(tmp_path, path):
    with pytest.raises(InputError, match=naming("a path below", "folder")):
        download(RemoteFile(path, "http://127.0.0.1/x"), tmp_path)


def test_other_schemes_are_refused(tmp_path):
    with pytest.raises(InputError, match=naming("http or https")):
        download(RemoteFile("a", "file:///etc/passwd"), tmp_path)


def test_a_full_disk_is_one_line_and_the_download_goes_on_later(tmp_path, monkeypatch):
    with serving(files={"/night.edf": CONTENT}) as site:
        monkeypatch.setattr(module.os, "fsync", fail_with(OSError(28, "No space left on device")))
        with pytest.raises(OutputError, match=naming("night.edf", "No space left", "device")):
            download(remote(site), tmp_path, patience=QUICK)
        assert (tmp_path / "night.edf.part").is_file()
        monkeypatch.undo()
        download(remote(site), tmp_path, patience=QUICK)
    assert (tmp_path / "night.edf").read_bytes() == CONTENT


def fail_with(error):
    def fail(*_):
        raise error

    return fail


def test_lists_are_fetched_again_when_they_break_off(monkeypatch):
    with serving(files={"/list": CONTENT}, drop_after=[10]) as site:
        assert fetch_bytes(f"{site.url}/list", patience=QUICK) == CONTENT
        monkeypatch.setattr(module, "LISTING_LIMIT", 1000)
        with pytest.raises(DownloadError, match=naming("list of files")):
            fetch_bytes(f"{site.url}/list", patience=QUICK)


def test_a_physionet_project_is_listed_by_its_sums(tmp_path, monkeypatch):
    sums = f"{SHA256}  motion/1 a.txt\n{'a' * 64} *./labels/1.txt\n\n"
    served = {"/files/p/1/SHA256SUMS.txt": sums.encode(), "/files/p/1/motion/1%20a.txt": CONTENT}
    with serving(files=served) as site:
        monkeypatch.setattr(import_module("stageguard.datasets"), "PHYSIONET", site.url)
        files = physionet_files(lambda url: fetch_bytes(url, patience=QUICK), "p/1")
        assert [file.path for file in files] == ["SHA256SUMS.txt", "motion/1 a.txt", "labels/1.txt"]
        assert download(files[1], tmp_path, patience=QUICK)
    assert digest(tmp_path / "motion" / "1 a.txt", "sha256") == SHA256
    with pytest.raises(FileFormatError, match=r"line 1 of SHA256SUMS.txt is '<html>'"):
        parse_sha256sums("<html>")


def test_an_osf_project_is_listed_through_folders_and_pages(monkeypatch):
    def item(name, kind, **more):
        return {"attributes": {"name": name, "kind": kind, **more}}

    file = {
        **item("Mouse01.zip", "file", size=5, extra={"hashes": {"sha256": "f" * 64, "md5": "e" * 32}}),
        "links": {"download": "https://osf.io/download/1"},
    }
    bare = {**item("readme.txt", "file", size=None), "links": {"download": "https://osf.io/download/2"}}
    inner = {"files": {"links": {"related": {"href": "api/inner"}}}}
    folder = {**item("4-hour", "folder"), "relationships": inner}
    pages = {
        "api/nodes/abc/files/osfstorage/": {"data": [folder], "links": {"next": "api/2"}},
        "api/2": {"data": [bare], "links": {"next": None}},
        "api/inner": {"data": [file], "links": {"next": None}},
    }
    monkeypatch.setattr(import_module("stageguard.datasets"), "OSF_API", "api")
    files = osf_files(lambda url: json.dumps(pages[url]).encode(), "abc")
    assert files == (
        RemoteFile("4-hour/Mouse01.zip", "https://osf.io/download/1", 5, "f" * 64, "e" * 32),
        RemoteFile("readme.txt", "https://osf.io/download/2"),
    )
