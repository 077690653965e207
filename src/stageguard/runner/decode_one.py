"""Read and decode one file of probabilities, with options as `decode` records and compares them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np

from stageguard.arrays import Floats
from stageguard.errors import FileFormatError, InputError, StageGuardError
from stageguard.files import file_error
from stageguard.formats.companions import parse_moment
from stageguard.formats.density import LABELS_ALONE, existing_file
from stageguard.formats.night import FileOptions
from stageguard.formats.night import Night as ReadNight
from stageguard.formats.outputs import TSV_SUFFIX, describe_file
from stageguard.formats.read import labels_options, read_density_file, read_hypnogram_file
from stageguard.formats.registry import is_for_stages_alone, is_own_table
from stageguard.guard.decode import decode_held, decode_night, profile_for, warn_of_changes
from stageguard.guard.decoding import Decoding
from stageguard.guard.night import GuardOptions, Night
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.stages import SCHEMES
from stageguard.night.timing import Moment, part_of, with_start
from stageguard.profile.labels import density_of_labels
from stageguard.profile.profile import Profile, fitting_profile
from stageguard.profile.stagers import Training

# Exceptions that reading a record may raise when its values are not what `decode` wrote.
MALFORMED = (KeyError, TypeError, AttributeError, ValueError, OverflowError)
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """Everything that affects a result besides the file and the profile."""

    density: FileOptions = field(default_factory=FileOptions)
    quality: Floats | None = None
    pins: dict[int, str] | None = None
    strength_pins: dict[int, str] | None = None  # the pins with which the strength is chosen, if not `pins`
    strength_quality: dict[int, float] | None = None  # likewise, where it differs from `quality`
    cohort: str | None = None
    stager: str | None = None
    trained: Training | None = None
    strength: float | Literal["off"] | None = None  # instead of the profile's strength
    epochs: tuple[int, int] | None = None  # the part of the file that is decoded, if not all of it
    lights_off: Moment | None = None  # neither is in `to_dict`: they are of one night, as `record` says
    lights_on: Moment | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types; quality values are left out, because they are a column of the output."""
        density, quality, held = self.density, self.quality, self.strength_quality
        if_given = {
            "quality_sha256": None if quality is None else sha256(quality.tobytes()).hexdigest(),
            "normalize": density.normalize or None,
            "stager": self.stager,
            "strength": self.strength,
            "epochs": None if self.epochs is None else list(self.epochs),
            "strength_pins": _by_text(self.strength_pins),
            "strength_quality": _by_text(held),
        }
        return {key: value for key, value in if_given.items() if value is not None} | {
            "stages": None if density.stages is None else list(density.stages),
            "epoch_seconds": density.epoch_seconds,
            "logits": density.logits,
            "log": density.log,
            "quality": quality is not None,
            "pins": _by_text(self.pins),
            "cohort": self.cohort,
            "trained": self.trained,
            "format": density.format,
            "pool_to_seconds": density.pool_to_seconds,
        }

    def record(self, start: datetime | None) -> dict[str, Any]:
        """Return `to_dict` with the times of one night, which began at `start`, as a sidecar records them."""
        times = {"start": start, "lights_off": self.lights_off, "lights_on": self.lights_on}
        return self.to_dict() | {
            key: value.isoformat() if isinstance(value, datetime) else value
            for key, value in times.items()
            if value is not None
        }

    @classmethod
    def from_dict(cls, recorded: Mapping[str, Any], quality: Floats | None) -> DecodeOptions:
        """Return the recorded options; `quality` is that column of the output."""
        given = {
            key: _PARSE[key](value) if key in _PARSE else value
            for key, value in recorded.items()
            if value is not None
        }
        density, own = (
            {item.name: given[item.name] for item in fields(kind) if item.name in given}
            for kind in (FileOptions, cls)
        )
        return cls(FileOptions(**density), **own | {"quality": quality if given.get("quality") else None})


def _by_text(by_epoch: Mapping[int, Any] | None) -> dict[str, Any] | None:
    return None if by_epoch is None else {str(epoch): value for epoch, value in by_epoch.items()}


def _pins(recorded: Mapping[str, str]) -> dict[int, str]:
    return {int(epoch): stage for epoch, stage in recorded.items()}


def _moment(recorded: object) -> Moment:
    return parse_moment(str(recorded))


# how values that JSON has in another type become those of the call
_PARSE: dict[str, Callable[[Any], Any]] = {
    "stages": tuple,
    "pins": _pins,
    "strength_pins": _pins,
    "strength_quality": lambda held: {int(epoch): float(beta) for epoch, beta in held.items()},
    "epochs": lambda part: (int(part[0]), int(part[1])),
    "lights_off": _moment,
    "lights_on": _moment,
}


def reading_with(profile: Profile, options: FileOptions) -> FileOptions:
    """Return the options for reading a file with a profile, whose stage names the file may use."""
    scheme = None if profile.scheme in SCHEMES.values() else profile.scheme
    return replace(options, default_epoch_seconds=profile.epoch_seconds, scheme=scheme)


