"""`Decoding`: what was decided and changed in one night, and how to report it."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import isnan
from typing import Any

import numpy as np
import numpy.typing as npt

from stageguard.base.arrays import Labels, Mask
from stageguard.base.errors import Argument, Message
from stageguard.base.files import write_text_atomic
from stageguard.base.lazy import load
from stageguard.base.version import __version__
from stageguard.guard import kernels
from stageguard.guard.clock import ClockRules, RemovedBout
from stageguard.guard.evidence import Night
from stageguard.guard.inputs import NightInput, assumptions
from stageguard.guard.search import chosen_trial, fixed_strength, run_searches, solve_timed
from stageguard.guard.solver import Job, Path, solver_for
from stageguard.guard.strength import Strength, steered_by
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.night import ExportableStages
from stageguard.night.quantities import Steering
from stageguard.profile.profile import Profile

CITATION = (
    "Wang J, Wang Y, Wu H, Gao J, Xu S, Zou D. StageGuard: Physiologically Constrained Sleep Staging. "
    "KDD 2026. doi:10.1145/3770855.3818916"
)


# Above this share of changed epochs, a person should look at the night before using it. On a flickering night
# whose evidence yields, many epochs change by design.
MANY_CHANGES, MANY_OF_A_FLICKERING_NIGHT = 0.10, 0.25


def many_changes_advice(profile: Profile) -> str:
    """Return what to do about a night with many changed epochs under this profile."""
    look = "look at the night before using it"
    if "cross_validation" in profile.provenance:  # chosen on scored nights of this stager
        return f"{look}."
    return f"{look}; the stager or the profile may not fit."


def many_changes_words(decoding: Decoding) -> str:
    """Return how many epochs were changed, and the limit above which a person should look at the night."""
    n_changed, n_scored = (int(np.count_nonzero(each)) for each in (decoding.changed, decoding.argmax >= 0))
    share, limit = 100 * n_changed / max(1, n_scored), 100 * decoding.many_changes
    of_all = f"{n_changed:,} of {n_scored:,} scored epochs ({share:.1f} %)"
    return f"{of_all} were changed, above the limit of {limit:.0f} %"


def removed_words(decoding: Decoding) -> str:
    """Return which early REM is gone, and how sure that is."""
    bouts = []
    for bout in decoding.removed_bouts:
        since = bout.minutes_since_onset
        when = "before onset" if isnan(since) else f"{since:g} min after onset"
        bouts.append(f"{bout.minutes:g} min long, {when}")
    return Message(
        f"the clock removed REM ({'; '.join(bouts)}): look at it. Experts score REM of 3 min or "
        "more within 40 min of onset on 2.7 % of nights, and narcolepsy looks like this. ",
        Argument("cohort", "narcolepsy"),
        " switches the clock off.",
    )


def warnings_of(decoding: Decoding) -> Iterator[str]:
    """Yield why a person should look at a night of a cohort, in words that several nights share."""
    if decoding.changed_share > decoding.many_changes:
        advice = many_changes_advice(decoding.profile)
        yield f"more than {100 * decoding.many_changes:.0f} % of scored epochs were changed: {advice}"
    if decoding.removed_bouts:
        yield "early REM of 3 min or more was removed: look at the night"


@dataclass(frozen=True, slots=True, eq=False)
class Decoding(ExportableStages):
    """One decoded night.

    Attributes
    ----------
    hypnogram : Hypnogram
        The decoded stages; -1 where there is no evidence for more than five minutes.
    profile : Profile
        The profile it was decoded with.
    strength : Strength
        How strongly the profile acted, and why.
    assumed : tuple of str
        What had to be assumed about the input.
    cohort, stager, trained : str or None
        As the caller passed them.
    is_of_other_stager : bool
        Whether what belongs to the profile's stager was left out, because the night is of another one.
    source : str or None
        Where the probabilities came from.
    """

    profile: Profile
    given: NightInput
    is_of_other_stager: bool
    night: Night
    path: Path
    _made: dict[str, Any]  # cache of what is computed on first use

    @property
    def hypnogram(self) -> Hypnogram:
        """The decoded stages."""
        hypnogram: Hypnogram | None = self._made.get("hypnogram")
        if hypnogram is None:
            given, profile = self.given, self.profile
            scorer = f"StageGuard {profile.name}"
            described = (profile.scheme, given.epoch_seconds, given.start, scorer, (), given.offset_seconds)
            hypnogram = self._made["hypnogram"] = Hypnogram.trusted(self.path.labels, *described)
        return hypnogram

    @property
    def strength(self) -> Strength:
        """How strongly the profile acted, and why."""
        strength: Strength | None = self._made.get("strength")
        if strength is None:
            strength = fixed_strength(self.profile, self.night, self.path, self.given.options.strength)
            self._made["strength"] = strength
        return strength

    def replaced(self, **made: Hypnogram | Strength) -> Decoding:
        """Return the same night with another `hypnogram` or `strength`."""
        return replace(self, _made=self._made | made)

    @property
    def assumed(self) -> tuple[str, ...]:
        """What had to be assumed about the input."""
        return assumptions(self.profile, self.given)

    @property
    def cohort(self) -> str | None:
        """Who was recorded, as the caller passed it."""
        return self.given.options.cohort

    @property
    def stager(self) -> str | None:
        """Which stager gave the probabilities, as the caller passed it."""
        return self.given.options.stager

    @property
    def trained(self) -> str | None:
        """How the stager was trained, as the caller passed it."""
        return self.given.options.trained

    @property
    def source(self) -> str | None:
        """Where the probabilities came from."""
        return self.given.source

    def __repr__(self) -> str:
        """Return length, changes and profile on one line."""
        return (
            f"<Decoding {self.hypnogram.n_epochs} epochs of {self.epoch_seconds:g} s, "
            f"{self.profile.scheme.name}, {int(np.count_nonzero(self.changed))} changed, "
            f"profile {self.profile.name!r}, strength {self.strength.rule}>"
        )

    @property
    def stages(self) -> npt.NDArray[np.str_]:
        """Stage names per epoch, "?" where unscored."""
        return self.hypnogram.stages

    @property
    def epoch_seconds(self) -> float:
        """Epoch length."""
        return self.given.epoch_seconds

    @property
    def score(self) -> float:
        """Score of the path in nats: evidence plus weighted transition scores, without an initial term."""
        if self.path.score is not None:
            return self.path.score
        # Only a path without transition scores comes without a score: it is the evidence along the labels.
        added = chosen_trial(self.profile, self.night, self.strength).log_weight
        rows, labels = np.flatnonzero(self.hypnogram.labels >= 0), self.hypnogram.labels
        return float(self.night.evidence(added)[rows, labels[rows]].sum())

    @property
    def argmax(self) -> Labels:
        """The stager's own choice per epoch, -1 where it gave none."""
        labels = self.night.argmax.view()
        labels.flags.writeable = False
        return labels

    @property
    def changed(self) -> Mask:
        """Epochs whose stage is not the stager's own choice."""
        argmax = self.night.argmax
        changed: Mask = (self.hypnogram.labels != argmax) & (argmax >= 0)
        return changed

    @property
    def changed_share(self) -> float:
        """Share of the stager's epochs that were changed."""
        if self.path.n_changed is not None:  # counted with the path: then the stager gave every epoch a stage
            return self.path.n_changed / len(self.path.labels)
        n_scored = int(np.count_nonzero(self.night.argmax >= 0))
        return int(np.count_nonzero(self.changed)) / max(1, n_scored)

    @property
    def many_changes(self) -> float:
        """The share of changed epochs beyond which a person should look at this night before using it."""
        strength: Strength | None = self._made.get("strength")  # None: fixed, and not computed yet
        flickers = strength is not None and (strength.rule, strength.step) == ("target", "lowered")
        return MANY_OF_A_FLICKERING_NIGHT if flickers else MANY_CHANGES

    @property
    def filled(self) -> Mask:
        """Epochs without evidence that were decoded from their neighbours."""
        if self.night.filled is None:
            return np.zeros(self.hypnogram.n_epochs, dtype=bool)
        return self.night.filled.copy()

    @property
    def density(self) -> Hypnodensity:
        """The probabilities that were decoded, in the profile's stage order."""
        return Hypnodensity(
            self.night.probabilities,
            self.profile.scheme,
            self.epoch_seconds,
            start=self.hypnogram.start,
            source=self.source,
            offset_seconds=self.hypnogram.offset_seconds,
        )

    @property
    def period(self) -> tuple[int, int]:
        """First epoch of the sleep period, and the epoch after it: what the rules and indicators measure.

        Under a profile that measures whole recordings it is the recording.
        """
        return self.night.measured

    @property
    def removed_bouts(self) -> tuple[RemovedBout, ...]:
        """Bouts of early REM that the stager saw and of which three minutes or more are gone."""
        return () if self.path.passes is None else self.path.passes.removed

    @property
    def other_causes(self) -> tuple[str, ...]:
        """What besides the profile's rules can change stages on this night."""
        causes = {
            "stages that were given": bool(self.night.pins),
            "calibration": self.night.calibration is not None,
            "signal quality": self.night.quality is not None and bool(self.night.quality.any()),
            "the time since sleep onset": self.night.clock is not None,
        }
        return tuple(cause for cause, acts in causes.items() if acts)

    def advice(self) -> tuple[str, ...]:
        """Return which option the caller could add, and what it would change, if anything."""
        rule = self.profile.strength
        if rule is None or not rule.lifts or rule.lift is not None or self.trained is not None:
            return ()
        strength, n_changed = self.strength, 0
        if strength.fi_before < rule.fi_target * self.epoch_seconds / self.profile.epoch_seconds:
            solver = solver_for(self.profile, self.epoch_seconds)
            untimed = self.night.timed(None)
            ((_, path, lifted),) = run_searches(self.profile, solver, [untimed], natural=True)
            assert lifted is not None
            strength, n_changed = lifted, int(np.count_nonzero(path.labels != self.hypnogram.labels))
        if not n_changed:
            return ()
        return (
            Message(
                "If the stager was trained on natural class frequencies, ",
                Argument("trained", "natural"),
                f" would change {n_changed} epochs; fragmentation index {self.strength.fi_after:.3f} -> "
                f"{strength.fi_after:.3f}.",
            ),
        )

    def methods_text(self) -> str:
        """Return a Methods paragraph to paste into a paper, with the citation."""
        text: str = load("report.methods:night_methods")(self)
        return text

    @property
    def is_free(self) -> bool:
        """Whether the profile itself, by a fixed rule, leaves every epoch as the stager decided it."""
        if self.strength.rule != "fixed" or self.strength.prior_exponent:
            return False
        trial = chosen_trial(self.profile, self.night, self.strength)
        return solver_for(self.profile, self.epoch_seconds).is_free(trial)

    @property
    def steered(self) -> frozenset[Steering]:
        """What the profile steered on this night: numbers that follow it tell of the profile."""
        calibration = self.night.calibration
        biases = None if calibration is None else calibration.biases
        return steered_by(self.strength.step, self.strength.prior_exponent, biases)

    def report(self, path: str | os.PathLike[str], *, overwrite: bool = False, **shown: Any) -> None:
        """Write the night as one HTML page; `shown` are the keywords of `stageguard.night_report`."""
        page = load("report.night:night_report")(self, **shown)
        write_text_atomic(os.fspath(path), page, overwrite=overwrite)

    def provenance(self) -> dict[str, Any]:
        """Return what is needed to reproduce this result."""
        return {
            "profile": self.profile.name,
            "profile_sha256": self.profile.sha256,
            "stageguard": __version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
            "core": kernels.active.NAME,
            "options": {
                "cohort": self.cohort,
                "stager": self.stager,
                "trained": self.trained,
                "epoch_seconds": self.epoch_seconds,
            }
            | ({} if (strength := self.given.options.strength) is None else {"strength": strength}),
        }


