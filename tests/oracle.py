"""The decoding objective written down once more, slowly and from the definition alone.

Nothing here imports the package: profiles come in as plain mappings (the keys of a profile file), nights as
arrays. A path is scored bout by bout, the best path is found by trying every path, and the rules that set the
strength try their whole grid.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

SCHEMES = {"aasm5": ("W", "N1", "N2", "N3", "R"), "wnr3": ("W", "N", "R"), "ws2": ("W", "S")}
LOG_FLOOR = math.log(1e-12)
LONGEST_FILL_SECONDS = 300.0
WEIGHT_GRID = (0.0, 0.03, 0.06, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 1.0, 1.5)
PRIOR_GRID = tuple(round(0.05 * step, 2) for step in range(15))


def log(probability: float) -> float:
    return math.log(probability) if probability > 0 else -math.inf


def times(weight: float, value: float) -> float:
    return 0.0 if weight == 0 else weight * value  # 0 * -inf is NaN, and a weight of 0 means "does not count"


@dataclass(frozen=True)
class Rules:
    names: tuple[str, ...]
    switch: tuple[tuple[float, ...], ...]  # A, log; the diagonal is unused
    stay: tuple[float, ...]  # S, log
    minimum: tuple[int, ...]
    tables: Mapping[int, tuple[float, ...]]
    weight: float
    flip_cost: float
    window: int
    ends: str
    presleep_stay: float | None = None  # of wake before the first sleep; None: it is like any other

    @property
    def n_stages(self) -> int:
        return len(self.names)

    def log_presleep(self, length: int, following: int | None) -> float:
        """Log probability that wake lasts so long before that stage comes; None: the night ends in it."""
        value = (length - 1) * log(self.presleep_stay)
        if following is None:
            return value
        exits = [math.exp(self.switch[0][s]) for s in range(1, self.n_stages)]
        return value + log(1 - self.presleep_stay) + log(exits[following - 1] / math.fsum(exits))

    def log_length(self, stage: int, length: int) -> float:
        """Log probability that a bout lasts exactly so long, the geometric tail included."""
        table = self.tables[stage]
        if length <= len(table):
            return log(table[length - 1])
        rest = 1.0 - math.fsum(table)
        hazard = table[-1] / (table[-1] + rest)
        if rest <= 0:
            return -math.inf
        return log(rest) + log(hazard) + (length - len(table) - 1) * log(1 - hazard)

    def log_at_least(self, stage: int, length: int) -> float:
        """Log probability that a bout lasts so long or longer."""
        table = self.tables[stage]
        if length <= len(table):
            return log(1.0 - math.fsum(table[: length - 1]))
        rest = 1.0 - math.fsum(table)
        hazard = table[-1] / (table[-1] + rest)
        return log(rest) + (length - len(table) - 1) * log(1 - hazard) if rest > 0 else -math.inf


def stage_names(mapping: Mapping) -> tuple[str, ...]:
    return tuple(mapping["stages"]) if "stages" in mapping else SCHEMES[mapping["scheme"]]


def rules_of(mapping: Mapping, epoch_seconds: float | None = None, weight: float | None = None) -> Rules:
    names = stage_names(mapping)
    n = len(names)
    epoch = epoch_seconds or mapping["epoch_seconds"]
    ratio = epoch / mapping["epoch_seconds"]
    matrix = [[mapping["transitions"][a].get(b, 0.0) for b in names] for a in names]
    for s in range(n):
        old, new = matrix[s][s], matrix[s][s] ** ratio
        shrink = 1.0 if ratio == 1 else (1 - new) / (1 - old) if old < 1 else 0.0
        matrix[s] = [new if j == s else matrix[s][j] * shrink for j in range(n)]
    replaced = [row[:] for row in matrix]
    for source, target, *own in mapping.get("rare", ()):
        epsilon = own[0] if own else mapping.get("rare_probability", 0.001)
        replaced[names.index(source)][names.index(target)] = epsilon
    tables = {names.index(name): tuple(table) for name, table in mapping.get("durations", {}).items()}
    stay = [log(matrix[s][s]) if mapping.get("stay", "self") == "self" else 0.0 for s in range(n)]
    for s in tables:
        stay[s] = 0.0
        leaving = 1 - matrix[s][s]
        replaced[s] = [p / leaving if leaving > 0 else 0.0 for p in replaced[s]]
    seconds = mapping.get("min_bout_seconds", {})
    flip = mapping.get("flip_flop", {})
    return Rules(
        names=names,
        switch=tuple(tuple(log(p) for p in row) for row in replaced),
        stay=tuple(stay),
        minimum=tuple(max(1, math.ceil(seconds[name] / epoch)) if name in seconds else 1 for name in names),
        tables=tables,
        weight=mapping.get("transition_weight", 1.0) if weight is None else weight,
        flip_cost=flip.get("penalty_nats", 0.0),
        window=flip.get("window_epochs", 5),
        ends=mapping.get("ends", "censored"),
    )


def evidence_of(
    probabilities: np.ndarray,
    mapping: Mapping,
    quality: Sequence[float] | None = None,
    pins: Mapping[int, str] | None = None,
    *,
    floor: float = 0.0,
    offset: Sequence[float] | None = None,
) -> np.ndarray:
    """Temperature, biases, renormalise, clip, offset, prior, quality, pins: in this order, row by row."""
    names = stage_names(mapping)
    n = len(names)
    calibration = mapping.get("calibration", {})
    biases = [calibration.get("biases", {}).get(name, 0.0) for name in names]
    exponent = mapping.get("prior_exponent", 0.0)
    result = np.empty(np.shape(probabilities))
    for t, row in enumerate(np.asarray(probabilities, dtype=float)):
        if np.isnan(row).any():
            values = [math.log(1 / n)] * n
        else:
            shifted = [
                log(p) / calibration.get("temperature", 1.0) + b for p, b in zip(row, biases, strict=True)
            ]
            top = max(shifted)
            total = top + math.log(math.fsum(math.exp(v - top) for v in shifted))
            values = [max(v - total, LOG_FLOOR, log(floor)) for v in shifted]
            if offset is not None:
                values = [v + x for v, x in zip(values, offset, strict=True)]
            if exponent:
                values = [
                    v - exponent * math.log(mapping["prior"][name])
                    for v, name in zip(values, names, strict=True)
                ]
            beta = 0.0 if quality is None else float(quality[t])
            values = [(1 - beta) * v + beta * math.log(1 / n) for v in values]
        if pins and t in pins:
            values = [v if name == pins[t] else -math.inf for v, name in zip(values, names, strict=True)]
        result[t] = values
    return result


def parts_of(
    probabilities: np.ndarray, epoch_seconds: float, starts: Sequence[int] | None = None
) -> tuple[list[tuple[int, int]], np.ndarray, np.ndarray]:
    """Where the night is cut: parts as (start, stop), the filled epochs and the gap epochs."""
    lost = np.isnan(np.asarray(probabilities, dtype=float)).any(axis=1)
    filled, gap = np.zeros_like(lost), np.zeros_like(lost)
    t = 0
    for is_lost, run in itertools.groupby(lost):
        length = len(list(run))
        if is_lost:
            target = filled if length * epoch_seconds <= LONGEST_FILL_SECONDS else gap
            target[t : t + length] = True
        t += length
    parts, begin = [], None
    for t in range(len(lost) + 1):
        ends_here = t == len(lost) or gap[t] or t in (starts or ())
        if begin is not None and ends_here:
            parts.append((begin, t))
            begin = None
        if begin is None and t < len(lost) and not gap[t]:
            begin = t
    return parts, filled, gap


def bouts_of(path: Sequence[int]) -> list[tuple[int, int]]:
    return [(stage, len(list(run))) for stage, run in itertools.groupby(path)]


def score_part(evidence: np.ndarray, path: Sequence[int], rules: Rules) -> float:
    bouts = bouts_of(path)
    total = math.fsum(evidence[t, s] for t, s in enumerate(path))
    for i, (stage, length) in enumerate(bouts):
        last = i == len(bouts) - 1
        if i == 0 and stage == 0 and rules.presleep_stay is not None:
            following = None if last else bouts[1][0]
            total += times(rules.weight, rules.log_presleep(length, following))
            continue
        complete = not last and not (i == 0 and rules.ends == "censored")
        if complete and length < rules.minimum[stage]:
            return -math.inf
        if stage in rules.tables:
            value = rules.log_length(stage, length) if complete else rules.log_at_least(stage, length)
            total += times(rules.weight, value)
        elif length > 1:
            total += times(rules.weight, rules.stay[stage] * (length - 1))
        if not last:
            total += times(rules.weight, rules.switch[stage][bouts[i + 1][0]])
    for t in range(1, len(path)):
        if path[t] != path[t - 1] and path[t] in list(path[max(0, t - rules.window) : t - 1]):
            total -= rules.flip_cost
    return total


def score_path(
    evidence: np.ndarray, path: Sequence[int], rules: Rules, parts: Sequence[tuple[int, int]] | None = None
) -> float:
    """The objective of one path; epochs outside the parts do not count."""
    path = [int(s) for s in path]
    return math.fsum(score_part(evidence[a:b], path[a:b], rules) for a, b in (parts or [(0, len(path))]))


@cache
def all_paths(n_stages: int, n_epochs: int) -> np.ndarray:
    return np.array(list(itertools.product(range(n_stages), repeat=n_epochs)), dtype=np.int64)


def score_all(evidence: np.ndarray, rules: Rules) -> np.ndarray:
    """`score_part` of every path at once, in the order of `all_paths`."""
    n_epochs, n_stages = evidence.shape
    paths = all_paths(n_stages, n_epochs)
    total = evidence[0, paths[:, 0]].copy()
    length = np.ones(len(paths), dtype=int)
    weigh = (lambda x: np.zeros_like(x)) if rules.weight == 0 else (lambda x: rules.weight * x)
    switch, stay = np.array(rules.switch), np.array(rules.stay)
    minimum = np.array(rules.minimum)
    exact, at_least = np.zeros((n_stages, n_epochs + 1)), np.zeros((n_stages, n_epochs + 1))
    for s in rules.tables:
        exact[s, 1:] = [rules.log_length(s, d) for d in range(1, n_epochs + 1)]
        at_least[s, 1:] = [rules.log_at_least(s, d) for d in range(1, n_epochs + 1)]
    for t in range(1, n_epochs):
        before, now = paths[:, t - 1], paths[:, t]
        total += evidence[t, now]
        moved = before != now
        total[~moved] += weigh(stay[now[~moved]])
        left, length_left = before[moved], length[moved]
        cut = (length_left == t) & (rules.ends == "censored")
        total[moved] += weigh(switch[left, now[moved]])
        total[moved] += weigh(np.where(cut, at_least[left, length_left], exact[left, length_left]))
        total[moved] += np.where(~cut & (length_left < minimum[left]), -np.inf, 0.0)
        recent = (paths[:, max(0, t - rules.window) : t - 1] == now[:, None]).any(axis=1)
        total -= np.where(moved & recent, rules.flip_cost, 0.0)
        length = np.where(moved, 1, length + 1)
    return total + weigh(at_least[paths[:, -1], length])


def best_path_by_enumeration(
    evidence: np.ndarray, rules: Rules, parts: Sequence[tuple[int, int]] | None = None
) -> tuple[float, np.ndarray, float]:
    """Score, labels (-1 outside the parts) and margin over the runner-up, by trying every path."""
    labels = np.full(len(evidence), -1)
    score, margin = 0.0, math.inf
    for a, b in parts or [(0, len(evidence))]:
        scores = score_all(evidence[a:b], rules)
        best = int(scores.argmax())
        if scores[best] == -np.inf:
            return -math.inf, labels, 0.0
        score += float(scores[best])
        labels[a:b] = all_paths(evidence.shape[1], b - a)[best]
        margin = min(margin, float(scores[best] - np.delete(scores, best).max()))
    return score, labels, margin


def best_score_by_memory(evidence: np.ndarray, rules: Rules) -> float:
    """Best score of one part by extending prefixes that remember all the objective can ask for."""
    n_epochs, n_stages = evidence.shape
    memory = rules.window if rules.flip_cost else 1
    longest = n_epochs if rules.tables else max(rules.minimum)

    def lengths(state: tuple) -> tuple[int, int, bool]:
        history, length, is_first = state
        return history[-1], length, is_first

    best = {((s,), 1, True): evidence[0, s] for s in range(n_stages)}
    for t in range(1, n_epochs):
        following: dict[tuple, float] = {}
        for state, value in best.items():
            stage, length, is_first = lengths(state)
            for s in range(n_stages):
                gain = evidence[t, s]
                if s == stage:
                    gain += times(rules.weight, rules.stay[s])
                    key = ((*state[0], s)[-memory:], min(length + 1, longest), is_first)
                else:
                    cut = is_first and rules.ends == "censored"
                    if not cut and length < rules.minimum[stage]:
                        continue
                    gain += times(rules.weight, rules.switch[stage][s])
                    if stage in rules.tables:
                        ending = rules.log_at_least if cut else rules.log_length
                        gain += times(rules.weight, ending(stage, length))
                    if s in state[0][-rules.window : -1]:
                        gain -= rules.flip_cost
                    key = ((*state[0], s)[-memory:], 1, False)
                if value + gain > following.get(key, -math.inf):
                    following[key] = value + gain
        best = following
    finals = []
    for state, value in best.items():
        stage, length, _ = lengths(state)
        tail = times(rules.weight, rules.log_at_least(stage, length)) if stage in rules.tables else 0.0
        finals.append(value + tail)
    return max(finals, default=-math.inf)


def greedy_path(evidence: np.ndarray, rules: Rules, longest: int = 10) -> list[int]:
    """The paper's forward pass: one survivor per (stage, duration), its own past sets the penalty."""
    n_epochs, n_stages = evidence.shape
    start = {s: 1 if rules.ends == "paper" else rules.minimum[s] for s in range(n_stages)}
    survivors = {(s, start[s]): (float(evidence[0, s]), [s]) for s in range(n_stages)}
    for t in range(1, n_epochs):
        following: dict[tuple[int, int], tuple[float, list[int]]] = {}

        def offer(
            key: tuple[int, int], value: float, past: list[int], table: dict = following, t: int = t
        ) -> None:
            value += float(evidence[t, key[0]])
            if key not in table or value > table[key][0]:
                table[key] = (value, [*past, key[0]])

        for (stage, duration), (value, past) in survivors.items():
            offer((stage, min(duration + 1, longest)), value + times(rules.weight, rules.stay[stage]), past)
            if duration < rules.minimum[stage]:
                continue
            for s in range(n_stages):
                if s != stage:
                    visited = past[max(0, t - rules.window) : t - 1]
                    penalty = rules.flip_cost if s in visited else 0.0
                    offer((s, 1), value + times(rules.weight, rules.switch[stage][s]) - penalty, past)
        survivors = following
    return max(survivors.values(), key=lambda kept: kept[0])[1]


