"""The clock of a stream: what it adds to an epoch's evidence, by the stages given out before.

Sleep onset is decided once, when the stages given out show lasting sleep (see `night.period`): it is the
first epoch asleep with at least 6 minutes asleep in the 10 minutes that begin with it. An epoch is weighed
when it enters the paths, by the onset decided before: without one as `decode` weighs epochs shortly before
onset, else by the time since it. Unbroken wake that restarts the clock makes it wait for lasting sleep again.

A bout of the stager that has lasted `spare_minutes` is no longer held back. `decode`, which sees its end,
does not hold back its beginning either, and gives way where it would leave a hole in a bout.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stageguard.arrays import Floats
from stageguard.guard.clock import ClockRules
from stageguard.night.period import period_epochs


class StreamClock:
    """A profile's clock in a recording in progress."""

    def __init__(self, rules: ClockRules, epoch_seconds: float) -> None:
        self._rules = rules
        self._rows = np.log(rules.rows)  # (n_rows, n_stages) nats, a row per epoch since onset
        self._before = np.minimum(self._rows[0], 0.0)  # sleep before the onset would itself be the onset
        self._before[rules.wake] = 0.0
        self._beyond = np.zeros(len(self._before))
        self._window, self._least, _ = period_epochs(epoch_seconds)
        self.reset()

    def reset(self) -> None:
        """Begin a recording."""
        self.onset: int | None = None  # the epoch it counts from
        self._n_given = 0  # epochs given out
        self._n_awake = 0  # the last ones given out that are wake
        self._asleep: deque[int] = deque()  # epochs asleep among the last ones, while no onset is decided
        self._forget_bouts()

    def _forget_bouts(self) -> None:
        # of each stage held back: first epoch of the stager's bout, and its last rows of other stages
        self._bouts: dict[int, tuple[int, int]] = {}

    def nats(self, epoch: int, own: int | None) -> Floats:
        """Return what it adds to an epoch; `own` is the stager's choice, None without evidence."""
        added: Floats = self._before
        if self.onset is not None:
            since = epoch - self.onset
            added = self._rows[since] if since < len(self._rows) else self._beyond
        spared = [stage for stage in self._rules.held_back if self._is_spared(stage, epoch, own)]
        if spared:
            added = added.copy()
            added[spared] = np.maximum(added[spared], 0.0)
        return added

    def _is_spared(self, stage: int, epoch: int, own: int | None) -> bool:
        """Whether an epoch is in a bout of the stager that has lasted long enough."""
        start, n_others = self._bouts.get(stage, (epoch, 0))
        is_inside = n_others == 0 and stage in self._bouts if own is None else own == stage
        return is_inside and epoch + 1 - start >= self._rules.spare_epochs - 1e-9

    def see(self, epoch: int, own: int) -> None:
        """Take the stager's choice of an epoch; a single row of another stage does not end a bout."""
        for stage in self._rules.held_back:
            if stage == own:
                start, _ = self._bouts.get(stage, (epoch, 0))
                self._bouts[stage] = start, 0
            elif stage in self._bouts:
                start, n_others = self._bouts.pop(stage)
                if n_others == 0:
                    self._bouts[stage] = start, 1

    def give_out(self, labels: Sequence[int]) -> None:
        """Take the stages of the next epochs as they are given out, -1 where unscored."""
        for label in labels:
            self._n_awake = self._n_awake + 1 if label == self._rules.wake else 0
            if label < 0:
                self._forget_bouts()  # a gap
            elif label != self._rules.wake and self.onset is None:
                self._look_for_onset(self._n_given)
            if self.onset is not None and self._n_awake >= self._rules.restart_epochs:
                self.onset = None
            self._n_given += 1

    def _look_for_onset(self, epoch: int) -> None:
        """Take an epoch asleep; the first of enough of them within the window is the onset."""
        self._asleep.append(epoch)
        while self._asleep[0] <= epoch - self._window:
            self._asleep.popleft()
        if len(self._asleep) >= self._least:
            self.onset = self._asleep[0]
            self._asleep.clear()

    def state(self) -> dict[str, Any]:
        """Return its state as plain types."""
        return {
            "onset": self.onset,
            "n_awake": self._n_awake,
            "asleep": list(self._asleep),
            "bouts": [[stage, *bout] for stage, bout in sorted(self._bouts.items())],
        }

    def restore(self, state: Mapping[str, Any], n_epochs: int, n_given: int) -> bool:
        """Restore what `state` returned; return False for a state that no clock can be in."""
        onset, n_awake = state["onset"], state["n_awake"]
        asleep, bouts = state["asleep"], state["bouts"]
        numbers = [n_awake, *asleep, *(number for bout in bouts for number in bout)]
        numbers += [] if onset is None else [onset]
        if not all(type(number) is int for number in numbers):
            return False
        stages = [stage for stage, _, _ in bouts]
        fits = (
            0 <= n_awake <= n_given
            and asleep == sorted(set(asleep))
            and len(asleep) < self._least
            and all(0 <= epoch < n_given - n_awake for epoch in asleep)
            and (not asleep or asleep[-1] - asleep[0] < self._window)
            and (onset is None or (0 <= onset < n_given - n_awake and not asleep))
            and (onset is None or n_awake < self._rules.restart_epochs)
            and stages == sorted(set(stages) & set(self._rules.held_back))
            and all(0 <= start < n_epochs and n_others in (0, 1) for _, start, n_others in bouts)
        )
        if fits:
            self.onset, self._n_given, self._n_awake = onset, n_given, n_awake
            self._asleep = deque(asleep)
            self._bouts = {stage: (start, n_others) for stage, start, n_others in bouts}
        return fits
