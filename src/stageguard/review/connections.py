"""Connections that may not keep the server waiting: a limit of time for a request, and of idle connections.

Without them, a program that opens many connections and never finishes a request would lock the scorer out.
"""

from __future__ import annotations

import asyncio
from typing import Any

from stageguard.base.extras import library

REQUEST_SECONDS = 10.0  # from the opening of a connection, or from its last answer, to a whole request
MOST_WAITING = 32  # connections without a whole request; of more, the oldest are closed


def limited_protocol(what: str) -> type[asyncio.Protocol]:
    """Return uvicorn's HTTP protocol with these limits, for one server."""
    base: Any = library("uvicorn.protocols.http.h11_impl", what, "review").H11Protocol
    h11 = library("h11", what, "review")
    deadlines: dict[Any, asyncio.TimerHandle] = {}  # by connection, the oldest first

    class Limited(base):  # type: ignore[misc]  # uvicorn is an extra
        """A connection that is closed if its next request does not come as a whole in time."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._await_request()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
                self._stop_waiting()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
                self._await_request()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def _await_request(self) -> None:
            if self not in deadlines:
                deadlines[self] = self.loop.call_later(REQUEST_SECONDS, self._give_up)
            while len(deadlines) > MOST_WAITING:
                next(iter(deadlines))._give_up()

        def _stop_waiting(self) -> None:
            deadline = deadlines.pop(self, None)
            if deadline is not None:
                deadline.cancel()

        def _give_up(self) -> None:
            self._stop_waiting()
            self.transport.abort()

    protocol: type[asyncio.Protocol] = Limited
    return protocol
