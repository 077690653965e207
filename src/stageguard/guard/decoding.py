"""`Decoding`: what was decided and changed in one night, and how to report it."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
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
from stageguard.guard.clock import MOST_PASSES, RemovedBout
from stageguard.guard.evidence import Night
from stageguard.guard.inputs import assumptions
from stageguard.guard.solver import Path, Solver, fixed_setting, solver_for
from stageguard.guard.strength import NightCurve, Passes, Strength, fixed_strength, steered_by, strength_of
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.night import ExportableStages
from stageguard.night.quantities import Steering
from stageguard.profile.profile import Profile
from stageguard.profile.rules.rule import UNTOUCHED, Choice, Setting

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
    night: Night  # with the clock it was decoded with
    is_of_other_stager: bool
    path: Path
    setting: Setting
    choice: Choice | None  # of the profile's rule; None: the strength is fixed, or was held
    passes: Passes | None  # how the clock ran; None without one
    _made: dict[str, Any] = field(default_factory=dict)  # cache of what is computed on first use

    @property
    def hypnogram(self) -> Hypnogram:
        """The decoded stages."""
        hypnogram: Hypnogram | None = self._made.get("hypnogram")
        if hypnogram is None:
            night, profile = self.night, self.profile
            scorer = f"StageGuard {profile.name}"
            described = (profile.scheme, night.epoch_seconds, night.start, scorer, (), night.offset_seconds)
            hypnogram = self._made["hypnogram"] = Hypnogram.trusted(self.path.labels, *described)
        return hypnogram

    @property
    def strength(self) -> Strength:
        """How strongly the profile acted, and why."""
        strength: Strength | None = self._made.get("strength")
        if strength is None:
            if self.choice is None:
                strength = fixed_strength(self.profile, self.night, self.path, self.passes)
            else:
                strength = strength_of(self.choice, self.night, self.path, self.passes)
            self._made["strength"] = strength
        return strength

    def replaced(self, **made: Hypnogram | Strength) -> Decoding:
        """Return the same night with another `hypnogram` or `strength`, at which it is drawn from, too."""
        strength, setting = made.get("strength"), self.setting
        if isinstance(strength, Strength):
            setting = strength.setting(self.profile, self.night)
        return replace(self, setting=setting, _made=self._made | made)

    @property
    def assumed(self) -> tuple[str, ...]:
        """What had to be assumed about the input."""
        return assumptions(self.profile, self.night)

    @property
    def cohort(self) -> str | None:
        """Who was recorded, as the caller passed it."""
        return self.night.options.cohort

    @property
    def stager(self) -> str | None:
        """Which stager gave the probabilities, as the caller passed it."""
        return self.night.options.stager

    @property
    def trained(self) -> str | None:
        """How the stager was trained, as the caller passed it."""
        return self.night.options.trained

    @property
    def source(self) -> str | None:
        """Where the probabilities came from."""
        return self.night.source

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
        return self.night.epoch_seconds

    @property
    def score(self) -> float:
        """Score of the path in nats: evidence plus weighted transition scores, without an initial term."""
        if self.path.score is not None:
            return self.path.score
        # Only a path without transition scores comes without a score: it is the evidence along the labels.
        rows, labels = np.flatnonzero(self.hypnogram.labels >= 0), self.hypnogram.labels
        return float(self.night.evidence(self.setting.stage_nats)[rows, labels[rows]].sum())

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
        n_scored = int(np.count_nonzero(self.night.argmax >= 0))
        return int(np.count_nonzero(self.changed)) / max(1, n_scored)

    @property
    def many_changes(self) -> float:
        """The share of changed epochs beyond which a person should look at this night before using it."""
        flickers = (self.strength.rule, self.strength.step) == ("target", "lowered")
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
        return () if self.passes is None else self.passes.removed

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
        if rule is None or not rule.asks_training or self.trained is not None:
            return ()
        strength, n_changed = self.strength, 0
        if strength.fi_before < rule.fi_target * self.epoch_seconds / self.profile.epoch_seconds:
            night = self.night.timed(None)
            lifted = decode_under(self.profile, night.with_options(trained="natural"))
            strength = lifted.strength
            n_changed = int(np.count_nonzero(lifted.path.labels != self.hypnogram.labels))
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
        return solver_for(self.profile, self.epoch_seconds).is_free(self.setting)

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
            | ({} if (strength := self.night.options.strength) is None else {"strength": strength}),
        }


def decode_under(
    profile: Profile, night: Night, solver: Solver | None = None, *, is_of_other_stager: bool = False
) -> Decoding:
    """Decode a checked night at the strength that the profile, or its rule, sets for it.

    Profiles that differ only in strength may share a `solver`.
    """
    solver = solver_for(profile, night.epoch_seconds) if solver is None else solver
    choice, setting = None, fixed_setting(profile)
    if setting is None:  # then a rule sets it, on the night without its clock
        assert profile.strength is not None
        choice = profile.strength.choose(NightCurve(profile, solver, night))
        setting = choice.setting
        if setting != UNTOUCHED:  # what lies around the sleep period must not change a stage inside
            night = night.cut_at_period()
    night, path, passes = decode_at(solver, night, setting)
    return Decoding(profile, night, is_of_other_stager, path, setting, choice, passes)


def decode_at(solver: Solver, night: Night, setting: Setting) -> tuple[Night, Path, Passes | None]:
    """Decode a night at one setting; with a clock, again until sleep onset no longer moves.

    Returns the night with its clock, too. Without the clock, the night says where sleep begins.
    """
    if setting == UNTOUCHED and night.is_plain:
        path = Path(night.own_choice(), None)  # stepping aside is argmax to the bit
    else:
        path = solver.path(night, setting)
    rules = solver.clock
    if rules is None or not night.has_clock:
        return night, path, None
    onsets = rules.onsets(path.labels, *night.clock_epochs)
    for n_passes in range(1, MOST_PASSES + 1):
        timed, path = decode_timed(solver, night.counted_from(onsets, rules), setting)
        found = rules.onsets(path.labels, *night.clock_epochs)
        if found == onsets or n_passes == MOST_PASSES:  # it may go back and forth between two onsets
            break
        onsets = found
    removed = timed.clock.removed(path.labels, solver.epoch_seconds) if timed.clock else ()
    return timed, path, Passes(timed.clock.onsets if timed.clock else (), n_passes, found == onsets, removed)


def decode_timed(solver: Solver, night: Night, setting: Setting) -> tuple[Night, Path]:
    """Decode a night with its clock, which gives way where it would leave a hole in a bout.

    Every round releases epochs that were held back before, so that there is an end.
    """
    while True:
        path = solver.path(night, setting)
        holes = night.clock.holes(path.labels) if night.clock is not None else ()
        if not holes:
            return night, path
        assert night.clock is not None
        night = night.timed(night.clock.with_released(holes))


def without_clock(decoding: Decoding) -> Labels:
    """Return the labels of a night at its strength if its clock did not run."""
    solver = solver_for(decoding.profile, decoding.epoch_seconds)
    return solver.path(decoding.night.timed(None), decoding.setting).labels


def under_full_clock(decoding: Decoding) -> Decoding:
    """Decode a night again at its strength, with its clock at weight 1, if it has one."""
    clock = decoding.night.clock
    if clock is None:
        return decoding
    solver = solver_for(decoding.profile, decoding.epoch_seconds)
    full = decoding.night.timed(clock.under(clock.rules.in_full()))
    night, path = decode_timed(solver, full, decoding.setting)
    strength = decoding.strength
    # the strength stays that of the night as it was decoded; the labels are new
    return replace(decoding, night=night, path=path, passes=None, _made={"strength": strength})
