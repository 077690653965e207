"""Lists of files as archives publish them: PhysioNet's SHA256SUMS, OSF's API, buckets."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode
from xml.etree.ElementTree import ParseError

from stageguard.base.errors import FileFormatError
from stageguard.base.files import parse_json
from stageguard.datasets.dataset import RemoteFile
from stageguard.formats.xml import children, local_name, text_of

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


MOST_PAGES = 1000  # of a thousand files each


def bucket_files(fetch: Fetch, bucket: str, folder: str = "", suffix: str = "") -> tuple[RemoteFile, ...]:
    """List a bucket page by page, with sizes and, where the list gives them, MD5 digests.

    Parameters
    ----------
    fetch : callable
        Takes an address, returns what is there.
    bucket : str
        Its address, such as ``https://dreem-dod-h.s3.amazonaws.com``.
    folder : str
        Where the files belong below the dataset's folder.
    suffix : str
        Only files whose name ends with it.
    """
    listed: list[RemoteFile] = []
    token = ""
    for _ in range(MOST_PAGES):
        query = {"list-type": "2"} | ({"continuation-token": token} if token else {})
        entries, token = _page(fetch(f"{bucket}/?{urlencode(query)}"), bucket)
        for key, size, digest in entries:
            if key.endswith(suffix) and not key.endswith("/"):
                url = f"{bucket}/{quote(key)}"
                listed.append(RemoteFile(f"{folder}{key}", url, size=size, md5=digest))
        if not token:
            return tuple(listed)
    raise FileFormatError(f"the list of {bucket} has no end, expected at most {MOST_PAGES:,} pages.")


def _page(data: bytes, bucket: str) -> tuple[list[tuple[str, int | None, str | None]], str]:
    """Keys, sizes and digests of one page, and the mark of the next one."""
    from defusedxml import DefusedXmlException  # type: ignore[import-untyped]
    from defusedxml.ElementTree import fromstring  # type: ignore[import-untyped]

    try:
        root = fromstring(data)
    except (ParseError, DefusedXmlException, ValueError) as error:
        raise FileFormatError(f"the list of {bucket} is not readable XML ({error}).") from None
    if local_name(root) != "ListBucketResult":
        raise FileFormatError(f"{bucket} answers with <{local_name(root)}>, expected a list of its files.")
    entries = []
    for item in children(root, "Contents"):
        key, size, tag = (text_of(item, name) or "" for name in ("Key", "Size", "ETag"))
        if not key or ".." in key.split("/") or key.startswith("/"):
            raise FileFormatError(f"the list of {bucket} names the file {key[:60]!r}, expected one below it.")
        # an ETag with a dash is no digest of the file: it came in several parts
        digest = re.fullmatch(r'"?([0-9a-f]{32})"?', tag)
        entries.append((key, int(size) if size.isdecimal() else None, None if digest is None else digest[1]))
    return entries, text_of(root, "NextContinuationToken") or ""