def read_with(path: Path, profile: Profile, options: FileOptions, used: Profile) -> ReadNight:
    """Read a file to be decoded with a profile; labels alone become shares of the confusions of `used`."""
    reading = reading_with(profile, options)
    if not is_for_stages_alone(options.format):
        try:
            return read_density_file(path, reading)
        except FileFormatError as error:
            if error.code != LABELS_ALONE or not options.may_be_labels:
                raise
    read = read_hypnogram_file(path, labels_options(reading, profile))
    density = density_of_labels(read.hypnogram, used)
    return replace(read, scoring=None, probabilities=density)


def profile_that_fits(paths: Sequence[Path], options: FileOptions) -> Profile:
    """Return the built-in profile for the stages and epoch length of the first night that can be read."""
    problem: Exception = InputError("no night can be read, so no profile was chosen.")
    for path in paths:
        try:
            try:
                night: Hypnodensity | Hypnogram = read_density_file(path, options).density
            except FileFormatError as error:
                if error.code != LABELS_ALONE or not options.may_be_labels:
                    raise
                night = read_hypnogram_file(path, options).hypnogram
        except (StageGuardError, OSError) as error:
            problem = error
            continue
        return fitting_profile(night.scheme, night.epoch_seconds)
    raise problem


def decode_file(
    path: Path, profile: Profile, options: DecodeOptions, start: datetime | None = None
) -> tuple[Decoding, tuple[str, ...]]:
    """Read and decode a file that begins at `start` unless it says otherwise; also return remarks."""
    refuse_output(path)
    read = read_with(path, profile, options.density, profile.for_nights_of(options.stager, options.cohort))
    return decode_density(with_start(read.density, start), profile, options), read.notes


def decode_density(density: Hypnodensity, profile: Profile, options: DecodeOptions) -> Decoding:
    """Decode the probabilities of one file, or the part of them that the options name."""
    if options.epochs is not None:
        density = part_of(density, *options.epochs)
    is_held = options.strength_pins is not None or options.strength_quality is not None
    strength_pins = options.pins if options.strength_pins is None else options.strength_pins or None
    own = GuardOptions(
        quality=quality_for_strength(options, density.n_epochs),
        pins=strength_pins,
        lights_off=options.lights_off,
        lights_on=options.lights_on,
        cohort=options.cohort,
        stager=options.stager,
        trained=options.trained,
        strength=options.strength,
    )
    used = profile_for(profile, own)
    decoding = decode_night(Night.read(density, used, own))
    warn_of_changes([decoding])
    if is_held:
        now = replace(own, pins=options.pins, quality=options.quality)
        decoding = decode_held(density, profile, now, decoding)
    return decoding


def quality_for_strength(options: DecodeOptions, n_epochs: int) -> Floats | None:
    """Return the signal quality with which the profile's rule chooses the strength."""
    if options.strength_quality is None:
        return options.quality
    quality = np.zeros(n_epochs) if options.quality is None else np.array(options.quality, dtype=np.float64)
    for epoch, beta in options.strength_quality.items():
        if not 0 <= epoch < n_epochs:
            raise InputError(
                f"strength_quality names epoch {epoch}, expected an epoch of the night, 0 to {n_epochs - 1}."
            )
        quality[epoch] = beta
    return quality


def start_of(edf: Path | None, listed_start: datetime | None) -> datetime | None:
    """Return when a recording began: from its header, else from the sample list."""
    if edf is None:
        return listed_start
    from stageguard.formats.recordings.edf import read_edf_header  # only a recording needs it

    return read_edf_header(edf).start or listed_start


def refuse_output(path: Path) -> None:
    """Refuse anything but a regular file, and outputs of `decode`, which hold decoded stages."""
    existing_file(path)
    if path.name.endswith(TSV_SUFFIX) or is_own_table(path):
        raise file_error(path, "is an output of decode, expected the stager's probabilities.")


def what_differs(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return how the recipe of an existing output differs from that of now; empty if it does not.

    A recipe is everything that affects an output, in JSON types: name and hash of `input` and `profile`,
    `options`, and `stageguard`, the version. An output with the recipe of now is kept; any other one is left
    alone, unless it may be overwritten.
    """
    options, options_now = was["options"], now["options"]
    keys = sorted(options.keys() | options_now.keys())
    if differing := [key for key in keys if options.get(key, _ABSENT) != options_now.get(key, _ABSENT)]:
        return f"was decoded with other options ({', '.join(differing)})"
    name = was["profile"]["name"]
    if was["profile"]["sha256"] != now["profile"]["sha256"]:
        is_same = name == now["profile"]["name"]
        return f"was decoded with {'another version of ' * is_same}the profile {name}"
    if was["stageguard"] != now["stageguard"]:
        return f"was decoded by stageguard {was['stageguard']}, this is {now['stageguard']}"
    if was["input"]["sha256"] != now["input"]["sha256"]:
        return f"{now['input']['file']} has changed since"
    return ""


def is_as_described(folder: Path, described: Mapping[str, Any]) -> bool:
    """Whether a file that was written beside an output is there and has not changed."""
    path = folder / Path(described["file"]).name
    return path.is_file() and describe_file(path) == described
