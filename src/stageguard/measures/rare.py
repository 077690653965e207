"""A ledger of rare events before and after decoding.

Wake straight to REM and REM soon after sleep onset are what a narcolepsy clinic must not lose.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import numpy as np

from stageguard import checks
from stageguard.arrays import NAN, ComparedByValue, Labels
from stageguard.errors import InputError
from stageguard.guard.decoding import Decoding
from stageguard.measures.bouts import TOLERANCE_EPOCHS, bouts_of, cuts_of

Fate = Literal["kept", "partly removed", "lost", "new"]
SOON_MINUTES = 15.0  # after sleep onset, in which REM is early
HELD_BACK = "REM held back by the clock"


@dataclass(frozen=True, slots=True, eq=False)
class RareEvent(ComparedByValue):
    """One rare event of a night."""

    kind: str  # ``W->R`` and the like, ``REM within 15 min of sleep onset``, ``REM held back by the clock``
    epoch: int  # first of the new stage, by the stager if it has the event, else in the decoded night
    clock: datetime | None  # when that epoch begins, if the night has a start
    in_before: bool  # whether the stager's own choice has it
    in_after: bool  # whether the decoded night has it, within two epochs
    n_epochs: int  # how long the new stage lasts there
    evidence_nats: float  # log-probability of that stage minus the best other one's, at the first epoch
    bout_evidence_nats: float  # the same, summed over those of its `n_epochs` with evidence
    is_early_rem: bool = False  # whether it is REM soon after sleep onset, or held back by the clock
    minutes_since_onset: float = NAN  # from the decoded night's sleep onset, restarted as by the clock
    n_removed: int = 0  # how many of the stager's `n_epochs` have another stage in the decoded night

    @property
    def fate(self) -> Fate:
        """``kept``, ``lost``, ``new``, or ``partly removed``: early REM of which less than half is left."""
        if not self.in_before:
            return "new"
        if not self.in_after:
            return "lost"
        return "partly removed" if self.is_early_rem and 2 * self.n_removed > self.n_epochs else "kept"


def rare_events(decoding: Decoding) -> tuple[RareEvent, ...]:
    """List every rare event of a night before and after decoding.

    An event is a change from wake to REM, any other of the profile's ``tvr_pairs``, REM that begins within
    15 min of the first epoch of sleep, or REM that a profile's clock holds back: at a time when experts score
    less than half of its usual share. It is kept when the decoded night has one of the same kind within two
    epochs. Events are in order of time.
    """
    if not isinstance(decoding, Decoding):
        raise InputError(f"the night is {checks.shown(decoding)}, expected what decode() returned.")
    scheme, cuts = decoding.hypnogram.scheme, cuts_of(decoding)
    nights = decoding.argmax, decoding.hypnogram.labels
    # wake straight to REM is looked for even if the profile finds it common
    wake_to_rem = [(scheme.wake, scheme.rem)] if scheme.wake is not None and scheme.rem is not None else []
    events = list(_early_rem(decoding))
    for a, b in dict.fromkeys([*wake_to_rem, *decoding.profile.tvr_pairs]):
        found = [_changes(labels, scheme.index(a), scheme.index(b), cuts) for labels in nights]
        events += _events(decoding, f"{a}->{b}", *found)
    return tuple(sorted(events, key=lambda event: (event.epoch, event.kind)))


def early_rem_removed(decoding: Decoding) -> tuple[RareEvent, ...]:
    """Return the stager's early REM that the decoded night has lost, or of which less than half is left."""
    events = (each for each in rare_events(decoding) if each.is_early_rem)
    # a bout that only merged with another is lost as an event, but none of its epochs is
    return tuple(each for each in events if each.n_removed and each.fate in ("lost", "partly removed"))


