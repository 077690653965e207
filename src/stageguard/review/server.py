"""The review server: the page and its routes, reachable only from this computer."""

from __future__ import annotations

import contextlib
import json
import secrets
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from stageguard.base.errors import OutputError
from stageguard.base.extras import library
from stageguard.base.files import parse_json, read_file
from stageguard.night.colours import css_variables
from stageguard.review.connections import limited_protocol
from stageguard.review.desk import Desk
from stageguard.review.guarded import Guarded
from stageguard.review.routes import Answer, Routes, answered
from stageguard.runner.stopping import STOPS

HOST = "127.0.0.1"
PAGE = Path(__file__).parent / "page"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}
WHAT = "stageguard review"

Endpoint = Callable[[Any], Any]


def page_file(name: str) -> tuple[bytes, str] | None:
    """Return a file of the page and its type, or None if its folder has no file of this name."""
    listed = {path.name: path for path in PAGE.iterdir() if path.suffix in TYPES and path.is_file()}
    if name not in listed:
        return None
    return read_file(listed[name], "text"), TYPES[listed[name].suffix]


class Endpoints:
    """Routes as Starlette endpoints: arguments from the path, the query or the body; answers as JSON."""

    def __init__(self) -> None:
        self._responses = library("starlette.responses", WHAT, "review")
        self._concurrency = library("starlette.concurrency", WHAT, "review")

    def sent(self, answer: Answer) -> Any:
        """Return an answer as a JSON response."""
        status, content = answer
        text = json.dumps(content, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        return self._responses.Response(text, status, media_type="application/json")

    def read(self, method: Callable[..., Answer], *names: str) -> Endpoint:
        """Return an endpoint with arguments from the path; Starlette runs it in a thread."""

        def endpoint(request: Any) -> Any:
            return self.sent(answered(method, *(request.path_params[name] for name in names)))

        return endpoint

    def ask(self, method: Callable[..., Answer]) -> Endpoint:
        """Return an endpoint with arguments from the query of a night's path."""

        def endpoint(request: Any) -> Any:
            query: dict[str, list[str]] = {}
            for name, value in request.query_params.multi_items():
                query.setdefault(name, []).append(value)
            return self.sent(answered(method, request.path_params["index"], query))

        return endpoint

    def write(self, method: Callable[..., Answer], *names: str) -> Endpoint:
        """Return an endpoint with arguments from the body, which must be a JSON object."""

        async def endpoint(request: Any) -> Any:
            try:
                body = parse_json(await request.body())
            except (ValueError, RecursionError):
                body = None
            if not isinstance(body, dict):
                return self.sent((400, {"error": "the body is no JSON object."}))
            where = [request.path_params[name] for name in names]
            return self.sent(await self._concurrency.run_in_threadpool(answered, method, *where, body))

        return endpoint

    def page(self, request: Any) -> Any:
        """Answer with a file of the page."""
        file = page_file(request.path_params.get("name", "index.html"))
        if file is None:
            return self.sent((404, {"error": "there is no such file."}))
        return self._responses.Response(file[0], media_type=file[1])

    def colours(self, request: Any) -> Any:
        """Answer with the colours that pages share."""
        return self._responses.Response(css_variables(), media_type=TYPES[".css"])

    def unknown(self, request: Any, error: Any) -> Any:
        """Answer a request for an unknown address or method."""
        return self.sent((error.status_code, {"error": str(error.detail)}))

    def fault(self, request: Any, error: Exception) -> Any:
        """Answer a request that failed because of a bug in this package."""
        return self.sent((500, {"error": f"unexpected {type(error).__name__}: a fault of stageguard's."}))


def make_app(desk: Desk, end: Callable[[], None]) -> Any:
    """Return the application without access control."""
    applications = library("starlette.applications", WHAT, "review")
    route = library("starlette.routing", WHAT, "review").Route
    routes, to = Routes(desk, end), Endpoints()
    night_path = "/api/nights/{index:int}"
    return applications.Starlette(
        routes=[
            route("/", to.page),
            route("/page/colours.css", to.colours),
            route("/page/{name}", to.page),
            route("/api/nights", to.read(routes.overview)),
            route(night_path, to.read(routes.night, "index")),
            route(night_path + "/worth", to.read(routes.worth, "index")),
            route(night_path + "/revision", to.read(routes.revision, "index")),
            route(night_path + "/signals", to.ask(routes.signals)),
            route(night_path + "/spectrogram", to.ask(routes.spectrogram)),
            route(night_path + "/explain/{epoch:int}", to.read(routes.explain, "index", "epoch")),
            route(night_path + "/actions", to.write(routes.act, "index"), methods=["POST"]),
            route(night_path + "/export", to.write(routes.export, "index"), methods=["POST"]),
            route("/api/close", to.write(routes.close), methods=["POST"]),
        ],
        exception_handlers={404: to.unknown, 405: to.unknown, Exception: to.fault},
    )


class ReviewServer:
    """The server on a port of this computer, with the address to open."""

    def __init__(self, desk: Desk, port: int = 0) -> None:
        uvicorn = library("uvicorn", WHAT, "review")
        self.desk = desk
        self._socket = _bound(port)
        self.port: int = self._socket.getsockname()[1]
        self.token = secrets.token_urlsafe(32)
        app = Guarded(make_app(desk, self.end), self.token, self.port)
        config = uvicorn.Config(
            app,
            log_level="critical",
            access_log=False,
            server_header=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=2,
            http=limited_protocol(WHAT),
        )
        self._server = uvicorn.Server(config)
        self._server.capture_signals = self._signals  # Ctrl-C ends the server and is no failure

    @property
    def url(self) -> str:
        """The address to open; browsers keep what follows # to themselves and to the page."""
        return f"http://{HOST}:{self.port}/#token={self.token}"

    @property
    def is_running(self) -> bool:
        """Whether the server answers requests."""
        return bool(self._server.started)

    def run(self) -> None:
        """Serve until Ctrl-C or `end`."""
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._socket.close()
            self.desk.close()

    def end(self) -> None:
        """End the server after the requests in progress."""
        self._server.should_exit = True

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, lambda *_: self.end()) for number in STOPS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _bound(port: int) -> socket.socket:
    """Return a socket on the local address; port 0 means any free port."""
    # IPPROTO_TCP explicitly: otherwise asyncio keeps Nagle's algorithm, which delays answers by 40 ms
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((HOST, port))
        made.listen()  # a browser that connects before the server runs waits instead of being refused
    except OSError as error:
        made.close()
        raise OutputError(
            f"port {port} cannot be used: {error.strerror or error}. Leave --port out."
        ) from None
    return made
