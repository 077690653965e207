"""A profile compiled into tables, or into an automaton of states and weighted edges.

Every constraint a profile can state looks back a bounded number of epochs, so all of them together are
a finite automaton: states that carry a stage, edges that carry a weight. Minimum bouts alone need no
automaton and are kept as tables for a faster kernel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stageguard.arrays import Floats, Ints32
from stageguard.errors import ProfileError
from stageguard.profile.profile import Profile

MOST_STATES = 20_000


@dataclass(frozen=True, slots=True)
class Tables:
    """A profile's rules at one epoch length, in nats and epochs, before the transition weight."""

    stay: Floats  # (n_stages,) score of one more epoch in the stage
    change: Floats  # (n_stages, n_stages) from row to column; -inf where forbidden and on the diagonal
    minimum_epochs: Ints32  # (n_stages,) shortest complete bout


def compile_tables(profile: Profile, epoch_seconds: float) -> Tables:
    """Return the profile's transition scores and minimum bouts at an epoch length."""
    names = profile.scheme.names
    probabilities = rescale_transitions(np.array(profile.transitions), epoch_seconds / profile.epoch_seconds)
    self_probability = probabilities.diagonal().copy()
    stay = np.zeros(len(names))
    if profile.stay == "self":
        stay = _log(self_probability)
    for pair in profile.rare:
        probabilities[names.index(pair.source), names.index(pair.target)] = pair.probability
    for name in profile.durations:  # the table says how long a bout lasts, the row only where it goes next
        i = names.index(name)
        stay[i] = 0.0
        if self_probability[i] < 1.0:
            probabilities[i] /= 1.0 - self_probability[i]
    change = _log(probabilities)
    np.fill_diagonal(change, -np.inf)
    return Tables(stay, change, minimum_epochs(profile, epoch_seconds))


def rescale_transitions(probabilities: Floats, ratio: float) -> Floats:
    """Return transition probabilities for epochs `ratio` times as long; exits keep their proportions."""
    if ratio == 1.0:
        return probabilities.copy()
    before = probabilities.diagonal()
    after = before**ratio
    leaving = np.where(before < 1.0, (1.0 - after) / np.where(before < 1.0, 1.0 - before, 1.0), 0.0)
    rescaled: Floats = probabilities * leaving[:, None]
    np.fill_diagonal(rescaled, after)
    return rescaled


def minimum_epochs(profile: Profile, epoch_seconds: float) -> Ints32:
    """Return the shortest complete bout of each stage in epochs, rounded up."""
    seconds = [profile.min_bout_seconds.get(name, 0.0) for name in profile.scheme.names]
    # the slack keeps 0.3 s / 0.1 s at three epochs
    return np.array([max(1, math.ceil(s / epoch_seconds - 1e-9)) for s in seconds], dtype=np.int32)


def weigh(scores: Floats, transition_weight: float) -> Floats:
    """Return scores times the transition weight; at 0 the prior is off, forbidden switches included."""
    return np.zeros_like(scores) if transition_weight == 0.0 else transition_weight * scores


def _log(probabilities: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.log(probabilities)


@dataclass(frozen=True, slots=True)
class Durations:
    """One stage's explicit bout lengths: a table for 1, 2, … epochs, then a geometric tail.

    The tail keeps the hazard of the table's last entry, so that the two join without a step.
    """

    log_length: Floats  # (cap,) log P(length = d); beyond the last entry each epoch adds log_continue
    log_survival: Floats  # (cap,) log P(length >= d)
    log_continue: float

    @classmethod
    def from_table(cls, table: tuple[float, ...], at_least_epochs: int) -> Durations:
        """Return the lengths of the table and one of the tail, or more of it up to `at_least_epochs`."""
        rest = max(0.0, 1.0 - math.fsum(table))
        hazard = table[-1] / (table[-1] + rest)
        tail_epochs = max(1, at_least_epochs - len(table))
        tail = rest * hazard * (1.0 - hazard) ** np.arange(tail_epochs)
        length = np.concatenate([np.array(table), tail])
        beyond = rest * (1.0 - hazard) ** tail_epochs  # P(length > cap)
        survival = beyond + np.cumsum(length[::-1])[::-1]
        log_continue = math.log1p(-hazard) if hazard < 1.0 else -math.inf
        return cls(_log(length), _log(survival), log_continue)


@dataclass(frozen=True, slots=True)
class Automaton:
    """States and weighted edges; a path's score is its evidence plus its weights.

    An edge weighs `transition_weight * scaled + fixed`. Incoming edges of state j are the slice
    `first[j] : first[j + 1]`, in the order in which ties are won: stay, then the earlier stage.
    """

    stage: Ints32  # (n_states,)
    first: Ints32  # (n_states + 1,)
    source: Ints32  # (n_edges,)
    scaled: Floats  # (n_edges,)
    fixed: Floats  # (n_edges,)
    initial: Floats  # (n_states,) 0 where a recording may begin, else -inf
    final: Floats  # (n_states,) multiplied by the transition weight, too

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.stage)

    def weighted(self, transition_weight: float) -> tuple[Ints32 | Floats, ...]:
        """Return the arrays that kernels take, at a transition weight."""
        weight = weigh(self.scaled, transition_weight) + self.fixed
        final = weigh(self.final, transition_weight)
        return self.stage, self.first, self.source, weight, self.initial, final


