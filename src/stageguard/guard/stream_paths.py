"""Viterbi one epoch at a time: the paths that may still win, and what they agree on.

Every surviving path is a chain of bouts; paths share the bouts of their common past. An epoch is given out as
soon as all paths agree on it, or at the lag limit: then the best path so far decides, and paths that differ
are dropped.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stageguard.arrays import Floats, Mask
from stageguard.errors import InputError
from stageguard.guard.clock import ClockRules
from stageguard.guard.kernels.reference import Automaton
from stageguard.guard.solver import NO_PATH
from stageguard.night.period import period_epochs

_FAR_BELOW = -1048576.0  # below this, where doubles lose digits, scores are shifted back to 0


@dataclass(eq=False, slots=True)
class Bout:
    """A bout of a path; the root before a stretch's first epoch has stage -1 and no parent."""

    stage: int
    start: int
    parent: Bout | None


class StreamPaths:
    """The best path through an automaton, given out as it becomes certain, or after `max_lag` epochs.

    Up to `most_bridged` epochs without evidence are bridged. An epoch after which no path is possible raises
    an error and changes nothing.
    """

    def __init__(
        self, automaton: Automaton, max_lag: float, most_bridged: int, clock: StreamClock | None
    ) -> None:
        a = automaton
        self.stage, self.first, self.source, self.target = a.stage, a.first, a.source, a.target
        self.weight, self.initial, self.final = a.weight, a.initial, a.final_weight
        self.max_lag, self.most_bridged, self.clock = max_lag, most_bridged, clock
        n_stages = int(a.stage.max()) + 1
        self.uniform = np.full(n_stages, -math.log(n_stages))
        self.goes_on = self._endless()
        self.out: list[int] = []
        self.timed: Floats | None = None  # evidence of the last row that has any, if the clock added to it
        self._reset()

    def _reset(self) -> None:
        self.n_epochs = self.n_committed = 0
        self.n_missing = 0  # last rows without evidence that the paths do not include yet
        self.n_missing_run = 0  # last rows without evidence
        self._leave()

    def _leave(self) -> None:
        self.is_running = False
        self.scores: Floats = np.full(len(self.stage), -np.inf)  # (n_states,)
        self.state_bouts: list[Bout | None] = [None] * len(self.stage)
        self.root = Bout(-1, self._n_solved, None)

    @property
    def _n_solved(self) -> int:
        return self.n_epochs - self.n_missing

    def push(self, evidence: Floats | None, own: int) -> list[int]:
        """Take an epoch's evidence and the stager's own choice; return the labels given out, -1 in gaps."""
        self.out = []
        if evidence is None:
            self._push_missing()
        else:
            if self.n_missing:
                self._check_possible(self.n_missing + 1, ends=False)
            self._bridge()
            timed = self._timed(evidence, own)
            if not self._step(timed):
                raise InputError(f"epoch {self.n_epochs}: {NO_PATH}")
            self.timed = None if timed is evidence else timed
            if self.clock is not None:
                self.clock.see(self.n_epochs, own)
            self.n_epochs += 1
            self.n_missing_run = 0
            self._settle()
        self._keep_lag()
        return self.out

    def _push_missing(self) -> None:
        is_gap = self.n_missing_run + 1 > self.most_bridged
        if is_gap and self.is_running:
            self._check_possible(0, ends=True)
            self._close()  # too long to bridge: the stretch ended before it
        self.n_epochs += 1
        self.n_missing += 1
        self.n_missing_run += 1
        if is_gap:
            self._commit(-1, self.n_epochs)
            self.n_missing = 0

    def finish(self) -> list[int]:
        """Return the labels of all epochs not given out yet, and start anew."""
        self.out = []
        if self.is_running:
            self._check_possible(self.n_missing, ends=True)
            self._bridge()
            self._close()
        self._commit(-1, self.n_epochs)
        self._reset()
        return self.out

    def _timed(self, evidence: Floats, own: int | None) -> Floats:
        """Return evidence of the epoch that comes next to the paths, with the clock's; `own` as there."""
        if self.clock is None:
            return evidence
        nats = self.clock.nats(self._n_solved, own)
        return evidence + nats if nats.any() else evidence

    def _check_possible(self, n_steps: int, *, ends: bool) -> None:
        """Refuse unless some path can go on for `n_steps` epochs and, if `ends`, end there."""
        alive = (self.scores if self.is_running else self.initial) > -np.inf  # (n_states,)
        for _ in range(n_steps if self.is_running else n_steps - 1):
            following = np.zeros_like(alive)
            following[self.target[alive[self.source] & (self.weight > -np.inf)]] = True
            alive = following
        if not (alive & (self.final > -np.inf) if ends else alive).any():
            raise InputError(f"epoch {self.n_epochs}: {NO_PATH}")

    def _bridge(self) -> None:
        while self.n_missing > 0:
            self._step(self._timed(self.uniform, None))
            self.n_missing -= 1

    def _step(self, evidence: Floats) -> bool:
        """Extend the paths by an epoch, or begin a stretch; return False, unchanged, if none can go on."""
        epoch = self._n_solved
        root = self.root if self.is_running else Bout(-1, epoch, None)
        scores = self.initial + evidence[self.stage]  # (n_states,)
        state_bouts: list[Bout | None] = [None] * len(scores)
        for j in range(len(scores)):
            before, state = root, None
            if self.is_running:
                edges = slice(self.first[j], self.first[j + 1])
                arriving = self.scores[self.source[edges]] + self.weight[edges]  # (edges into state j,)
                best = int(arriving.argmax()) if len(arriving) else 0  # the first of equals
                scores[j] = arriving[best] + evidence[self.stage[j]] if len(arriving) else -np.inf
                state = int(self.source[edges][best]) if scores[j] > -np.inf else None
                before = self.state_bouts[state] or root if state is not None else root
            if scores[j] > -np.inf:
                goes_on = state is not None and self.stage[state] == self.stage[j]
                state_bouts[j] = before if goes_on else Bout(int(self.stage[j]), epoch, before)
        if scores.max() == -np.inf:
            return False
        self.scores = scores - scores.max() if scores.max() < _FAR_BELOW else scores
        self.state_bouts, self.root, self.is_running = state_bouts, root, True
        return True

    def _line(self, bout: Bout | None) -> list[Bout]:
        """Return the bouts from the root on, the root included."""
        line: list[Bout] = []
        while bout is not None:
            line.append(bout)
            bout = bout.parent
        return line[::-1]

    def _commit(self, stage: int, until: int) -> None:
        self.out += [stage] * (until - self.n_committed)
        self.n_committed = max(self.n_committed, until)

    def _settle(self) -> None:
        """Give out what all paths agree on."""
        lines = [self._line(bout) for bout in self.state_bouts if bout is not None]
        n_shared = 0
        while all(len(line) > n_shared and line[n_shared] is lines[0][n_shared] for line in lines):
            n_shared += 1
        self._lay(lines[0][:n_shared], lines[0][n_shared - 1].start)
        self.root = lines[0][n_shared - 1]
        self.root.parent = None
        until = min((line[n_shared].start for line in lines if len(line) > n_shared), default=self._n_solved)
        self._commit(self.root.stage, until)

    def _lay(self, line: Sequence[Bout], until: int) -> None:
        for bout, end in zip(line, [*(bout.start for bout in line[1:]), until], strict=True):
            self._commit(bout.stage, end)

    def _keep_lag(self) -> None:
        while self.max_lag >= 0 and self.n_epochs - self.n_committed > self.max_lag:
            if not self.is_running:  # no evidence in this stretch yet
                self._commit(-1, self.n_committed + 1)
                self.n_missing -= 1
            elif self.n_committed < self._n_solved:
                self._decide_oldest()
                self._settle()
            elif self._step(self._timed(self.uniform, None)):
                self.n_missing -= 1
                self._settle()
            else:
                self._leave()

    def _decide_oldest(self) -> None:
        """Drop the paths that differ at the oldest pending epoch from the best path without a dead end."""
        lasting = np.where(self.goes_on, self.scores + self.final, -np.inf)
        best = int(lasting.argmax()) if lasting.max() > -np.inf else self._best()
        chosen = self._oldest(self.state_bouts[best])
        for j, bout in enumerate(self.state_bouts):
            if bout is not None and self._oldest(bout) is not chosen:
                self.state_bouts[j], self.scores[j] = None, -np.inf

    def _oldest(self, bout: Bout | None) -> Bout:
        """Return a path's bout at the oldest pending epoch."""
        return [earlier for earlier in self._line(bout) if earlier.start <= self.n_committed][-1]

    def _best(self) -> int:
        """Return the best state if the recording ended now."""
        ending = self.scores + self.final
        return int((ending if ending.max() > -np.inf else self.scores).argmax())

    def _endless(self) -> Mask:
        """Return the states from which some path can go on for ever."""
        lasting = np.ones(len(self.stage), dtype=bool)  # (n_states,)
        while True:
            ways = lasting[self.target] & (self.weight > -np.inf)  # (n_edges,)
            still = np.zeros_like(lasting)
            still[self.source[ways]] = True
            if np.array_equal(still, lasting):
                return lasting
            lasting = still

    def _close(self) -> None:
        """Give out the best path to its end; the next row begins a stretch."""
        self._lay(self._line(self.state_bouts[self._best()]), self._n_solved)
        self._leave()

    def state(self) -> dict[str, Any]:
        """Return its state as plain types."""
        bouts, number = [self.root], {id(None): -1, id(self.root): 0}
        for leaf in self.state_bouts:
            for bout in self._line(leaf):
                if id(bout) not in number:
                    number[id(bout)] = len(bouts)
                    bouts.append(bout)
        return {
            "counts": [self.n_epochs, self.n_committed, self.n_missing, self.n_missing_run, self.is_running],
            "scores": self.scores.tolist(),
            "state_bouts": [number[id(bout)] for bout in self.state_bouts],
            "bouts": [[bout.stage, bout.start, number[id(bout.parent)]] for bout in bouts],
        }

    def restore(
        self,
        counts: Sequence[Any],
        scores: Sequence[float],
        state_bouts: Sequence[int],
        bouts: Sequence[tuple[int, int, int]],
    ) -> None:
        """Restore what `state` returned."""
        self.n_epochs, self.n_committed, self.n_missing, self.n_missing_run, self.is_running = counts
        self.scores = np.array(scores, dtype=np.float64)
        found: list[Bout] = []
        for stage, start, parent in bouts:
            found.append(Bout(stage, start, found[parent] if parent >= 0 else None))
        self.root = found[0]
        self.state_bouts = [found[i] if i >= 0 else None for i in state_bouts]


class StreamClock:
    """A profile's clock in a recording in progress: what it adds by the stages given out before.

    Sleep onset is decided once, when the stages given out show lasting sleep (see `night.period`). An epoch
    is weighed when it enters the paths, by the onset decided before: without one as `decode` weighs epochs
    shortly before onset, else by the time since it. Unbroken wake that restarts the clock makes it wait for
    lasting sleep again. A bout of the stager that has lasted `spare_minutes` is no longer held back.
    """

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

    def restore(self, state: Mapping[str, Any], n_given: int) -> None:
        """Restore what `state` returned."""
        self.onset, self._n_awake, self._n_given = state["onset"], state["n_awake"], n_given
        self._asleep = deque(state["asleep"])
        self._bouts = {stage: (start, n_others) for stage, start, n_others in state["bouts"]}
