"""The review server: routes of the page and its data, on this computer alone."""

from __future__ import annotations

import contextlib
import json
import secrets
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from stageguard.base.errors import InputError, OutputError, StageGuardError, error_message
from stageguard.base.extras import library
from stageguard.base.files import parse_json, read_file
from stageguard.night.colours import css_variables
from stageguard.review import wire
from stageguard.review.desk import Desk, NoNightError
from stageguard.review.guarded import Guarded
from stageguard.review.session import ConflictError, HiddenError, Review, StaleError
from stageguard.review.signals import Filters

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

Answer = tuple[int, Any]


class Routes:
    """What each address answers with: a status and JSON, or a file of the page."""

    def __init__(self, desk: Desk, end: Callable[[], None]) -> None:
        self.desk, self._end = desk, end

    def overview(self) -> Answer:
        """Return all nights."""
        return 200, self.desk.overview()

    def night(self, index: int) -> Answer:
        """Return everything about a night."""
        return 200, wire.whole_state(self.desk.review(index), index)

    def worth(self, index: int) -> Answer:
        """Return what was changed in a night and what is worth a look."""
        review = self._open(index)
        at = review.now
        return 200, {"revision": at.state.revision} | wire.worth_part(review, at)

    def revision(self, index: int) -> Answer:
        """Return how many actions there were, for another window to see."""
        review = self.desk.review(index)
        saved = {"file": str(review.journal.path), "when": review.journal.when}
        return 200, {"revision": review.now.state.revision, "saved": saved}

    def signals(self, index: int, said: Mapping[str, list[str]]) -> Answer:
        """Return the signals of some epochs."""
        single = _single(said, ("first", "count", "montage", "low", "high", "notch"))
        first, count = (_whole(single.get(name), name) for name in ("first", "count"))
        signals = self.desk.signals(index)
        names, montage = said.get("channels", []), single.get("montage", "")
        return 200, signals.window(first, count, names, montage, Filters.parsed(single))

    def spectrogram(self, index: int, said: Mapping[str, list[str]]) -> Answer:
        """Return the spectrogram of the night."""
        return 200, self.desk.signals(index).spectrogram(_single(said, ("channel",)).get("channel"))

    def explain(self, index: int, epoch: int) -> Answer:
        """Return why an epoch has its stage."""
        review = self._open(index)
        if not 0 <= epoch < review.night.n_epochs:
            raise NoNightError(f"there is no epoch {epoch}, expected 0 to {review.night.n_epochs - 1}.")
        return 200, wire.explanation(review, epoch)

    def act(self, index: int, said: Any) -> Answer:
        """Do what a person asks for."""
        review = self.desk.review(index)
        try:
            at = review.act(said.get("action"), said.get("revision"))
        except StaleError as error:
            return 409, {"error": str(error), "state": wire.whole_state(review, index)}
        except ConflictError as error:
            conflict = wire.conflict_part(error, review.night.scheme)
            state = {"index": index} | wire.moving_part(review, review.now)
            return 422, {"error": conflict["text"], "conflict": conflict, "state": state}
        answer = {"index": index} | wire.moving_part(review, at)
        return 200, answer | (wire.fixed_part(review, at) if said["action"].get("do") == "reveal" else {})

    def export(self, index: int, said: Any) -> Answer:
        """Write a night in a format."""
        written = self.desk.review(index).export(said.get("format"))
        return 200, {"file": str(written.path), "lost": list(map(str, written.lost))}

    def close(self) -> Answer:
        """End the server, when this is answered."""
        self._end()
        return 200, {"closed": True}

    def _open(self, index: int) -> Review:
        review = self.desk.review(index)
        if review.now.state.is_blind:
            raise HiddenError("this is hidden while the night is scored blind: reveal it first.")
        return review


def answered(route: Callable[..., Answer], *arguments: Any) -> Answer:
    """Return what a route answers, errors as one line."""
    try:
        return route(*arguments)
    except HiddenError as error:
        return 403, {"error": str(error)}
    except NoNightError as error:
        return 404, {"error": str(error)}
    except OutputError as error:
        return 500, {"error": str(error)}
    except (StageGuardError, OSError) as error:
        return 400, {"error": str(error_message(error))}


def _single(said: Mapping[str, list[str]], names: Sequence[str]) -> dict[str, str]:
    """Return what is said once; anything twice is refused."""
    twice = [name for name in names if len(said.get(name, ())) > 1]
    if twice:
        raise InputError(f"{twice[0]} is given twice, expected it once.")
    return {name: said[name][0] for name in names if name in said}


def _whole(text: str | None, name: str) -> int:
    if text is None or not text.isdecimal() or len(text) > 9:
        raise InputError(f"{name} is {text!r:.40}, expected a whole number.")
    return int(text)


