"""A ledger of rare events before and after decoding.

Wake straight to REM and REM soon after sleep onset are what a narcolepsy clinic must not lose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

import numpy as np

from stageguard import checks
from stageguard.arrays import NAN, Floats, Labels
from stageguard.errors import InputError
from stageguard.guard.decoding import Decoding
from stageguard.measures.bouts import TOLERANCE_EPOCHS, bouts_of, cuts_of
from stageguard.night.stages import StageScheme
from stageguard.values import ComparedByValue

Fate = Literal["kept", "partly removed", "lost", "new"]
SOON_MINUTES = 15.0  # after sleep onset, in which REM is early


@dataclass(frozen=True, slots=True, eq=False)
class RareEvent(ComparedByValue):
    """One rare event of a night.

    Attributes
    ----------
    kind : str
        ``W->R`` and the like, ``REM within 15 min of sleep onset``, or ``REM held back by the clock``: the
        stager's REM at a time when experts score less than half of its usual share.
    epoch : int
        First epoch of the new stage, by the stager if it has the event, else in the decoded night.
    clock : datetime or None
        When that epoch begins, if the night has a start.
    in_before, in_after : bool
        Whether the stager's own choice has it, and the decoded night (within two epochs of it).
    n_epochs : int
        How long the new stage lasts there.
    evidence_nats : float
        Log-probability of that stage minus that of the best other one, at its first epoch: above 0, the
        stager favours it. After calibration, before anything the decoder adds. NaN without evidence.
    bout_evidence_nats : float
        The same, summed over those of its `n_epochs` with evidence.
    is_early_rem : bool
        Whether it is REM soon after sleep onset, or held back by the clock.
    minutes_since_onset : float
        From the decoded night's sleep onset, restarted as by the clock; NaN before it.
    n_removed : int
        How many of the stager's `n_epochs` have another stage in the decoded night.
    """

    kind: str
    epoch: int
    clock: datetime | None
    in_before: bool
    in_after: bool
    n_epochs: int
    evidence_nats: float
    bout_evidence_nats: float
    is_early_rem: bool = False
    minutes_since_onset: float = NAN
    n_removed: int = 0

    @property
    def fate(self) -> Fate:
        """``kept``, ``lost``, ``new``, or ``partly removed``: early REM of which less than half is left."""
        if not self.in_before:
            return "new"
        if not self.in_after:
            return "lost"
        return "partly removed" if self.is_early_rem and 2 * self.n_removed > self.n_epochs else "kept"


def rare_events(decoding: Decoding, *, within_minutes: float = SOON_MINUTES) -> tuple[RareEvent, ...]:
    """List every rare event of a night before and after decoding.

    An event is a change from wake to REM, any other of the profile's ``tvr_pairs``, REM that begins
    within some minutes of the first epoch of sleep, or REM that a profile's clock holds back. It is kept
    when the decoded night has one of the same kind within two epochs.

    Parameters
    ----------
    decoding : Decoding
        A decoded night.
    within_minutes : float
        How soon after sleep onset REM is an event.

    Returns
    -------
    tuple of RareEvent
        The events in order of time.

    Examples
    --------
    >>> import stageguard as sg
    >>> night = sg.simulate_night("human-psg-5", seed=1)
    >>> events = sg.rare_events(sg.decode(night.density, "human-psg-5"))
    >>> [(event.kind, event.fate) for event in events[:2]]
    [('N1->N3', 'lost'), ('W->R', 'kept')]
    """
    if not isinstance(decoding, Decoding):
        raise InputError(
            f"the night is {checks.shown(decoding)}, expected a Decoding, which knows what it was before. "
            "Use the result of decode."
        )
    soon = checks.number(within_minutes, "within_minutes", positive=True)
    scheme, cuts = decoding.hypnogram.scheme, cuts_of(decoding)
    before, after = decoding.argmax, decoding.hypnogram.labels
    sightings: list[_Sighting] = []
    # wake straight to REM is looked for even if the profile finds it common
    wake_to_rem = [(scheme.wake, scheme.rem)] if scheme.wake is not None and scheme.rem is not None else []
    for a, b in dict.fromkeys([*wake_to_rem, *decoding.profile.tvr_pairs]):
        pair = scheme.index(a), scheme.index(b)
        changes = _match_events(_changes(before, *pair, cuts), _changes(after, *pair, cuts))
        sightings += [_Sighting(f"{a}->{b}", *match) for match in changes]
    return _describe(decoding, [*sightings, *_early_sightings(decoding, soon)])


def early_rem_removed(decoding: Decoding) -> tuple[RareEvent, ...]:
    """Return the stager's early REM that the decoded night has lost, or of which less than half is left."""
    events = _describe(decoding, _early_sightings(decoding, SOON_MINUTES))
    # a bout that only merged with another is lost as an event, but none of its epochs is
    return tuple(each for each in events if each.n_removed and each.fate in ("lost", "partly removed"))


class _Sighting(NamedTuple):
    """Where an event is, and in which of the two nights."""

    kind: str
    epoch: int
    in_before: bool
    in_after: bool
    is_early_rem: bool = False


