"""An HTTP server on this machine that serves bytes, breaks off, and refuses."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Site:
    """What the server holds, and how it behaves; `log` has the path of each request."""

    files: dict[str, bytes]
    drop_after: list[int] = field(default_factory=list)  # one entry per answer: close after so many bytes
    log: list[str] = field(default_factory=list)
    url: str = ""


def handler(site: Site) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            site.log.append(self.path)
            content = site.files.get(self.path)
            self.send_response(404 if content is None else 200)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            cut = site.drop_after.pop(0) if content and site.drop_after else len(content or b"")
            self.wfile.write((content or b"")[:cut])

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