def page_file(name: str) -> tuple[bytes, str] | None:
    """Return a file of the page and its type; names that are not listed in its folder are none."""
    listed = {path.name: path for path in PAGE.iterdir() if path.suffix in TYPES and path.is_file()}
    if name not in listed:
        return None
    return read_file(listed[name], "text"), TYPES[listed[name].suffix]


def make_app(desk: Desk, end: Callable[[], None]) -> Any:
    """Return the application, before it is guarded."""
    applications = library("starlette.applications", WHAT, "review")
    concurrency = library("starlette.concurrency", WHAT, "review")
    responses = library("starlette.responses", WHAT, "review")
    routing = library("starlette.routing", WHAT, "review")
    routes = Routes(desk, end)

    def sent(answer: Answer) -> Any:
        status, content = answer
        text = json.dumps(content, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        return responses.Response(text, status, media_type="application/json")

    def read(method: Callable[..., Answer], *names: str) -> Callable[[Any], Any]:
        def endpoint(request: Any) -> Any:  # Starlette runs it in a thread
            return sent(answered(method, *(request.path_params[name] for name in names)))

        return endpoint

    def ask(method: Callable[..., Answer]) -> Callable[[Any], Any]:
        def endpoint(request: Any) -> Any:
            said: dict[str, list[str]] = {}
            for name, value in request.query_params.multi_items():
                said.setdefault(name, []).append(value)
            return sent(answered(method, request.path_params["index"], said))

        return endpoint

    def write(method: Callable[..., Answer], *names: str) -> Callable[[Any], Any]:
        async def endpoint(request: Any) -> Any:
            try:
                said = parse_json(await request.body())
            except (ValueError, RecursionError):
                said = None
            if not isinstance(said, dict):
                return sent((400, {"error": "the body is no JSON object."}))
            where = [request.path_params[name] for name in names]
            return sent(await concurrency.run_in_threadpool(answered, method, *where, said))

        return endpoint

    def page(request: Any) -> Any:
        found = page_file(request.path_params.get("name", "index.html"))
        if found is None:
            return sent((404, {"error": "there is no such file."}))
        return responses.Response(found[0], media_type=found[1])

    def colours(request: Any) -> Any:
        return responses.Response(css_variables(), media_type=TYPES[".css"])

    def close(request: Any) -> Any:
        return sent(routes.close())

    def unknown(request: Any, error: Any) -> Any:
        return sent((error.status_code, {"error": str(error.detail)}))

    def fault(request: Any, error: Exception) -> Any:
        return sent((500, {"error": f"unexpected {type(error).__name__}: a fault of stageguard's."}))

    one, route = "/api/nights/{index:int}", routing.Route
    return applications.Starlette(
        routes=[
            route("/", page),
            route("/page/colours.css", colours),
            route("/page/{name}", page),
            route("/api/nights", read(routes.overview)),
            route(one, read(routes.night, "index")),
            route(one + "/worth", read(routes.worth, "index")),
            route(one + "/revision", read(routes.revision, "index")),
            route(one + "/signals", ask(routes.signals)),
            route(one + "/spectrogram", ask(routes.spectrogram)),
            route(one + "/explain/{epoch:int}", read(routes.explain, "index", "epoch")),
            route(one + "/actions", write(routes.act, "index"), methods=["POST"]),
            route(one + "/export", write(routes.export, "index"), methods=["POST"]),
            route("/api/close", close, methods=["POST"]),
        ],
        exception_handlers={404: unknown, 405: unknown, Exception: fault},
    )


class ReviewServer:
    """The server on a free port of this computer, with the address to open."""

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
            limit_concurrency=64,
        )
        self._server = uvicorn.Server(config)
        self._server.capture_signals = self._signals  # Ctrl-C is how it ends, no failure

    @property
    def url(self) -> str:
        """The address to open, token included."""
        return f"http://{HOST}:{self.port}/?token={self.token}"

    @property
    def is_running(self) -> bool:
        """Whether it answers."""
        return bool(self._server.started)

    def run(self) -> None:
        """Serve until Ctrl-C or `end`."""
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._socket.close()
            self.desk.close()

    def end(self) -> None:
        """End it, once what is under way is answered."""
        self._server.should_exit = True

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        caught = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, lambda *_: self.end()) for number in caught}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _bound(port: int) -> socket.socket:
    """Return a socket on this computer's own address; port 0 is any free one."""
    # named as TCP, or asyncio would leave the delay on that waits 40 ms for more to send
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((HOST, port))
        made.listen()  # a browser that is quicker than the server waits instead of being refused
    except OSError as error:
        made.close()
        raise OutputError(
            f"port {port} cannot be used: {error.strerror or error}. Leave --port out."
        ) from None
    return made