def _early_sightings(decoding: Decoding, soon: float) -> list[_Sighting]:
    """Return REM soon after sleep onset, and REM that the clock holds back, where experts seldom score it."""
    scheme, clock = decoding.hypnogram.scheme, decoding.night.clock
    if scheme.wake is None or scheme.rem_index is None:
        return []
    is_rare = np.zeros(0, dtype=bool)  # by the clock, in the epochs that it times
    if clock is not None:
        is_rare = clock.by_time[:, scheme.rem_index] < 0.5**clock.rules.weight
    n_soon = soon * 60.0 / decoding.epoch_seconds + 1e-9
    begin = decoding.period[0]  # sleep before the night, such as an evening nap, makes no REM early
    early, held_back = [], []
    for labels in (decoding.argmax, decoding.hypnogram.labels):
        bouts = bouts_of(labels)
        rem = bouts.starts[bouts.stages == scheme.rem_index]
        onset = begin + next(iter(_first_sleep(labels[begin:], scheme)), 0)
        is_early = (begin <= rem) & (rem - onset <= n_soon)
        is_timed = rem < len(is_rare)
        is_held = is_timed & ~is_early
        is_held[is_timed] &= is_rare[rem[is_timed]]
        early.append(rem[is_early].tolist())
        held_back.append(rem[is_held].tolist())
    kinds = {f"REM within {soon:g} min of sleep onset": early, "REM held back by the clock": held_back}
    return [
        _Sighting(kind, *match, True) for kind, epochs in kinds.items() for match in _match_events(*epochs)
    ]


def _describe(decoding: Decoding, sightings: Sequence[_Sighting]) -> tuple[RareEvent, ...]:
    """Return events with their length and evidence, in order of time."""
    if not sightings:
        return ()
    before, after = decoding.argmax, decoding.hypnogram.labels
    evidence = decoding.night.calibrated()
    bouts_in = {in_before: bouts_of(before if in_before else after) for in_before in (True, False)}
    onsets = decoding.strength.clock_onsets or _first_sleep(after, decoding.hypnogram.scheme)
    events: list[RareEvent] = []
    for kind, epoch, in_before, in_after, is_early_rem in sightings:
        bouts = bouts_in[in_before]
        ends = bouts.starts + bouts.lengths
        length = int(ends[np.searchsorted(ends, epoch, side="right")]) - epoch
        stage, bout = int((before if in_before else after)[epoch]), slice(epoch, epoch + length)
        nats = _margin(evidence[bout], stage)
        existing = nats[~np.isnan(nats)]
        # after a restart of the clock, the last onset counts
        since = min((epoch - onset for onset in onsets if onset <= epoch), default=NAN)
        events.append(
            RareEvent(
                kind=kind,
                epoch=epoch,
                clock=decoding.hypnogram.clock_at(epoch),
                in_before=in_before,
                in_after=in_after,
                n_epochs=length,
                evidence_nats=float(nats[0]),
                bout_evidence_nats=float(existing.sum()) if len(existing) else NAN,
                is_early_rem=is_early_rem,
                minutes_since_onset=since * decoding.epoch_seconds / 60.0,
                n_removed=int(np.count_nonzero(after[bout] != stage)),
            )
        )
    return tuple(sorted(events, key=lambda event: (event.epoch, event.kind)))


def _changes(labels: Labels, source: int, target: int, cuts: Sequence[int]) -> list[int]:
    """Return the epochs at which one stage gives way to another, within a segment."""
    changes = np.flatnonzero((labels[:-1] == source) & (labels[1:] == target)) + 1
    return [epoch for epoch in changes.tolist() if epoch not in cuts]


def _match_events(before: list[int], after: list[int]) -> list[tuple[int, bool, bool]]:
    """Return events and the nights they occur in; the nearest ones of both nights are paired, each once."""
    there = set(after)
    reach = range(-TOLERANCE_EPOCHS, TOLERANCE_EPOCHS + 1)
    # the nearest first, so that two events close together are not crossed
    near = [(abs(step), i, i + step) for i in before for step in reach if i + step in there]
    kept: dict[int, int] = {}
    taken: set[int] = set()
    for _, i, j in sorted(near):
        if i not in kept and j not in taken:
            kept[i] = j
            taken.add(j)
    new = sorted(there - taken)
    return [(i, True, i in kept) for i in before] + [(j, False, True) for j in new]


def _first_sleep(labels: Labels, scheme: StageScheme) -> tuple[int, ...]:
    """Return the first epoch of sleep; empty without sleep."""
    asleep = (labels >= 0) & (labels != scheme.wake_index)
    return (int(asleep.argmax()),) if scheme.wake is not None and asleep.any() else ()


def _margin(log_probabilities: Floats, stage: int) -> Floats:
    """Return how far a stage leads over the best other one, per epoch in nats."""
    # the margin over the runner-up, not the probability: it says how firm the choice was
    others = np.delete(log_probabilities, stage, axis=1)
    return np.asarray(log_probabilities[:, stage] - others.max(axis=1))