def without_clock(decoding: Decoding) -> Labels:
    """Return the labels of a night at its strength if its clock did not run."""
    night = decoding.night.timed(None)
    solver = solver_for(decoding.profile, decoding.epoch_seconds)
    (path,) = solver.solve_feasible([Job(night, chosen_trial(decoding.profile, night, decoding.strength))])
    return path.labels


def under_full_clock(decodings: Sequence[Decoding]) -> list[Decoding]:
    """Decode each night again at its strength, with its clock at weight 1.

    A night without a clock is returned unchanged.
    """
    results = list(decodings)
    jobs: dict[int, Job] = {}
    in_full: dict[int, ClockRules] = {}  # by the id of the profile's rules, which nights share
    for i, result in enumerate(decodings):
        clock = result.night.clock
        if clock is not None:
            if id(clock.rules) not in in_full:
                in_full[id(clock.rules)] = clock.rules.in_full()
            night = result.night.timed(clock.under(in_full[id(clock.rules)]))
            jobs[i] = Job(night, chosen_trial(result.profile, night, result.strength))
    solvers = {i: solver_for(decodings[i].profile, decodings[i].epoch_seconds) for i in jobs}
    for solver in dict.fromkeys(solvers.values()):
        own = {i: job for i, job in jobs.items() if solvers[i] is solver}
        for i, (night, path) in solve_timed(solver, own).items():
            result = decodings[i]
            made = {"strength": result.strength}
            results[i] = Decoding(result.profile, result.given, result.is_of_other_stager, night, path, made)
    return results
