"""Search the strength of many nights at once, each round of trials decoded in one call. Reads no input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from stageguard.guard.evidence import Night
from stageguard.guard.solver import Job, Path, Solver, Trial
from stageguard.guard.strength import UNTOUCHED, Search, Strength, search
from stageguard.profile.profile import Profile


def advance_together(
    profile: Profile, solver: Solver, nights: Sequence[Night], natural: bool
) -> list[tuple[Path, Strength]]:
    """Run every night's strength search; each round's trials are decoded in one call."""
    before = [_argmax_path(night) for night in nights]
    searches: list[Search] = [
        search(profile, solver, night, path.fragmentation_index, natural=natural)
        for night, path in zip(nights, before, strict=True)
    ]
    tried: list[dict[Trial, Path]] = [{} for _ in nights]
    results: dict[int, tuple[Trial, Strength]] = {}
    replies: dict[int, list[float] | None] = dict.fromkeys(range(len(nights)))
    while replies:
        asked: dict[int, list[Trial]] = {}
        for i, reply in replies.items():
            try:
                asked[i] = searches[i].send(reply) if reply is not None else next(searches[i])
            except StopIteration as stop:
                results[i] = stop.value
        jobs = [Job(nights[i], trial) for i, trials in asked.items() for trial in trials]
        paths = iter(_feasible(solver, jobs))
        replies = {}
        for i, trials in asked.items():
            tried[i] = {trial: next(paths) for trial in trials}
            replies[i] = [path.fragmentation_index for path in tried[i].values()]
    return _keep(solver, nights, before, tried, results)


def _keep(
    solver: Solver,
    nights: Sequence[Night],
    before: Sequence[Path],
    tried: Sequence[Mapping[Trial, Path]],
    results: Mapping[int, tuple[Trial, Strength]],
) -> list[tuple[Path, Strength]]:
    """Return each night's chosen path; a search may settle on a trial that was not its last."""
    kept: dict[int, Path] = {}
    open_jobs: dict[int, Job] = {}
    for i, (trial, _) in results.items():
        if trial in tried[i]:
            kept[i] = tried[i][trial]
        elif trial == UNTOUCHED and nights[i].is_plain:
            kept[i] = before[i]
        else:
            open_jobs[i] = Job(nights[i], trial)
    kept.update(zip(open_jobs, _feasible(solver, list(open_jobs.values())), strict=True))
    return [(kept[i], results[i][1]) for i in range(len(nights))]


def _argmax_path(night: Night) -> Path:
    """Return the stager's own choice, calibrated if the profile says so, with its fragmentation index."""
    labels = night.argmax
    if night.calibration is None and night.filled is None and len(night.spans) == 1:
        return Path(labels, None, night.n_switches / night.n_pairs if night.n_pairs else float("nan"))
    if night.calibration is not None:
        labels = night.choices()
    changes = pairs = 0
    for start, stop in night.spans:
        before, after = labels[start : stop - 1], labels[start + 1 : stop]
        scored = (before >= 0) & (after >= 0)
        pairs += int(np.count_nonzero(scored))
        changes += int(np.count_nonzero((before != after) & scored))
    return Path(labels, None, changes / pairs if pairs else float("nan"))


class NoPathError(Exception):
    """No path of a night obeys the constraints."""

    def __init__(self, solver: Solver, job: Job) -> None:
        super().__init__(solver, job)
        self.solver, self.job = solver, job


def _feasible(solver: Solver, jobs: Sequence[Job]) -> list[Path]:
    paths = solver.solve(jobs) if jobs else []
    for job, path in zip(jobs, paths, strict=True):
        if path.score == -np.inf:
            raise NoPathError(solver, job)
    return paths
