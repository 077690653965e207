"""Files of a public S3 bucket, by the list it gives of itself. Fetches by a function given."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import quote, urlencode
from xml.etree.ElementTree import ParseError

from stageguard.datasets._dataset import RemoteFile
from stageguard.errors import FileFormatError
from stageguard.formats._xml import children, local_name, text_of

Fetch = Callable[[str], bytes]

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
        found, token = _page(fetch(f"{bucket}/?{urlencode(query)}"), bucket)
        for key, size, digest in found:
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
    found = []
    for item in children(root, "Contents"):
        key, size, tag = (text_of(item, name) or "" for name in ("Key", "Size", "ETag"))
        if not key or ".." in key.split("/") or key.startswith("/"):
            raise FileFormatError(f"the list of {bucket} names the file {key[:60]!r}, expected one below it.")
        # an ETag with a dash is no digest of the file: it came in several parts
        digest = re.fullmatch(r'"?([0-9a-f]{32})"?', tag)
        found.append((key, int(size) if size.isdecimal() else None, None if digest is None else digest[1]))
    return found, text_of(root, "NextContinuationToken") or ""
