"""Stream every stager at hand with the shipped profiles, by lag limit, beside argmax and the whole night.

    STAGEGUARD_DATA=... STAGEGUARD_CACHE=... python lags.py [--part 1/2]    writes lags.json; minutes

A stager that flickers is streamed both as an unknown one and as one that is known to flicker.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence

import numpy as np
from stagers_at_hand import HERE, judging, keep, layout, methods, real, run, stagers
from weights import RULE, slim

import stageguard as sg

RESULTS = HERE / "lags.json"
LAGS = {"30 s": 30.0, "2 min": 120.0, "5 min": 300.0, "15 min": 900.0, "no limit": None}
WAITS = "wait"  # minutes until an epoch is given out, its mean
SAME = "same"  # share of epochs with the stage that decode gives for the whole night


def streamed(
    profile: sg.Profile, task: real.Task, night: real.TaskNight, lag: float | None
) -> tuple[np.ndarray, float]:
    """Return a night's stages, and the mean minutes that they had to wait."""
    decoder = sg.StreamingDecoder(profile, max_lag_seconds=lag, epoch_seconds=task.epoch_seconds)
    names, stages, n_waits = profile.scheme.names, [], 0
    for epoch, row in enumerate(night.probabilities):
        given_out = decoder.push(row)
        n_waits += sum(epoch - (len(stages) + i) for i in range(len(given_out)))
        stages += given_out
    rest = decoder.finish()
    n_waits += sum(len(night.probabilities) - 1 - (len(stages) + i) for i in range(len(rest)))
    stages += rest
    labels = np.array([-1 if stage == "?" else names.index(stage) for stage in stages])
    labels = np.where(np.isnan(night.probabilities[:, 0]), -1, labels)
    return labels, n_waits / len(labels) * task.epoch_seconds / 60.0


def run_task(task: real.Task) -> dict:
    """Return one row per subject and way to decode."""
    nights = [night for fold in task.folds() for night in fold.test]
    shipped = sg.Profile.load(task.base).replace(clock=methods.clock_of(task))
    about = {
        "cohort": task.cohort,
        "kind": task.kind,
        "n_stages": task.scheme.n_stages,
        "base": task.base,
        "stager_fi": round(methods.stager_fi(task, nights), 4),
        "fi_target": shipped.strength.fi_target,
    }
    whole = methods.decode(shipped, task, nights, cohort=task.cohort, stager=task.stager)
    rows = list(run.judged(task, "argmax", nights, methods.argmax(nights)))
    rows += run.judged(task, RULE, nights, whole)
    rows = [row | {WAITS: math.nan, SAME: math.nan} for row in rows]
    known = {"unknown": None, **({"flickering": True} if layout.is_flickering(about) else {})}
    for name, flickers in known.items():
        profile = shipped.for_streaming(flickers)
        for shown, lag in LAGS.items():
            streams = [streamed(profile, task, night, lag) for night in nights]
            judged = run.judged(task, f"{name}, {shown}", nights, [scored for scored, _ in streams])
            for row, (scored, minutes), offline in zip(judged, streams, whole, strict=True):
                both = (scored >= 0) & (offline >= 0)
                same = float((scored == offline)[both].mean())
                rows.append(row | {WAITS: minutes, SAME: same})
    columns, table = run.by_subject([slim(row, WAITS, SAME) for row in rows])
    return about | {"columns": columns, "rows": table}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", default="1/1", help="which of how many equal parts of the tasks, as 1/2")
    part, n_parts = map(int, parser.parse_args(arguments).part.split("/"))
    judging._flagged = lambda night, profile: math.nan  # not used, and slow
    for task in list(stagers())[part - 1 :: n_parts]:
        began = time.perf_counter()
        keep(RESULTS, {task.name: run_task(task)})
        print(f"{task.name}, {task.base}: {time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