class _State(NamedTuple):
    """All that the future of a path depends on; states are sorted in the order in which ties are won."""

    stage: int
    is_cut: bool  # whether the recording's start cut this bout; False unless bout lengths have a table
    negative_age: int  # older bouts first
    seen: tuple[tuple[int, int], ...]  # (other stage, epochs since it was last seen) while that matters


class Presleep(NamedTuple):
    """Wake before the first sleep, as a state of its own that is left once."""

    wake: int
    stay: float  # log-probability of another epoch
    leave: Floats  # (n_stages,) log-probability of each stage after it; -inf for wake

    @classmethod
    def of(cls, profile: Profile, tables: Tables, epoch_seconds: float) -> Presleep | None:
        """Return the state of a profile that has one; sleep begins as it does after any other wake."""
        rules, wake = profile.posterior, profile.scheme.wake_index
        if rules is None or wake is None:
            return None
        stay = rules.presleep_stay ** (epoch_seconds / profile.epoch_seconds)
        exits = np.exp(tables.change[wake])  # (n_stages,) 0 for wake itself
        shares = exits / exits.sum() if exits.sum() > 0 else exits
        return cls(wake, float(np.log(stay)), _log((1.0 - stay) * shares))


def compile_automaton(
    profile: Profile, epoch_seconds: float | None = None, *, presleep: Presleep | None = None
) -> Automaton:
    """Compile everything a profile states, flip-flop window and bout lengths included, into one automaton.

    The epoch length is the profile's by default; `presleep` is wake before the first sleep, if it is a state.
    """
    return _Compiler(profile, epoch_seconds or profile.epoch_seconds, presleep).compile()


