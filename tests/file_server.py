"""An HTTP server on this machine that serves bytes and misbehaves on request: drops, lies, refuses."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Site:
    """What the server holds, and how it behaves. `log` has (path, Range header, status) per request."""

    files: dict[str, bytes]
    drop_after: list[int] = field(default_factory=list)  # one entry per answer: close after so many bytes
    ranges: bool = True
    wrong_range: bool = False
    etags: bool = True
    lengths: bool = True
    errors: list[int] = field(default_factory=list)  # statuses to answer first
    redirects: dict[str, str] = field(default_factory=dict)
    log: list[tuple[str, str | None, int]] = field(default_factory=list)
    url: str = ""

    @property
    def bytes_asked(self) -> list[str | None]:
        return [asked for _, asked, _ in self.log]


def handler(site: Site) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def answer(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
            site.log.append((self.path, self.headers.get("Range"), status))
            self.send_response(status)
            for name, value in {"Connection": "close", **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            cut = site.drop_after.pop(0) if body and site.drop_after else len(body)
            self.wfile.write(body[:cut])
            self.wfile.flush()
            self.close_connection = True

        def do_GET(self) -> None:
            if site.errors:
                status = site.errors.pop(0)
                return self.answer(status, {"Content-Length": "0", "Retry-After": "0"})
            if self.path in site.redirects:
                return self.answer(302, {"Location": site.redirects[self.path], "Content-Length": "0"})
            content = site.files.get(self.path)
            if content is None:
                return self.answer(404, {"Content-Length": "0"})
            tag = f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'
            headers = {"ETag": tag} if site.etags else {}
            first, status = 0, 200
            asked, condition = self.headers.get("Range"), self.headers.get("If-Range")
            if asked and site.ranges and condition in (None, tag):
                first, status = int(asked.removeprefix("bytes=").rstrip("-")), 206
                if first >= len(content):
                    return self.answer(
                        416, {"Content-Range": f"bytes */{len(content)}", "Content-Length": "0"}
                    )
                first += site.wrong_range
                headers["Content-Range"] = f"bytes {first}-{len(content) - 1}/{len(content)}"
            if site.lengths:
                headers["Content-Length"] = str(len(content) - first)
            return self.answer(status, headers, content[first:])

    return Handler


@contextmanager
def serving(**options: object) -> Iterator[Site]:
    """Serve a `Site` while the block runs."""
    site = Site(**options)  # type: ignore[arg-type]
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(site))
    site.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
