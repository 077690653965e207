"""`StreamingDecoder`: a recording in progress, decoded one epoch at a time."""

from __future__ import annotations

import json
import math
import re
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from stageguard import checks
from stageguard.arrays import Floats
from stageguard.errors import InputError, StageGuardError
from stageguard.guard.decode import profile_for
from stageguard.guard.kernels.reference import Automaton
from stageguard.guard.night import (
    LONGEST_BRIDGE_SECONDS,
    GuardOptions,
    assumptions,
    best_stages,
    log_probabilities,
    read_night,
)
from stageguard.guard.posterior import EXACT_WINDOW
from stageguard.guard.solver import fixed_setting, solver_for
from stageguard.guard.stream_paths import StreamClock, StreamPaths
from stageguard.night.hypnodensity import check_probabilities, refuse_probabilities
from stageguard.night.stages import UNSCORED_NAME
from stageguard.profile.parts import STREAMED
from stageguard.profile.profile import Profile

_VERSION = 3  # of a snapshot
_SLACK = 1e-9  # keeps 60 s / 0.1 s at 600 epochs


class StreamingDecoder:
    """The hypnogram of a recording in progress.

    Each `push` takes one epoch's probabilities and returns the stages that are now certain: those on which
    all paths that can still win agree and, with a lag limit, those that have waited that long. Epochs are
    given out in order, each once. Without a limit, the stages given out, `finish` included, are those that
    `decode` returns for the whole recording; if several paths have the same score up to rounding, they may be
    another of these. With a limit they are a path that the profile allows, decided on what was known by then.
    Under a profile that steps aside they are argmax, ties included.

    A rule that sets the strength needs the whole night: `Profile.for_streaming` gives the weight in its
    place. The clock counts from sleep onset as soon as the stages given out show it, see `clock_onset`.

    Parameters
    ----------
    profile : Profile or str
        A profile. If its strength follows a rule, it needs the weight for streams (`Profile.streaming`).
    max_lag_seconds : float, optional
        How long an epoch may wait for its stage after it was pushed, rounded down to whole epochs; 0 decides
        at once. By default there is no limit.
    stages, epoch_seconds, cohort, stager, logits, log
        As in `stageguard.decode`, for the rows that will be pushed.

    Attributes
    ----------
    profile : Profile
        The profile it decodes with, of fixed strength.
    epoch_seconds : float
        Epoch length.
    max_lag_seconds : float or None
        The limit, None without one.
    assumed : tuple of str
        What had to be assumed about the rows, and what differs from `decode`.

    Examples
    --------
    >>> import stageguard as sg
    >>> decoder = sg.StreamingDecoder("kdd2026-actigraphy", max_lag_seconds=60)
    >>> [decoder.push([p, 1 - p]) for p in (0.9, 0.8, 0.3, 0.9, 0.9)]
    [(), (), ('W',), ('W',), ('W',)]
    >>> decoder.finish()
    ('W', 'W')
    """

    def __init__(
        self,
        profile: Profile | str,
        *,
        max_lag_seconds: float | None = None,
        stages: Sequence[str] | None = None,
        epoch_seconds: float | None = None,
        cohort: str | None = None,
        stager: str | None = None,
        logits: bool = False,
        log: bool = False,
    ) -> None:
        self._options = GuardOptions(
            stages=stages, epoch_seconds=epoch_seconds, cohort=cohort, stager=stager, logits=logits, log=log
        )
        self._given = profile_for(profile, self._options)
        by_rule = self._given.for_nights_of(stager, cohort)
        self.profile = by_rule.for_streaming()
        self._columns = self.profile.scheme.names if stages is None else checks.stage_names(stages)
        given = read_night(np.zeros((1, len(self._columns))), self.profile, self._options)
        self.epoch_seconds = given.epoch_seconds
        self.max_lag_seconds = None
        if max_lag_seconds is not None and max_lag_seconds != math.inf:
            self.max_lag_seconds = checks.number(max_lag_seconds, "max_lag_seconds", low=0.0)
        self.assumed = (*assumptions(self.profile, given), *_unlike_decode(by_rule, self.profile))
        calibration = self.profile.calibration
        self._calibration = calibration if calibration.temperature != 1.0 or calibration.biases else None
        setting, solver = fixed_setting(self.profile), solver_for(self.profile, self.epoch_seconds)
        self._nats, self._is_free = setting.stage_nats, solver.is_free(setting)
        self._clock = None if solver.clock is None else StreamClock(solver.clock, self.epoch_seconds)
        most = math.inf if self.max_lag_seconds is None else self.max_lag_seconds
        self._stream = StreamPaths(
            Automaton(*solver.automaton_tables(setting)),
            most / self.epoch_seconds + _SLACK,
            int((LONGEST_BRIDGE_SECONDS + _SLACK) / self.epoch_seconds),
            self._clock,
        )
        self._choices: deque[int] = deque()  # of pending epochs, if each is decided by itself
        self._first: Floats | None = None  # row of the recording, as given

    def push(self, row: npt.ArrayLike, quality: float | None = None) -> tuple[str, ...]:
        """Take the next epoch and return the stages that have become certain, the oldest first.

        Parameters
        ----------
        row : array, shape (n_stages,)
            The epoch's probabilities; all NaN if there is no evidence. Up to five minutes without evidence
            are bridged; more is a gap, unscored (``"?"``), after which a new stretch begins.
        quality : float, optional
            How much of the epoch's signal is lost: 0 clean, 1 lost.

        Returns
        -------
        tuple of str
            Stage names of the epochs from `n_committed` on, often none, ``"?"`` where unscored.

        Raises
        ------
        InputError
            The row is no distribution. The decoder is unchanged: push the corrected row.
        """
        rows = self._read(row)  # (1, n_stages)
        beta = 0.0 if quality is None else checks.number(quality, "quality", low=0.0, high=1.0)
        evidence = None if np.isnan(rows[0, 0]) else self._evidence(rows, beta)
        labels = self._stream.push(evidence, int(best_stages(rows, self._calibration, None)[0]))
        if self._is_free:
            timed, choice = self._stream.timed, best_stages(rows, self._calibration, self._nats)[0]
            if evidence is not None and timed is not None:
                choice = timed.argmax()
            self._choices.append(-1 if beta == 1.0 else int(choice))  # -1: its neighbours decide
            labels = self._by_choice(labels)
        if self._clock is not None:
            self._clock.give_out(labels)
        return self._named(labels)

    def finish(self) -> tuple[str, ...]:
        """Return the stages of all pending epochs, and start anew.

        The row pushed last is the end of the recording; the next row is the first of another recording.
        """
        labels = self._stream.finish()
        if self._is_free:
            labels = self._by_choice(labels)
        if self._clock is not None:
            self._clock.reset()
        return self._named(labels)

    @property
    def stages(self) -> tuple[str, ...] | None:
        """Names of the rows' columns, as passed; None is the profile's order."""
        return None if self._options.stages is None else tuple(self._options.stages)

    @property
    def scale(self) -> str:
        """What rows hold: probabilities, logits or log-probabilities."""
        return self._options.scale

    @property
    def n_epochs(self) -> int:
        """Number of epochs pushed since the recording began."""
        return int(self._stream.n_epochs)

    @property
    def n_committed(self) -> int:
        """Number of epochs whose stage was given out."""
        return int(self._stream.n_committed)

    @property
    def n_pending(self) -> int:
        """Number of epochs that still wait for their stage."""
        return self.n_epochs - self.n_committed

    @property
    def clock_onset(self) -> int | None:
        """The epoch of sleep onset that the profile's clock counts from; None while none is decided."""
        return None if self._clock is None else self._clock.onset

    def snapshot(self) -> bytes:
        """Return profile, options and state as JSON."""
        names = ("stages", "epoch_seconds", "cohort", "stager", "logits", "log")
        options = {name: getattr(self._options, name) for name in names}
        content = {
            "version": _VERSION,
            "profile": self._given.to_dict(),
            "options": options | {"stages": options["stages"] and list(options["stages"])},
            "max_lag_seconds": self.max_lag_seconds,
            "choices": list(self._choices),
            "clock": None if self._clock is None else self._clock.state(),
            "paths": self._stream.state(),
        }
        return json.dumps(content).encode()

    @classmethod
    def restore(cls, snapshot: bytes) -> StreamingDecoder:
        """Return a decoder that continues where `snapshot` was taken."""
        try:
            content = json.loads(snapshot)
            if content["version"] != _VERSION:
                raise InputError(f"it has version {content['version']}, expected {_VERSION}")
            profile, limit = Profile.from_dict(content["profile"]), content["max_lag_seconds"]
            decoder = cls(profile, max_lag_seconds=limit, **content["options"])
            decoder._stream.restore(**content["paths"])
            decoder._choices.extend(content["choices"])
            if decoder._clock is not None:
                decoder._clock.restore(content["clock"], decoder.n_committed)
        except (StageGuardError, KeyError, TypeError, ValueError, IndexError) as error:
            raise InputError(f"the snapshot cannot be used: {error}. Begin a new stream.") from None
        return decoder

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle by way of a snapshot."""
        return StreamingDecoder.restore, (self.snapshot(),)

    def __repr__(self) -> str:
        """Return the profile, the lag limit, and how many epochs went in and out."""
        lag = "any lag" if self.max_lag_seconds is None else f"lag up to {self.max_lag_seconds:g} s"
        return (
            f"<StreamingDecoder {self.profile.name!r}, {lag}, {self.n_epochs} epochs in, "
            f"{self.n_committed} out>"
        )

    def _read(self, row: npt.ArrayLike) -> Floats:
        """Return a row as probabilities (1, n_stages) in the profile's order; refuse one that holds none."""
        wanted = f"expected {len(self._columns)} numbers, one per stage: {', '.join(self._columns)}."
        if hasattr(row, "index") and not callable(row.index):  # a row of a table, in the table's order
            got = f"a {checks.type_name(row)}, which names its values"
            raise InputError(f"epoch {self.n_epochs} is {got}, {wanted}")
        array = checks.array_of(row, "probabilities", "read_density")
        if array.shape != (len(self._columns),):
            raise InputError(f"epoch {self.n_epochs} is {checks.shown(row)}, {wanted}")
        try:
            if self._options.logits and self.n_epochs == 1 and self._first is not None:
                refuse_probabilities(np.stack([self._first, array]))  # one row alone may look like some
            found = read_night(array[None], self.profile, self._options).probabilities
            check_probabilities(found, self.profile.scheme.names)
        except InputError as error:
            raise InputError(re.sub(r"\brow \d+", f"epoch {self.n_epochs}", str(error))) from None
        if self.n_epochs == 0:
            self._first = np.array(array)
        return found

    def _evidence(self, row: Floats, beta: float) -> Floats:
        """Return the log-evidence (n_stages,) of a row, as `Night.evidence` does."""
        scores: Floats = log_probabilities(row, self._calibration)[0]
        if self._nats is not None:
            scores = scores + np.array(self._nats)
        return (1.0 - beta) * scores - beta * math.log(len(scores))

    def _by_choice(self, labels: Sequence[int]) -> list[int]:
        """Return the choices of the epochs given out; epochs without evidence keep their label."""
        chosen = [(self._choices.popleft(), label) for label in labels]
        return [choice if choice >= 0 and label >= 0 else label for choice, label in chosen]

    def _named(self, labels: Sequence[int]) -> tuple[str, ...]:
        names = (*self.profile.scheme.names, UNSCORED_NAME)  # label -1 is the last
        return tuple([names[label] for label in labels])


def _unlike_decode(by_rule: Profile, used: Profile) -> Iterator[str]:
    """Say what differs from `decode` with the same profile."""
    if by_rule.strength is not None:
        known = STREAMED[by_rule.strength.flickers]
        yield (
            f"transition weight {used.transition_weight:g} throughout, the profile's for streams of {known}: "
            f"its rule {by_rule.strength.rule!r} needs the whole night"
        )
    if used.clock is not None:
        yield "the clock counts from sleep onset as given out"
    if used.flip_flop.is_greedy:
        yield EXACT_WINDOW
