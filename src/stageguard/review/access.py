"""Who gets the data of nights: only a page on this computer that was opened with the token.

Every request is checked: Host (against DNS rebinding), Origin and Sec-Fetch-Site, token, method, and length
of the body. Every answer has headers that isolate the page from other sites. The page sends the token in a
header of its own: a browser would send a cookie to every other port of this computer, too, and another site
cannot make a browser send such a header. The page's own files hold no data and need no token.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_BODY_BYTES = 64 * 1024
MOST_PATH = 200  # characters; Python refuses to parse numbers with thousands of digits
TOO_LARGE = f"the body is too large, expected at most {MOST_BODY_BYTES:,} bytes."
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
OURS = {name.lower().encode(): text.encode() for name, text in HEADERS.items()}


class AccessControl:
    """An application that serves data only to a page that has the token."""

    def __init__(self, app: App, token: str, port: int) -> None:
        self._app, self._token = app, token.encode()
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return

        async def send_isolated(message: Message) -> None:
            if message["type"] == "http.response.start":
                theirs = [pair for pair in message.get("headers", []) if pair[0].lower() not in OURS]
                message["headers"] = [*theirs, *OURS.items()]
            await send(message)

        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, send_isolated)
            return
        status, text = refusal
        body = json.dumps({"error": text}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send_isolated({"type": "http.response.start", "status": status, "headers": headers})
        await send_isolated({"type": "http.response.body", "body": body})

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Return status and text of the answer to a request that is refused, or None."""

        def values(name: bytes) -> list[str]:
            return [value.decode("latin-1").strip() for key, value in scope["headers"] if key == name]

        hosts, tokens, path = values(b"host"), values(b"x-stageguard-token"), scope["path"]
        origins = {f"http://{host}" for host in self._hosts}
        is_foreign = not origins.issuperset(values(b"origin"))
        is_foreign |= not {*TRUSTED_SITES}.issuperset(values(b"sec-fetch-site"))
        is_post = scope["method"] == "POST"
        lengths = values(b"content-length")
        is_long = any(not text.isdecimal() or int(text) > MOST_BODY_BYTES for text in lengths)
        has_token = len(tokens) == 1 and hmac.compare_digest(tokens[0].encode(), self._token)
        rules = (
            (len(hosts) != 1 or hosts[0] not in self._hosts, 403, "this server answers to 127.0.0.1 alone."),
            (len(path) > MOST_PATH, 404, "there is nothing of so long a name."),
            (scope["method"] not in ("GET", "HEAD", "POST"), 405, "expected GET or POST."),
            (is_foreign, 403, "the request comes from another site."),
            (is_post and values(b"content-type") != ["application/json"], 415, "expected application/json."),
            (is_post and is_long, 413, TOO_LARGE),
            (
                path.startswith("/api/") and not has_token,
                403,
                "open the address that stageguard printed: this one lacks its token, or has an old one.",
            ),
        )
        return next(((status, text) for applies, status, text in rules if applies), None)
