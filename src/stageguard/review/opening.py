"""Open a night for review: probabilities with a profile, or an output of `decode` with its record."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from stageguard.errors import InputError, StageGuardWarning
from stageguard.formats.companions import parse_start
from stageguard.formats.night import FileOptions
from stageguard.formats.outputs import (
    JSON_SUFFIX,
    describe_file,
    describe_profile,
    is_output,
    output_paths,
    plain,
    read_hypnogram_tsv,
    read_sidecar,
)
from stageguard.formats.read import night_name, read_hypnogram_file
from stageguard.night.align import on_epochs_of
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.timing import recording_start, with_start
from stageguard.profile.profile import Profile
from stageguard.review.journal import ADJUDICATES
from stageguard.review.night import NightUnderReview, chosen_strength
from stageguard.review.state import ReviewState
from stageguard.runner.decode_one import DecodeOptions, read_with, refuse_output
from stageguard.runner.staging_record import read_record
from stageguard.runner.verify import check_input, check_profile, decode_recorded, errors_of_record


@dataclass(frozen=True, slots=True)
class ReviewRequest:
    """A night as named on the command line."""

    path: Path
    profile: Profile | None = None  # required for probabilities; an output of `decode` records it
    options: DecodeOptions = field(default_factory=DecodeOptions)
    start: datetime | None = None
    scoring: Path | None = None
    scoring_format: str | None = None
    edf: Path | None = None
    night_name: str | None = None  # if it differs from the file's name
    error: str | None = None  # why it cannot be read, known before

    @property
    def name(self) -> str:
        """Name of the night."""
        if self.night_name is not None:
            return self.night_name
        if self.path.name.endswith(JSON_SUFFIX):
            return self.path.name.removesuffix(JSON_SUFFIX)
        return night_name(self.path)

    @property
    def is_output(self) -> bool:
        """Whether the file is an output of `decode`."""
        return is_output(self.path)


def recorded_options(night: NightUnderReview, state: ReviewState) -> dict[str, Any]:
    """Return all options besides file and profile, as `decode` records them."""
    names, (_, chosen_with) = night.scheme.names, chosen_strength(night, state.settings)
    pins = {epoch: names[pin.stage] for epoch, pin in state.pins.items()}
    strength_pins = {epoch: names[stage] for epoch, stage in chosen_with.items()}
    quality, then = night.quality_with(state.artefacts), night.quality_for_strength(state.settings)
    now, then = (np.zeros(night.n_epochs) if one is None else np.asarray(one) for one in (quality, then))
    options = replace(
        night.reading,
        pins=pins or None,
        strength_pins=None if strength_pins == pins else strength_pins,
        quality=quality,
        strength_quality={epoch: float(then[epoch]) for epoch in np.flatnonzero(now != then).tolist()}
        or None,
    )
    return options.record(night.start)


def open_night(request: ReviewRequest) -> NightUnderReview:
    """Read a night; any error in its files is reported in one line."""
    if request.error is not None:
        raise InputError(request.error)
    if request.is_output:
        request, source = _from_record(request)
    elif not request.path.exists():
        raise InputError(f"{request.path.name}: No such file or directory.")
    elif request.profile is None:
        raise InputError(
            f"{request.path.name} holds probabilities, which come without a profile. Name one: --profile."
        )
    else:
        refuse_output(request.path)
        source = request.path
    profile = request.profile
    assert profile is not None
    read = read_with(
        source,
        profile,
        request.options.density,
        profile.for_nights_of(request.options.stager, request.options.cohort),
    )
    density = with_start(read.density, request.start)
    if density.scheme.names != profile.scheme.names:
        density = density.merge(profile.scheme)
    record = read_record(source)
    shares = None if record is None or record.disagreement is None else np.array(record.disagreement)
    night = NightUnderReview(
        request.name,
        density,
        profile,
        request.options,
        source,
        request.start,
        notes=read.notes,
        disagreement=shares,
    )
    _ = night.pins, night.stager_statistics  # raises an error if a pin or the lights are wrong
    return night if request.scoring is None else replace(night, expert=_read_expert(request, night))


def _from_record(request: ReviewRequest) -> tuple[ReviewRequest, Path]:
    """Return an output of `decode` with its recorded profile and options, and the file of probabilities."""
    with warnings.catch_warnings():  # the page shows how much was changed
        warnings.simplefilter("ignore", StageGuardWarning)
        decode_recorded(request.path)  # refuses an output that was edited or has lost its probabilities
    files = output_paths(request.path)
    record = read_sidecar(files.sidecar)
    with errors_of_record(files.sidecar):
        profile, _ = check_profile(files.sidecar, record)
        recorded = record["options"]
        options = DecodeOptions.from_dict(recorded, read_hypnogram_tsv(files.tsv).quality)
        source, _ = check_input(files.sidecar, record, None)
        start = parse_start(str(recorded["start"])) if "start" in recorded else request.start
    assert source is not None  # or it could not be decoded
    if request.profile is not None:
        raise InputError(
            f"{request.path.name} records its profile: leave out --profile, or name probabilities."
        )
    off, on = options.lights_off, options.lights_on
    options = replace(
        options,
        strength=None,  # the recorded profile has it already, and an action may change it
        lights_off=request.options.lights_off if off is None else off,
        lights_on=request.options.lights_on if on is None else on,
    )
    return replace(request, profile=profile, options=options, start=start), source


def _read_expert(request: ReviewRequest, night: NightUnderReview) -> Hypnogram:
    """Return the expert's scoring in the stages of the night."""
    assert request.scoring is not None
    options = FileOptions(
        default_scheme=night.scheme,
        default_epoch_seconds=night.density.epoch_seconds,
        format=request.scoring_format,
    )
    by_stager = night.hypnogram(night.argmax)
    expert = with_start(read_hypnogram_file(request.scoring, options).hypnogram, recording_start(by_stager))
    return on_epochs_of(by_stager, expert).merge(night.scheme)


def head_of(night: NightUnderReview, folder: Path, scorer: str, *, is_blind: bool) -> dict[str, Any]:
    """Return the first line of a journal: the night, the scorer, and the options."""
    quality = night.reading.quality
    between = {}
    if night.dispute is not None:
        between = {ADJUDICATES: [dict(one.place) for one in night.dispute.opinions]}
    return {
        "scorer": scorer,
        "blind": is_blind,
        "night": {
            "name": night.name,
            "n_epochs": night.n_epochs,
            "epoch_seconds": night.density.epoch_seconds,
            "stages": list(night.scheme.names),
        },
        "probabilities": _sha256(night.density.probabilities),
        "source": describe_file(night.source, folder=folder),
        "options": plain(replace(night.reading, pins=None).record(night.start)),
        "quality": None if quality is None else plain(np.asarray(quality)),
        "pins": {str(epoch): night.scheme.names[pin.stage] for epoch, pin in night.pins.items()},
        "profile": describe_profile(night.profile),
        **between,
    }


def _sha256(values: Any) -> str:
    return sha256(np.ascontiguousarray(values, dtype="<f8").tobytes()).hexdigest()