class _Compiler:
    def __init__(self, profile: Profile, epoch_seconds: float, presleep: Presleep | None) -> None:
        if profile.durations and epoch_seconds != profile.epoch_seconds:
            raise ProfileError(
                f"durations are counted in epochs of {profile.epoch_seconds:g} s, got epochs of "
                f"{epoch_seconds:g} s. Count them again at that epoch length, or remove the durations."
            )
        self.profile = profile
        self.tables = compile_tables(profile, epoch_seconds)
        self.minimum = [int(m) for m in self.tables.minimum_epochs]
        names = profile.scheme.names
        self.durations = {
            names.index(name): Durations.from_table(table, self.minimum[names.index(name)])
            for name, table in profile.durations.items()
        }
        self.cap = [
            len(self.durations[s].log_length) if s in self.durations else m
            for s, m in enumerate(self.minimum)
        ]
        self.presleep = presleep
        self.window = profile.flip_flop.window_epochs if profile.flip_flop.penalty_nats > 0 else 0

    def compile(self) -> Automaton:
        states, edges = self._explore()
        order = {state: j for j, state in enumerate(sorted(states))}
        incoming: list[list[tuple[bool, int, float, float]]] = [[] for _ in order]
        for source, target, scaled, fixed in edges:
            incoming[order[target]].append((source.stage != target.stage, order[source], scaled, fixed))
        flat = [edge for group in incoming for edge in sorted(group)]
        starts = {self._start(stage) for stage in range(len(self.cap))}
        return Automaton(
            stage=np.array([s.stage for s in order], dtype=np.int32),
            first=np.cumsum([0] + [len(group) for group in incoming], dtype=np.int32),
            source=np.array([edge[1] for edge in flat], dtype=np.int32),
            scaled=np.array([edge[2] for edge in flat]),
            fixed=np.array([edge[3] for edge in flat]),
            initial=np.array([0.0 if s in starts else -np.inf for s in order]),
            final=np.array([self._survival(s) for s in order]),
        )

    def _start(self, stage: int) -> _State:
        if self.presleep is not None and stage == self.presleep.wake:
            return _State(stage, False, 0, ())  # no other state has the age 0
        if self.profile.ends == "paper":
            return _State(stage, False, -1, ())
        if stage in self.durations:
            return _State(stage, True, -1, ())
        return _State(stage, False, -self.cap[stage], ())  # a cut bout is old enough to end

    def _explore(self) -> tuple[set[_State], list[tuple[_State, _State, float, float]]]:
        states = {self._start(stage) for stage in range(len(self.cap))}
        frontier, edges = list(states), []
        while frontier:
            state = frontier.pop()
            for target, scaled, fixed in self._successors(state):
                edges.append((state, target, scaled, fixed))
                if target not in states:
                    states.add(target)
                    frontier.append(target)
                    if len(states) > MOST_STATES:
                        raise ProfileError(self._too_large())
        return states, edges

    def _successors(self, state: _State) -> list[tuple[_State, float, float]]:
        stage, age = state.stage, -state.negative_age
        if age == 0:
            return self._after_presleep(state)
        aged = tuple((other, since + 1) for other, since in state.seen)
        grown = min(age + 1, self.cap[stage])
        successors = [(self._state(stage, grown, state.is_cut, aged), self._stay(stage, age), 0.0)]
        if age < self.minimum[stage] and not state.is_cut:
            return successors
        leave = self._leave(state)
        for target in range(len(self.cap)):
            if target == stage:
                continue
            scaled = leave + float(self.tables.change[stage, target])
            flips = any(other == target for other, _ in state.seen)
            fixed = -self.profile.flip_flop.penalty_nats if flips else 0.0
            seen = (*(each for each in aged if each[0] != target), (stage, 1)) if self.window else ()
            successors.append((self._state(target, 1, False, seen), scaled, fixed))
        return successors

    def _after_presleep(self, state: _State) -> list[tuple[_State, float, float]]:
        assert self.presleep is not None
        seen = ((state.stage, 1),) if self.window else ()
        successors = [(state, self.presleep.stay, 0.0)]
        for target, score in enumerate(self.presleep.leave.tolist()):
            if target != state.stage:
                successors.append((self._state(target, 1, False, seen), score, 0.0))
        return successors

    def _state(self, stage: int, age: int, is_cut: bool, seen: tuple[tuple[int, int], ...]) -> _State:
        # A stage matters only if, when this bout may first end, it still lies within the window.
        wait = max(0, self.minimum[stage] - age)
        kept = tuple(sorted(each for each in seen if each[1] + wait < self.window)) if seen else ()
        return _State(stage, is_cut, -age, kept)

    def _stay(self, stage: int, age: int) -> float:
        if stage not in self.durations:
            return float(self.tables.stay[stage])
        return self.durations[stage].log_continue if age == self.cap[stage] else 0.0

    def _leave(self, state: _State) -> float:
        if state.stage not in self.durations:
            return 0.0
        if state.is_cut:
            return self._survival(state)
        return float(self.durations[state.stage].log_length[-state.negative_age - 1])

    def _survival(self, state: _State) -> float:
        if state.stage not in self.durations or state.negative_age == 0:
            return 0.0
        return float(self.durations[state.stage].log_survival[-state.negative_age - 1])

    def _too_large(self) -> str:
        longest = int(np.argmax(self.cap))
        name = self.profile.scheme.names[longest]
        key = f"durations.{name}" if longest in self.durations else f"min_bout_seconds.{name}"
        if self.window and sum(self.cap) <= MOST_STATES:
            key = "flip_flop.window_epochs"
        return f"{key} makes an automaton of more than {MOST_STATES:,} states. Choose a smaller value."
