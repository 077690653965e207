"""Who gets the data of nights: access control of requests.

Only a page on this computer that was opened with the token gets data. Every request is checked: Host (against
DNS rebinding), Origin and Sec-Fetch-Site, token, method, and size of the body. Every answer has headers that
isolate the page from other sites. The page sends the token in a header of its own: a browser would send a
cookie to every other port of this computer, too, and another site cannot make a browser send such a header.
The page's own files hold no data and need no token.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_BODY_BYTES = 64 * 1024
MOST_PATH = 200  # characters; Python refuses to parse numbers with thousands of digits
METHODS = ("GET", "HEAD", "POST")
TOKEN_HEADER = b"x-stageguard-token"
API = "/api/"  # addresses of data
TRUSTED_SITES = ("same-origin", "none")  # "none": the address was typed, or opened by another program
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """The answer to a refused request."""

    status: int
    text: str


class AccessControl:
    """An application that serves data only to a page that has the token."""

    def __init__(self, app: App, token: str, port: int) -> None:
        self._app, self._token = app, token
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        refusal = self._refusal(scope)
        if refusal is None and scope["path"].startswith(API) and not self._has_token(scope):
            text = "open the address that stageguard printed: this one lacks its token, or has an old one."
            refusal = Refusal(403, text)
        body = b""
        if refusal is None and scope["method"] == "POST":
            body, refusal = await _body(receive)
        if refusal is not None:
            await _answer(send, refusal.status, {"error": refusal.text})
            return
        await self._app(scope, _replay_body(body, receive), _add_headers(send))

    def _refusal(self, scope: Scope) -> Refusal | None:
        """Return why a request is refused regardless of its token, or None."""
        hosts, method = _values(scope, b"host"), scope["method"]
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            return Refusal(403, "this server answers to 127.0.0.1 and localhost alone.")
        if len(scope["path"]) > MOST_PATH:
            return Refusal(404, "there is nothing of so long a name.")
        if method not in METHODS:
            return Refusal(405, f"{method} is not served, expected GET or POST.")
        origins = _values(scope, b"origin")
        if any(origin not in {f"http://{host}" for host in self._hosts} for origin in origins):
            return Refusal(403, "the request comes from another site.")
        if any(site not in TRUSTED_SITES for site in _values(scope, b"sec-fetch-site")):
            return Refusal(403, "the request comes from another site.")
        if method != "POST":
            return None
        if _values(scope, b"content-type") != ["application/json"]:
            return Refusal(415, "the body is not called JSON, expected Content-Type: application/json.")
        lengths = _values(scope, b"content-length")
        if any(not text.isdecimal() or int(text) > MOST_BODY_BYTES for text in lengths):
            return _TOO_LARGE
        return None

    def _has_token(self, scope: Scope) -> bool:
        """Whether the request has the token, compared in constant time."""
        tokens = _values(scope, TOKEN_HEADER)
        return len(tokens) == 1 and hmac.compare_digest(tokens[0].encode(), self._token.encode())


_TOO_LARGE = Refusal(413, f"the body is too large, expected at most {MOST_BODY_BYTES:,} bytes.")


def _values(scope: Scope, name: bytes) -> list[str]:
    """Return the values of a header."""
    return [value.decode("latin-1").strip() for key, value in scope["headers"] if key == name]


async def _body(receive: Receive) -> tuple[bytes, Refusal | None]:
    """Return the body of a request, which may come in parts of unknown size."""
    data = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return data, Refusal(400, "the request was cut off.")
        data += message.get("body", b"")
        if len(data) > MOST_BODY_BYTES:
            return b"", _TOO_LARGE
        if not message.get("more_body", False):
            return data, None


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a source of messages that first repeats a body that was already read."""
    is_sent = False

    async def replay() -> Message:
        nonlocal is_sent
        if is_sent:
            return await receive()
        is_sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _add_headers(send: Send) -> Send:
    async def add(message: Message) -> None:
        if message["type"] == "http.response.start":
            ours = {name.lower().encode(): text.encode() for name, text in HEADERS.items()}
            theirs = [pair for pair in message.get("headers", []) if pair[0].lower() not in ours]
            message["headers"] = [*theirs, *ours.items()]
        await send(message)

    return add


async def _answer(send: Send, status: int, content: object) -> None:
    body = json.dumps(content).encode()
    headers = {"Content-Type": "application/json", "Content-Length": str(len(body))}
    pairs = [(name.lower().encode(), text.encode()) for name, text in headers.items()]
    send = _add_headers(send)
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})
