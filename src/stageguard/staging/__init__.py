"""Stagers: from a recording to stage probabilities, and an entry point for other packages."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version

import numpy as np

from stageguard.errors import InputError, StageGuardError, did_you_mean
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.recording import SLACK_SECONDS, Recording, Signal, end_seconds
from stageguard.profile.stagers import KnownStager

GROUP = "stageguard.stagers"  # entry points of other packages: a name and a `Stager`
BUILT_IN = ("yasa", "sleepecg", "luna-pops")
WITH_FOLDER = ("luna-pops",)  # those whose models are not in a package: NAME:FOLDER
ASKED = {  # what a stager may have to know of the sleeper -> how a user says it
    "age": 'covariates={"age": YEARS} or --age YEARS',
    "sex": 'covariates={"sex": "F" or "M"} or --sex F or M',
    "start": "a recording whose header has its start",
}


@dataclass(frozen=True, slots=True)
class Stager:
    """A stager that runs here."""

    known: KnownStager  # name, stages, epoch length, how it was trained, and the profile that fits
    run: Callable[[Recording], Hypnodensity]  # gives one row per whole epoch of the recording
    package: str  # that has the stager, for its version; "" if none
    extra: str = ""  # of this package, that installs it
    roles: tuple[tuple[str, ...], ...] = (("eeg",),)  # channels it needs; of each group one is enough
    optional: tuple[str, ...] = ()  # channels it also uses, where they are recorded
    least_hz: float = 0.0  # slowest sampling rate of its channels
    asks: tuple[str, ...] = ()  # what it must know of the sleeper: "age", "sex", "start"
    modality: str = "polysomnography"  # how to judge the quality of its channels
    may_skip: bool = False  # whether it may leave out epochs at either end
    weights_sha256: str = ""  # of weights that the user brought; those of a package have its version
    remark: str = ""  # what else a reader should know of how it stages

    @property
    def name(self) -> str:
        """The name it is called by."""
        return self.known.name

    @property
    def version(self) -> str | None:
        """Version of the installed package; None where it is missing, or where no package is named."""
        if not self.package:
            return None
        try:
            return version(self.package)
        except PackageNotFoundError:
            return None

    def describe(self, recording: Recording | None = None) -> str:
        """Return which stager this is, how it was trained, and which channels of a recording it uses."""
        parts = [f"staged by {self.name}" + (f" {self.version}" if self.version else "")]
        if self.known.trained:
            parts.append(f"trained on {self.known.trained} stage frequencies")
        if self.remark:
            parts.append(self.remark)
        if recording is not None:
            roles = self.channels(recording)
            used = ", ".join(f"{role} {recording.signals[role].name}" for role in roles)
            missing = " and ".join(role for role in self.optional if role not in roles)
            parts += [f"from {used}"] * bool(used)
            parts += [f"without {missing}, which it would use"] * bool(missing)
        return ", ".join(parts)

    def channels(self, recording: Recording) -> list[str]:
        """Return the roles it will use; refuse a recording that lacks one, or whose rate is too low."""
        used = []
        for group in self.roles:
            role = next((role for role in group if role in recording.signals), None)
            if role is None:
                wanted, listed = " or ".join(map(repr, group)), ", ".join(recording.signals) or "none"
                raise InputError(
                    f"recording {recording.id!r} has no channel {wanted}, which {self.name} needs; it has: "
                    f"{listed}. Name it: channels={{{group[0]!r}: NAME}} or --channel {group[0]}=NAME."
                )
            used.append(role)
        used += [role for role in self.optional if role in recording.signals]
        for role in used:
            signal = recording.signals[role]
            if isinstance(signal, Signal) and signal.rate_hz < self.least_hz:
                where = f"channel {role!r} ({signal.name}) of recording {recording.id!r}"
                expected = f"expected at least {self.least_hz:g} for {self.name}"
                raise InputError(f"{where} has {signal.rate_hz:g} Hz, {expected}.")
        return used

    def stage(self, recording: Recording) -> Hypnodensity:
        """Return the probabilities of a recording, one row per epoch, checked."""
        Recording.check(recording)
        self.channels(recording)
        for fact in self.asks:
            if (recording.start if fact == "start" else recording.covariates.get(fact)) is None:
                raise InputError(
                    f"recording {recording.id!r} does not say the {fact}, which {self.name} needs. "
                    f"Give it: {ASKED[fact]}."
                )
        n_epochs = int(recording.seconds / self.known.epoch_seconds + 1e-6)
        if n_epochs < 1:
            raise InputError(
                f"recording {recording.id!r} lasts {recording.seconds:g} s, expected at least one epoch of "
                f"{self.known.epoch_seconds:g} s."
            )
        try:
            with redirect_stdout(sys.stderr):  # a stager's prints are no output of the command
                density = self.run(recording)
        except InputError as error:  # also of a density that is none
            raise InputError(f"{self.name}: " + str(error)) from error
        except StageGuardError:  # such as a missing extra
            raise
        except (Exception, SystemExit) as error:  # whatever the stager of another package raises
            reason = " ".join(str(error).split()) or "no reason given"
            raise InputError(
                f"{self.name} failed on recording {recording.id!r}: {type(error).__name__}: {reason}"
            ) from error
        return self._checked(density, recording, n_epochs)

    def _checked(self, density: object, recording: Recording, n_epochs: int) -> Hypnodensity:
        of = f"for recording {recording.id!r}"
        if not isinstance(density, Hypnodensity):
            found = type(density).__name__
            raise InputError(f"{self.name} returned a {found} {of}, expected a Hypnodensity.")
        # the last measurement at uneven times may complete an epoch, as it does for features
        end = max([*map(end_seconds, recording.signals.values()), recording.seconds])
        most = int((end + SLACK_SECONDS) // self.known.epoch_seconds)
        if density.n_epochs > most or (density.n_epochs < n_epochs and not self.may_skip):
            raise InputError(f"{self.name} returned {density.n_epochs} epochs {of}, expected {n_epochs}.")
        if np.isnan(density.probabilities[:, 0]).all():
            raise InputError(f"{self.name} returned no probabilities {of}. Look at the signals.")
        return density


def stagers() -> list[str]:
    """Return the names of all stagers; one whose package is missing says how to get it when it is loaded."""
    return sorted({*BUILT_IN, *_added()})


def has_folder(name: str) -> bool:
    """Whether a name is that of a stager with the folder of its models: ``luna-pops:FOLDER``."""
    return name.partition(":")[0] in WITH_FOLDER


def stager_of(name: str) -> Stager:
    """Return a stager by name, ``NAME`` or ``NAME:FOLDER``; its package is loaded when it runs."""
    if has_folder(name) or name in BUILT_IN:  # first, so that no other package can replace them
        name, _, folder = name.partition(":")
        built_in = import_module(f"{__name__}.built_in")
        stager: Stager = built_in.luna_pops(folder) if has_folder(name) else built_in.STAGERS[name]
        return stager
    if (entry := _added().get(name)) is not None:
        return _load_entry(name, entry)
    known = stagers()
    raise InputError(
        f"there is no stager {name!r}, expected one of {', '.join(known)}, the folder of a trained network "
        f"or an ONNX file.{did_you_mean(name, known)}"
    )


def _added() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _load_entry(name: str, entry: EntryPoint) -> Stager:
    package = entry.module.partition(".")[0] if entry.dist is None else entry.dist.name
    try:
        stager = entry.load()
    except Exception as error:  # whatever importing another package raises
        raise InputError(
            f"stager {name!r} of package {package!r} cannot be loaded ({type(error).__name__}: {error}). "
            f"Install {package} again, or remove it."
        ) from None
    if not isinstance(stager, Stager):
        raise InputError(
            f"stager {name!r} of package {package!r} is a {type(stager).__name__}, expected a Stager of "
            "stageguard.staging."
        )
    return stager
