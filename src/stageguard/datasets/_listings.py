"""Lists of files as archives publish them: PhysioNet's SHA256SUMS, OSF's API. Opens no connection itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from stageguard._input_files import parse_json
from stageguard.datasets._dataset import RemoteFile
from stageguard.errors import FileFormatError

Fetch = Callable[[str], bytes]

SUMS = "SHA256SUMS.txt"
OSF_API = "https://api.osf.io/v2"


def parse_sha256sums(text: str) -> dict[str, str]:
    """Return path -> digest from the lines of a SHA256SUMS file."""
    digests = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        match = re.fullmatch(r"([0-9a-fA-F]{64})[ \t]+\*?(?:\./)?(.+?)\s*", line)
        if match is None:
            raise FileFormatError(
                f"line {number} of {SUMS} is {line[:80]!r}, expected a SHA-256 digest and a path."
            )
        digests[match[2]] = match[1].lower()
    return digests


def physionet_files(
    fetch: Fetch, base_url: str, keep: Callable[[str], bool] | None = None
) -> tuple[RemoteFile, ...]:
    """List a PhysioNet project by its SHA256SUMS.txt, which comes first: a local copy is checked by it."""
    base = base_url.rstrip("/")
    digests = parse_sha256sums(fetch(f"{base}/{SUMS}").decode("utf-8"))
    listed = [
        RemoteFile(path, f"{base}/{quote(path)}", sha256=digest)
        for path, digest in digests.items()
        if keep is None or keep(path)
    ]
    return (RemoteFile(SUMS, f"{base}/{SUMS}"), *listed)


def osf_files(fetch: Fetch, node: str, *, api: str = OSF_API, folder: str = "") -> tuple[RemoteFile, ...]:
    """List the storage of an OSF project, folder by folder and page by page, with sizes and digests."""
    return tuple(_osf_folder(fetch, f"{api}/nodes/{node}/files/osfstorage/", folder))


def _osf_folder(fetch: Fetch, url: str | None, folder: str) -> list[RemoteFile]:
    listed: list[RemoteFile] = []
    while url:
        page: dict[str, Any] = parse_json(fetch(url))
        for item in page["data"]:
            attributes = item["attributes"]
            path = f"{folder}{attributes['name']}"
            if attributes["kind"] == "folder":
                inner = item["relationships"]["files"]["links"]["related"]["href"]
                listed += _osf_folder(fetch, inner, f"{path}/")
            else:
                listed.append(_osf_file(item, path))
        url = page["links"].get("next")
    return listed


def _osf_file(item: dict[str, Any], path: str) -> RemoteFile:
    hashes = item["attributes"].get("extra", {}).get("hashes", {})
    size = item["attributes"].get("size")
    return RemoteFile(
        path,
        item["links"]["download"],
        size=None if size is None else int(size),
        sha256=hashes.get("sha256"),
        md5=hashes.get("md5"),
    )
