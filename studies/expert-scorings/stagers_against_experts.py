"""Which nights look like expert scoring: of stagers as they are, of the guard, of their experts.

Usage: ``STAGEGUARD_DATA=... STAGEGUARD_CACHE=... python stagers_against_experts.py``; writes ``stagers.md``.

The stagers are those of ``../guard-on-real-data``, each night staged by one that had not seen its subject;
the guard is `sg.decode` with the built-in profile of the task.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path[0] = str(HERE.parent / "guard-on-real-data")  # it has modules of the same names as this folder

import methods  # noqa: E402
import tasks  # noqa: E402

import stageguard as sg  # noqa: E402

HEAD = """# Which nights look like expert scoring?

Written by `stagers_against_experts.py`. Percent of nights above the threshold of the profile's joint score;
in brackets, those that leave at least one of its single bands. Nights of less than two scored hours are left
out. FI: median of the stager's argmax over the experts' target. Experts of Sleep-EDF and DOD-H were counted;
how often those of a cohort that was left out are above the threshold is in [results.md](results.md).

| stager | profile | nights | FI | argmax | guard | expert |
|---|---|---|---|---|---|---|
"""


def main() -> None:
    """Judge every task that is in the cache."""
    rows = [row(task) for task in tasks.tasks()]
    (HERE / "stagers.md").write_text(HEAD + "\n".join(rows) + "\n", encoding="utf-8")
    print("\n".join(rows))


def row(task: tasks.Task) -> str:
    """One stager on one cohort."""
    profile = sg.Profile.load(task.base)
    nights = [night for fold in task.folds() for night in fold.test]
    outputs = (
        methods.argmax(nights),
        methods.decoder(profile, task)(nights),
        [night.labels for night in nights],
    )
    judged = [list(validities(task, profile, labels)) for labels in outputs]
    fi = np.median([found.fragmentation_index for found in judged[0]]) / profile.strength.fi_target
    cells = [task.name, task.base, len(judged[0]), f"{fi:.1f}", *map(flagged, judged)]
    return "| " + " | ".join(map(str, cells)) + " |"


def validities(task: tasks.Task, profile: sg.Profile, nights: Iterable[np.ndarray]) -> Iterable[sg.Validity]:
    """Those of the nights that are long enough to be judged."""
    for labels in nights:
        found = sg.validity(sg.Hypnogram(labels.astype(np.int8), task.scheme, task.epoch_seconds), profile)
        if found.looks_like_experts is not None:
            yield found


def flagged(found: Sequence[sg.Validity]) -> str:
    """Percent that do not look like expert scoring, and percent outside a band."""
    above = 100 * np.mean([not one.looks_like_experts for one in found])
    outside = 100 * np.mean([bool(one.outside) for one in found])
    return f"{above:.0f} ({outside:.0f})"


if __name__ == "__main__":
    main()