def _early_rem(decoding: Decoding) -> Iterator[RareEvent]:
    """Yield REM soon after sleep onset, and REM that the clock holds back, where experts seldom score it."""
    scheme, clock = decoding.hypnogram.scheme, decoding.night.clock
    if scheme.wake is None or scheme.rem_index is None:
        return
    n_soon = SOON_MINUTES * 60.0 / decoding.epoch_seconds + 1e-9
    begin = decoding.period[0]  # sleep before the night, such as an evening nap, makes no REM early
    early, held_back = [], []
    for labels in (decoding.argmax, decoding.hypnogram.labels):
        bouts = bouts_of(labels)
        rem = bouts.starts[bouts.stages == scheme.rem_index]
        onset = next(iter(_first_sleep(labels, scheme.wake_index, begin)), begin)
        is_early = (begin <= rem) & (rem - onset <= n_soon)
        early.append(rem[is_early].tolist())
        others = rem[:0]
        if clock is not None:
            others = rem[~is_early & (rem < len(clock.by_time))]  # the clock may time fewer epochs
            others = others[clock.by_time[others, scheme.rem_index] < 0.5**clock.rules.weight]
        held_back.append(others.tolist())
    yield from _events(decoding, f"REM within {SOON_MINUTES:g} min of sleep onset", *early, is_early_rem=True)
    yield from _events(decoding, HELD_BACK, *held_back, is_early_rem=True)


def _first_sleep(labels: Labels, wake: int | None, begin: int = 0) -> list[int]:
    """Return the first epoch of sleep from an epoch on; empty without sleep."""
    asleep = (labels[begin:] >= 0) & (labels[begin:] != wake)
    return [begin + int(asleep.argmax())] if wake is not None and asleep.any() else []


def _events(
    decoding: Decoding, kind: str, before: list[int], after: list[int], *, is_early_rem: bool = False
) -> Iterator[RareEvent]:
    """Yield the events of a kind, with their length and evidence."""
    nights = {True: decoding.argmax, False: decoding.hypnogram.labels}
    wake = decoding.hypnogram.scheme.wake_index
    onsets = decoding.strength.clock_onsets or _first_sleep(nights[False], wake)
    ends = {key: np.append(bouts_of(labels).starts[1:], len(labels)) for key, labels in nights.items()}
    for epoch, in_before, in_after in _match_events(before, after):
        bout = slice(epoch, int(ends[in_before][np.searchsorted(ends[in_before], epoch, side="right")]))
        stage = int(nights[in_before][epoch])
        # the lead over the runner-up, not the probability, says how firm the choice was
        evidence = decoding.night.calibrated()[bout]
        nats = evidence[:, stage] - np.delete(evidence, stage, axis=1).max(axis=1)
        existing = nats[~np.isnan(nats)]
        # after a restart of the clock, the last onset counts
        since = min((epoch - onset for onset in onsets if onset <= epoch), default=NAN)
        yield RareEvent(
            kind=kind,
            epoch=epoch,
            clock=decoding.hypnogram.clock_at(epoch),
            in_before=in_before,
            in_after=in_after,
            n_epochs=bout.stop - epoch,
            evidence_nats=float(nats[0]),
            bout_evidence_nats=float(existing.sum()) if len(existing) else NAN,
            is_early_rem=is_early_rem,
            minutes_since_onset=since * decoding.epoch_seconds / 60.0,
            n_removed=int(np.count_nonzero(nights[False][bout] != stage)),
        )


def _match_events(before: list[int], after: list[int]) -> list[tuple[int, bool, bool]]:
    """Return events and the nights they occur in; the nearest ones of both nights are paired, each once."""
    reach, there = range(-TOLERANCE_EPOCHS, TOLERANCE_EPOCHS + 1), set(after)
    kept: set[int] = set()
    # the nearest first, so that two events close together are not crossed
    for _, i, j in sorted((abs(step), i, i + step) for i in before for step in reach if i + step in there):
        if i not in kept and j in there:
            kept.add(i)
            there.remove(j)
    return [(i, True, i in kept) for i in before] + [(j, False, True) for j in sorted(there)]


def _changes(labels: Labels, source: int, target: int, cuts: Sequence[int]) -> list[int]:
    """Return the epochs at which one stage gives way to another, within a segment."""
    changes = np.flatnonzero((labels[:-1] == source) & (labels[1:] == target)) + 1
    return [epoch for epoch in changes.tolist() if epoch not in cuts]
