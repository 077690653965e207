"""A night's changes in groups by the rule that decided, with the rows that a page lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from stageguard.guard.explain import Change
from stageguard.night.stages import StageScheme
from stageguard.report.numbers import count, duration

MOST_CHANGES = 4_000  # listed on a page; of more, those with the largest margin
MOST_KINDS = 4  # kinds of changes named in a group's line
BY = {
    "pin": "by the stages that were given",
    "calibration": "by the profile's calibration",
    "prior": "by lifting minority stages",
    "quality": "by signal quality",
    "minimum bout": "by a minimum bout",
    "flip-flop": "by the penalty on quick returns",
    "transition": "by improbable transitions",
    "several together": "by several rules together",
}


@dataclass(frozen=True, slots=True)
class ChangeGroup:
    """Changes decided by one rule: its name, their number, a summary, and the changes that are listed."""

    by: str
    n_changes: int
    detail: str
    rows: tuple[Change, ...]


def change_groups(
    changes: Sequence[Change], scheme: StageScheme, epoch_seconds: float
) -> tuple[ChangeGroup, ...]:
    """Return the changes by rule, the most frequent first, each group in order of time."""
    listed = sorted(changes, key=lambda change: -change.margin_nats)[:MOST_CHANGES]
    is_listed = set(map(id, listed))
    groups: dict[str, list[Change]] = {}
    for change in changes:
        groups.setdefault(_by(change, scheme), []).append(change)
    return tuple(
        ChangeGroup(
            by,
            len(group),
            _detail(group, epoch_seconds),
            tuple(change for change in group if id(change) in is_listed),
        )
        for by, group in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    )


def _by(change: Change, scheme: StageScheme) -> str:
    if change.rule != "clock":
        return BY[change.rule]
    stage = change.before[0]
    return f"by the clock's {'REM' if stage == scheme.rem else stage} rule"


def _detail(group: Sequence[Change], epoch_seconds: float) -> str:
    """Return the number of epochs, their duration, and the most frequent changes of stage."""
    n_epochs = sum(change.n_epochs for change in group)
    kinds = Counter((a, b) for change in group for a, b in zip(change.before, change.after, strict=True))
    named = [f"{a}→{b} {n:,}" for (a, b), n in kinds.most_common(MOST_KINDS)]
    rest = kinds.total() - sum(n for _, n in kinds.most_common(MOST_KINDS))
    others = [f"others {rest:,}"] if rest else []
    return f"{count(n_epochs, 'epoch')}, {duration(n_epochs * epoch_seconds)}: {', '.join(named + others)}"


def changes_intro(changes: Sequence[Change]) -> str:
    """Return one sentence on how much was changed."""
    if not changes:
        return "Nothing was changed: the output is the stager's own choice."
    n_epochs = sum(change.n_epochs for change in changes)
    return f"{count(n_epochs, 'epoch')} in {count(len(changes), 'place')}, by the rule that decided:"
