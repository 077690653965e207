"""A stream's state as bytes, and back, every byte checked. No pickle, nothing is executed.

Layout, little-endian: ``SGSTREAM``, version (uint32), length of the header (uint32), the header as JSON, the
arrays of the state one after the other, SHA-256 of all before it.
"""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from stageguard.errors import InputError

MAGIC = b"SGSTREAM"
VERSION = 1
_PREFIX = struct.Struct("<8sII")
_DIGEST_BYTES = 32
# counts, scores, bout of each state, and the bouts' parents, stages and starts
_TYPES = ("<i8", "<f8", "<i4", "<i4", "<i4", "<i8")
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
        header: dict[str, Any] = json.loads(text)
        return header, _arrays(whole[_PREFIX.size + n_text : -_DIGEST_BYTES], header["lengths"])
    except (KeyError, TypeError, ValueError, RecursionError):
        raise InputError(f"the snapshot's header cannot be read. {_DAMAGED}") from None


def _arrays(body: bytes, lengths: list[int]) -> State:
    at, arrays = 0, []
    for kind, length in zip(_TYPES, lengths, strict=True):
        array = np.frombuffer(body, dtype=kind, count=length, offset=at)
        arrays.append(array.astype(array.dtype.newbyteorder("=")))
        at += array.nbytes
    if at != len(body):
        raise ValueError
    return tuple(arrays)


def check_state(state: State, stage: npt.NDArray[np.int32], n_stages: int) -> None:
    """Refuse a state that no stream on these automaton states can be in."""
    counts, scores, own, parent, bout_stage, start = state
    shapes_fit = len(counts) == 5 and len(scores) == len(own) == len(stage)
    if not (shapes_fit and 0 < len(parent) == len(bout_stage) == len(start)):
        raise _impossible()
    n_epochs, n_committed, n_missing, n_missing_run, is_running = counts.tolist()
    n_solved = n_epochs - n_missing
    later = np.arange(1, len(parent))
    first = later[parent[1:] == 0]  # what follows the root
    alive = own >= 0
    right = (
        0 <= n_missing <= n_missing_run <= n_epochs
        and 0 <= n_committed <= n_solved
        and (n_committed == n_solved or is_running == 1)
        and is_running in (0, 1)
        and not np.isnan(scores).any()
        and not (scores == np.inf).any()
        and np.array_equal(alive, scores > -np.inf)
        and bool(alive.any()) == bool(is_running)
        and own.min() >= -1
        and own.max() < len(parent)
        and parent[0] == -1
        and (parent[1:] >= 0).all()
        and (parent[1:] < later).all()
        and -1 <= bout_stage[0] < n_stages
        and (bout_stage[1:] >= 0).all()
        and (bout_stage[1:] < n_stages).all()
        and np.array_equal(bout_stage[own[alive]], stage[alive])
        and 0 <= start[0] <= n_committed
        and (start[1:] < max(n_solved, 1)).all()
        and (start[first] >= n_committed).all()
        and (start[1:] - start[parent[1:]] >= (parent[1:] > 0)).all()
    )
    if not right:
        raise _impossible()


def _impossible() -> InputError:
    return InputError(f"the snapshot holds a state that no stream can be in. {_DAMAGED}")
