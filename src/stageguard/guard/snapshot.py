"""A stream's state as bytes, and back; every byte is checked before it is used.

Layout, little-endian: ``SGSTREAM``, version (uint32), length of the header (uint32), the header as JSON, the
arrays of the state one after the other, SHA-256 of all before it.
"""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stageguard.arrays import Ints32
from stageguard.errors import InputError
from stageguard.files import parse_json

MAGIC = b"SGSTREAM"
VERSION = 1
_PREFIX = struct.Struct("<8sII")
_DIGEST_BYTES = 32
# counts, scores, bout of each state, and the bouts' parents, stages and starts
_TYPES = ("<i8", "<f8", "<i4", "<i4", "<i4", "<i8")
MOST_EPOCHS = 1 << 53  # beyond it, doubles cannot tell epochs apart
MOST_PENDING = 1 << 22  # epochs that wait for their stage: four years of 30 s
_DAMAGED = "Keep the bytes of snapshot() exactly as they are, or begin a new stream."

State = tuple[npt.NDArray[Any], ...]


def pack(header: dict[str, Any], state: State) -> bytes:
    """Return a header and the state's arrays as bytes."""
    text = json.dumps(
        header | {"lengths": [len(array) for array in state]}, sort_keys=True, separators=(",", ":")
    ).encode()
    body = b"".join(array.astype(kind).tobytes() for array, kind in zip(state, _TYPES, strict=True))
    whole = _PREFIX.pack(MAGIC, VERSION, len(text)) + text + body
    return whole + hashlib.sha256(whole).digest()


def unpack(snapshot: bytes) -> tuple[dict[str, Any], State]:
    """Return the header and arrays of a snapshot; refuse one that is damaged or of another version."""
    if not isinstance(snapshot, bytes | bytearray | memoryview):
        raise InputError(
            f"the snapshot is a {type(snapshot).__name__}, expected bytes from StreamingDecoder.snapshot()."
        )
    whole = bytes(snapshot)
    if whole[: len(MAGIC)] != MAGIC:
        raise InputError(
            f"the snapshot begins with {whole[: len(MAGIC)]!r}, expected bytes from "
            "StreamingDecoder.snapshot()."
        )
    if len(whole) < _PREFIX.size + _DIGEST_BYTES:
        raise InputError(f"the snapshot is cut off after {len(whole)} bytes. {_DAMAGED}")
    _, version, n_text = _PREFIX.unpack_from(whole)
    if version != VERSION:
        raise InputError(
            f"the snapshot has version {version}, expected {VERSION}. Restore it with the StageGuard that "
            "made it, or begin a new stream."
        )
    if hashlib.sha256(whole[:-_DIGEST_BYTES]).digest() != whole[-_DIGEST_BYTES:]:
        raise InputError(f"the snapshot's checksum does not match its contents. {_DAMAGED}")
    try:
        text = whole[_PREFIX.size : _PREFIX.size + n_text]
        header: dict[str, Any] = parse_json(text)
        return header, _arrays(whole[_PREFIX.size + n_text : -_DIGEST_BYTES], header["lengths"])
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError):
        raise InputError(f"the snapshot's header cannot be read. {_DAMAGED}") from None


def _arrays(body: bytes, lengths: list[int]) -> State:
    offset, arrays = 0, []
    for kind, length in zip(_TYPES, lengths, strict=True):
        array = np.frombuffer(body, dtype=kind, count=length, offset=offset)
        arrays.append(array.astype(array.dtype.newbyteorder("=")))
        offset += array.nbytes
    if offset != len(body):
        raise ValueError
    return tuple(arrays)


class Limits(NamedTuple):
    """Limits of a stream: epochs that are bridged, and epochs that may be pending (-1 without limit)."""

    most_bridged: int
    max_lag: int


def check_state(state: State, stage: Ints32, n_stages: int, limits: Limits) -> None:
    """Refuse a state that no stream on these automaton states can be in."""
    counts, scores, state_bout, parent, bout_stage, start = state
    shapes_fit = len(counts) == 5 and len(scores) == len(state_bout) == len(stage)
    if not (shapes_fit and 0 < len(parent) == len(bout_stage) == len(start)):
        raise _impossible()
    if not (_counts_fit(counts.tolist(), limits) and _bouts_fit(state, n_stages)):
        raise _impossible()
    n_epochs, n_committed, n_missing, _, is_running = counts.tolist()
    n_solved = n_epochs - n_missing
    first = np.flatnonzero(parent == 0)  # bouts that follow the root
    alive = state_bout >= 0
    in_root = bool((state_bout == 0).any())
    right = (
        not np.isnan(scores).any()
        and not (scores == np.inf).any()
        and np.array_equal(alive, scores > -np.inf)
        and bool(alive.any()) == bool(is_running)
        and np.array_equal(bout_stage[state_bout[alive]], stage[alive])
        and 0 <= start[0] <= n_committed
        and (start[1:] < max(n_solved, 1)).all()
        # exactly what all paths agree on is given out: up to the first bout that not all share
        and (not is_running or n_committed == min(start[first].tolist(), default=n_solved))
        and (in_root or len(first) != 1)
    )
    if not right:
        raise _impossible()


def _counts_fit(counts: list[int], limits: Limits) -> bool:
    n_epochs, n_committed, n_missing, n_missing_run, is_running = counts
    n_pending = n_epochs - n_committed
    return (
        0 <= n_missing <= n_missing_run <= n_epochs <= MOST_EPOCHS
        and is_running in (0, 1)
        and 0 <= n_committed <= n_epochs - n_missing
        and (n_committed == n_epochs - n_missing or is_running == 1)
        # a longer run is a gap, which ends the stretch and is given out at once
        and (n_missing_run <= limits.most_bridged or (n_missing == 0 and not is_running))
        and n_pending <= (MOST_PENDING if limits.max_lag < 0 else min(MOST_PENDING, limits.max_lag))
    )


def _bouts_fit(state: State, n_stages: int) -> bool:
    _, _, state_bout, parent, bout_stage, start = state
    later = np.arange(1, len(parent))
    if not (
        state_bout.min() >= -1
        and state_bout.max() < len(parent)
        and parent[0] == -1
        and (parent[1:] >= 0).all()
    ):
        return False
    if not (parent[1:] < later).all():
        return False
    is_used = np.zeros(len(parent), dtype=bool)
    is_used[0] = True
    is_used[parent[1:]] = True
    is_used[state_bout[state_bout >= 0]] = True
    return bool(
        is_used.all()
        and -1 <= bout_stage[0] < n_stages
        and (bout_stage[1:] >= 0).all()
        and (bout_stage[1:] < n_stages).all()
        and (bout_stage[1:] != bout_stage[parent[1:]]).all()
        and (start >= 0).all()
        and (start[1:] - start[parent[1:]] >= (parent[1:] > 0)).all()
    )


def _impossible() -> InputError:
    return InputError(f"the snapshot holds a state that no stream can be in. {_DAMAGED}")
