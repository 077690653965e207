"""NREM-REM cycles of one night of human sleep. A count, not a picture of homeostasis; nothing for rodents.

The definition, after Feinberg & Floyd (1979) as Luna applies it:

* A REM period begins with REM and goes on while less than 15 min pass without REM.
* Sleep is divided by every REM period, and by every 15 min that hold nothing but wake, N1 and
  unscored epochs. From the second cycle on, a REM period of less than 5 min does not divide.
* What lies between two dividers counts as a cycle when it holds at least 15 min of NREM, reckoned
  from its first epoch of N2, N3 (or NREM, where a scheme does not divide it).

So a cycle need not end in REM, and REM at sleep onset belongs to none.
"""

from __future__ import annotations

import re
from functools import cache

from stageguard.measures.bouts import whole_epochs
from stageguard.stages import StageScheme, canonical_name

REM_INTERRUPTION_SECONDS = 15 * 60.0
DIVIDING_WAKE_SECONDS = 15 * 60.0
SHORTEST_REM_PERIOD_SECONDS = 5 * 60.0
SHORTEST_NREM_SECONDS = 15 * 60.0

_LIGHT = b"W1?"


def count_cycles(epochs: bytes, scheme: StageScheme, epoch_seconds: float) -> int:
    """Return the number of cycles in label bytes, 255 where unscored; the scheme must have wake and REM."""
    text = epochs.translate(_letters(scheme))
    shortest_rem = whole_epochs(SHORTEST_REM_PERIOD_SECONDS, epoch_seconds)
    shortest_nrem = whole_epochs(SHORTEST_NREM_SECONDS, epoch_seconds)
    n_cycles = begin = 0
    for divider in _dividers(epoch_seconds).finditer(text):
        if n_cycles and divider[0][:1] == b"R" and len(divider[0]) < shortest_rem:
            continue
        n_cycles += _n_nrem(text[begin : divider.start()]) >= shortest_nrem
        begin = divider.end()
    return n_cycles + (_n_nrem(text[begin:]) >= shortest_nrem)


def _n_nrem(between: bytes) -> int:
    """Return the epochs of NREM from the first that is deeper than N1."""
    asleep = between.lstrip(_LIGHT)
    return asleep.count(b"N") + asleep.count(b"1")


@cache
def _dividers(epoch_seconds: float) -> re.Pattern[bytes]:
    longest_gap = max(0, whole_epochs(REM_INTERRUPTION_SECONDS, epoch_seconds) - 1)
    light = whole_epochs(DIVIDING_WAKE_SECONDS, epoch_seconds)
    return re.compile(rb"R(?:[^R]{0,%d}R)*|[W1?]{%d,}" % (longest_gap, light))


@cache
def _letters(scheme: StageScheme) -> bytes:
    """Return the table that turns label bytes into W, 1 (N1), N, R and ?."""
    table = bytearray(b"?" * 256)
    for label, name in enumerate(scheme.names):
        table[label] = ord("1" if canonical_name(name) == "N1" else "N")
        if name in (scheme.wake, scheme.rem):
            table[label] = ord("W" if name == scheme.wake else "R")
    return bytes(table)
