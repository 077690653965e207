"""The review server: the page, and the answer to each address, reachable only from this computer."""

from __future__ import annotations

import contextlib
import json
import secrets
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from stageguard.documents import read_fields
from stageguard.errors import InputError, OutputError, StageGuardError, error_message
from stageguard.files import read_file
from stageguard.lazy import library
from stageguard.night.colours import css_variables
from stageguard.review import wire
from stageguard.review.access import MOST_BODY_BYTES, TOO_LARGE, AccessControl
from stageguard.review.montage import Laboratory, Lane
from stageguard.review.review import (
    ConflictError,
    HiddenError,
    Review,
    ReviewSession,
    StaleError,
    UnknownIndexError,
)
from stageguard.runner.stopping import STOPS

Answer = tuple[int, Any]  # status and content
Query = Mapping[str, list[str]]


class Routes:
    """A method for each address that needs more than one call, which returns the content of the answer."""

    def __init__(self, session: ReviewSession) -> None:
        self.session = session

    def queue(self, index: int) -> dict[str, Any]:
        """Return the changes of a night, and the stretches that are worth a look."""
        review = self.session.review(index)
        if review.night.dispute is None:  # two scorers' differences tell nothing of the guard
            review = self._open_review(index)
        at = review.now
        return {"revision": at.state.revision} | wire.queue_part(review, at)

    def revision(self, index: int) -> dict[str, Any]:
        """Return the number of actions, so that another window notices changes."""
        review = self.session.review(index)
        saved = {"file": str(review.journal.path), "when": review.journal.when}
        return {"revision": review.now.state.revision, "saved": saved}

    def signals(self, index: int, query: Query) -> bytes:
        """Return the signals of some epochs as bytes; each `lane` is a channel of a montage in JSON."""
        single = _single_values(query, ("first", "count", "columns"))
        first, count = (_parse_count(single.get(name), name) for name in ("first", "count"))
        columns = _parse_count(single["columns"], "columns") if "columns" in single else None
        signals = self.session.signals(index)
        lanes = [_parse_lane(text) for text in query.get("lane", [])] or list(signals.montages[0].channels)
        return signals.window(first, count, lanes, columns).to_bytes()

    def montages(self, index: int) -> dict[str, Any]:
        """Return the channels of a night, its own montages and those of the laboratory."""
        signals, laboratory = self.session.signals(index), self.session.laboratory(index)
        return {
            "channels": signals.channels,
            "own": Laboratory(signals.montages).to_dict()["montage"],
            "laboratory": laboratory.to_dict() | {"view": asdict(laboratory.view)},
        }

    def explain(self, index: int, epoch: int) -> dict[str, Any]:
        """Return why an epoch has its stage."""
        review = self._open_review(index)
        if not 0 <= epoch < review.night.n_epochs:
            raise UnknownIndexError(f"there is no epoch {epoch}, expected 0 to {review.night.n_epochs - 1}.")
        return wire.explanation(review, epoch)

    def act(self, index: int, body: Any) -> Answer:
        """Perform an action of the scorer."""
        review = self.session.review(index)
        try:
            at = review.act(body.get("action"), body.get("revision"))
        except StaleError as error:
            return 409, {"error": str(error), "state": wire.whole_state(review, index)}
        except ConflictError as error:
            conflict = wire.conflict_part(error, review.night.scheme)
            state = {"index": index} | wire.moving_part(review, review.now)
            return 422, {"error": conflict["text"], "conflict": conflict, "state": state}
        answer = {"index": index} | wire.moving_part(review, at)
        return 200, answer | (wire.fixed_part(review, at) if body["action"].get("do") == "reveal" else {})

    def export(self, index: int, body: Any) -> dict[str, Any]:
        """Write a night in a format."""
        written = self.session.review(index).export(body.get("format"))
        return {"file": str(written.path), "lost": list(map(str, written.lost))}

    def _open_review(self, index: int) -> Review:
        review = self.session.review(index)
        if review.now.state.is_blind:
            raise HiddenError("this is hidden while the night is scored blind: reveal it first.")
        return review


STATUS = {HiddenError: 403, UnknownIndexError: 404, OutputError: 500}


def answer_of(route: Callable[..., Any], *arguments: Any) -> Answer:
    """Return the answer of a route that returns a content or an answer; an error becomes one line."""
    try:
        found = route(*arguments)
        return found if isinstance(found, tuple) else (200, found)
    except (StageGuardError, OSError) as error:
        status = next((code for kind, code in STATUS.items() if isinstance(error, kind)), 400)
        return status, {"error": str(error_message(error))}


def _single_values(query: Query, names: Sequence[str]) -> dict[str, str]:
    """Return single values of a query; refuse a name that occurs twice."""
    twice = [name for name in names if len(query.get(name, ())) > 1]
    if twice:
        raise InputError(f"{twice[0]} is given twice, expected it once.")
    return {name: query[name][0] for name in names if name in query}


def _parse_lane(text: str) -> Lane:
    try:
        content = json.loads(text.encode())
    except (ValueError, RecursionError):
        raise InputError(f"lane is {text!r:.60}, expected a channel of a montage as a JSON object.") from None
    return read_fields(Lane, content, "lane")