def fragmentation_index(labels: Sequence[int]) -> float:
    pairs = [(a, b) for a, b in itertools.pairwise(labels) if a >= 0 and b >= 0]
    return sum(a != b for a, b in pairs) / len(pairs) if pairs else math.nan


Decode = Callable[[float, float], Sequence[int]]  # labels at a transition weight and a prior exponent


def lower_by_grid(decode: Decode, exponent: float, high: float) -> tuple[float, Sequence[int]]:
    every = [(weight, decode(weight, exponent)) for weight in WEIGHT_GRID]
    return next(((w, labels) for w, labels in every if fragmentation_index(labels) <= high), every[-1])


def band_by_grid(
    probabilities: np.ndarray, decode: Decode, low: float, high: float, *, natural: bool
) -> tuple[str, float, float, Sequence[int]]:
    """Step, transition weight, prior exponent and labels of the `band` rule, trying everything."""
    argmax = probabilities.argmax(axis=1)
    before = fragmentation_index(argmax)
    if before > high:
        weight, labels = lower_by_grid(decode, 0.0, high)
        return "lowered", weight, 0.0, labels
    if before < low and natural:
        clipped = np.log(np.maximum(probabilities, 1e-12))
        shares = np.log(probabilities.mean(axis=0) + 1e-4)
        every = [(w, (clipped - w * shares).argmax(axis=1)) for w in PRIOR_GRID]
        highest = max(every, key=lambda pair: fragmentation_index(pair[1]))
        exponent, labels = next((pair for pair in every if fragmentation_index(pair[1]) >= low), highest)
        if exponent == 0:
            return "untouched", 0.0, 0.0, argmax
        if fragmentation_index(labels) > high:
            weight, labels = lower_by_grid(decode, exponent, high)
            return "raised then lowered", weight, exponent, labels
        return "raised", 0.0, exponent, labels
    return "untouched", 0.0, 0.0, argmax


def match_by_grid(decode: Decode, target: float) -> tuple[float, Sequence[int]]:
    """Weight and labels of the `match` rule: nearest to the target, the smaller weight on a tie."""
    every = [(weight, decode(weight, 0.0)) for weight in WEIGHT_GRID]
    return min(every, key=lambda pair: abs(fragmentation_index(pair[1]) - target))