def _parse_count(text: str | None, name: str) -> int:
    if text is None or not text.isdecimal() or len(text) > 9:
        raise InputError(f"{name} is {text!r:.40}, expected a whole number.")
    return int(text)


HOST = "127.0.0.1"
PAGE = Path(__file__).parent / "page"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
}
WHAT = "stageguard review"


def page_file(name: str) -> tuple[bytes, str] | None:
    """Return a file of the page and its type, or None if its folder has no file of this name."""
    if name == "colours.css":  # which all pages share
        return css_variables().encode(), TYPES[".css"]
    listed = {path.name: path for path in PAGE.iterdir() if path.suffix in TYPES and path.is_file()}
    if name not in listed:
        return None
    return read_file(listed[name]), TYPES[listed[name].suffix]


def make_app(session: ReviewSession, end: Callable[[], None]) -> Any:
    """Return the application without access control: answers in JSON, or in bytes."""
    responses = library("starlette.responses", WHAT, "review")
    run: Any = library("starlette.concurrency", WHAT, "review").run_in_threadpool
    routing = library("starlette.routing", WHAT, "review")

    def respond(answer: Answer) -> Any:
        status, content = answer
        if isinstance(content, bytes):
            return responses.Response(content, status, media_type="application/octet-stream")
        text = json.dumps(content, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        return responses.Response(text, status, media_type="application/json")

    def get(path: str, method: Callable[..., Any], *, takes_query: bool = False) -> Any:
        async def endpoint(request: Any) -> Any:
            arguments = list(request.path_params.values())
            if takes_query:
                query = request.query_params
                arguments.append({name: query.getlist(name) for name in query})
            return await run(lambda: respond(answer_of(method, *arguments)))

        return routing.Route(path, endpoint)

    def post(path: str, method: Callable[..., Any]) -> Any:
        async def endpoint(request: Any) -> Any:
            data = b""
            async for piece in request.stream():
                data += piece
                if len(data) > MOST_BODY_BYTES:
                    return respond((413, {"error": TOO_LARGE}))
            try:
                body = json.loads(data)
            except (ValueError, RecursionError):
                body = None
            if not isinstance(body, dict):
                return respond((400, {"error": "the body is no JSON object."}))
            return await run(lambda: respond(answer_of(method, *request.path_params.values(), body)))

        return routing.Route(path, endpoint, methods=["POST"])

    def page(request: Any) -> Any:
        file = page_file(request.path_params.get("name", "index.html"))
        if file is None:
            return respond((404, {"error": "there is no such file."}))
        return responses.Response(file[0], media_type=file[1])

    def unknown(request: Any, error: Any) -> Any:
        return respond((error.status_code, {"error": str(error.detail)}))

    def fault(request: Any, error: Exception) -> Any:
        return respond((500, {"error": f"unexpected {type(error).__name__}: a fault of stageguard's."}))

    def spectrogram(index: int, query: Query) -> dict[str, Any]:
        return session.signals(index).spectrogram(_single_values(query, ("channel",)).get("channel"))

    def close(body: Any) -> dict[str, Any]:  # after this answer
        end()
        return {"closed": True}

    routes, night = Routes(session), "/api/nights/{index:int}"
    return library("starlette.applications", WHAT, "review").Starlette(
        routes=[
            *(routing.Route(path, page) for path in ("/", "/page/{name}")),
            get("/api/nights", lambda: session.overview()),
            get(night, lambda index: wire.whole_state(session.review(index), index)),
            get(night + "/queue", routes.queue),
            get(night + "/revision", routes.revision),
            get(night + "/signals", routes.signals, takes_query=True),
            get(night + "/montages", routes.montages),
            get(night + "/spectrogram", spectrogram, takes_query=True),
            get(night + "/explain/{epoch:int}", routes.explain),
            post(night + "/actions", routes.act),
            post(night + "/export", routes.export),
            post("/api/close", close),
        ],
        exception_handlers={404: unknown, 405: unknown, Exception: fault},
    )


class ReviewServer:
    """The server on a port of this computer, with the address to open."""

    def __init__(self, session: ReviewSession, port: int = 0) -> None:
        uvicorn = library("uvicorn", WHAT, "review")
        self.session = session
        self._socket = _open_socket(port)
        self.port: int = self._socket.getsockname()[1]
        self.token = secrets.token_urlsafe(32)
        app = AccessControl(make_app(session, self.end), self.token, self.port)
        config = uvicorn.Config(
            app,
            log_config=None,  # or every handler of this process would be closed
            log_level="critical",
            access_log=False,
            server_header=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=2,
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
            self.session.close()

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


def _open_socket(port: int) -> socket.socket:
    """Return a socket on the local address; port 0 means any free port."""
    # IPPROTO_TCP explicitly: otherwise asyncio keeps Nagle's algorithm, which delays answers by 40 ms
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((HOST, port))
        bound.listen()  # a browser that connects before the server runs waits instead of being refused
    except OSError as error:
        bound.close()
        raise OutputError(
            f"port {port} cannot be used: {error.strerror or error}. Leave --port out."
        ) from None
    return bound
