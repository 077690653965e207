"""Find the nights to review, each with its recording and its scoring."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from click import UsageError

from stageguard.cli.cohort_nights import listed_nights
from stageguard.cli.recordings import recording_files
from stageguard.cli.scored_files import Experts
from stageguard.cli.terminal import count
from stageguard.errors import InputError, NoInputError
from stageguard.formats.density import listed
from stageguard.formats.outputs import TSV_SUFFIX
from stageguard.night.timing import Moment
from stageguard.profile.profile import Profile
from stageguard.review.opening import ReviewRequest
from stageguard.runner.decode_one import DecodeOptions
from stageguard.runner.inputs import (
    Input,
    describe_by,
    find_densities,
    is_sample_list,
    lights_of,
    night_id,
    read_samples,
)
from stageguard.storage import is_folder


@dataclass(frozen=True, slots=True)
class Beside:
    """What is shown beside nights: each a file for one night, or a folder with a file for each."""

    edf: Path | None = None
    scoring: Path | None = None


@dataclass(frozen=True, slots=True)
class ReviewedNights:
    """The nights to review, and remarks on what was left out."""

    nights: tuple[Input, ...]
    notes: tuple[str, ...] = ()

    def requests(
        self,
        profile: Profile | None,
        options: DecodeOptions,
        *,
        lights: tuple[Moment | None, Moment | None],
        start: datetime | None,
        scoring_format: str | None,
    ) -> list[ReviewRequest]:
        """Return what to open: lights and start by the options, else as a list has them."""
        requests = []
        for night in self.nights:
            by_list = lights_of(night, *lights) if night.is_listed else None
            off, on = lights if by_list is None else (by_list.off, by_list.on)
            requests.append(
                ReviewRequest(
                    night.path,
                    profile,
                    replace(options, lights_off=off, lights_on=on),
                    start if start is not None else night.start,
                    night.scoring,
                    scoring_format,
                    night.edf,
                    night_name=night.id if night.is_listed else None,
                    error=night.error,
                )
            )
        return requests


def find_reviewed(
    files: Sequence[Path], samples: Path | None, profile: Profile | None, options: DecodeOptions
) -> ReviewedNights:
    """Return the nights that files, folders and a sample list name.

    They are probabilities with a profile, else outputs of `decode`.
    """
    if not files and samples is None:
        raise NoInputError("Missing argument NIGHT: name files, folders, or a list (--list).")
    nights: list[Input] = []
    notes: list[str] = []
    for path in files:
        if samples is None and is_sample_list(path):
            nights += _listed(path)
        elif profile is not None:
            found = find_densities([path], None, profile, options)
            nights += found.nights
            notes += found.notes
        else:
            nights += [Input(output, night_id(output)) for output in _outputs(path)]
    if samples is not None:
        if not nights:
            return ReviewedNights(tuple(_listed(samples)))
        nights, more = describe_by(samples, nights)
        notes += more
    return ReviewedNights(tuple(nights), tuple(notes))


def _listed(path: Path) -> list[Input]:
    """Return the nights of a sample list; what is reviewed is in its column `probabilities`."""
    nights = read_samples(path, "hypnogram")
    for night in nights:
        if night.path in (night.scoring, night.edf):
            raise InputError(
                f"{path.name}: night {night.id!r} has no probabilities, expected a file in that column. "
                "Stage the recording first: stageguard stage."
            )
    return nights


def _outputs(path: Path) -> list[Path]:
    """Return the outputs of `decode` in a folder, or the file itself."""
    if not path.is_dir():
        return [path]
    outputs = sorted(file for file in path.iterdir() if file.name.endswith(TSV_SUFFIX))
    if not outputs:
        raise InputError(
            f"{path} holds no outputs of decode. Review probabilities with --profile, or decode first."
        )
    return outputs


def with_files_beside(found: ReviewedNights, beside: Beside) -> ReviewedNights:
    """Return nights with their recordings and scorings."""
    names, notes = [night.id for night in found.nights], list(found.notes)

    def matched(option: str, source: Path | None, find: Callable[[Path], Mapping[str, Path]]) -> Matched:
        files = {} if source is None else _matched(option, source, names, find)
        if files:
            notes.extend(listed_nights(f"without {option}", set(names) - set(files)))
        return files

    recordings = matched("--edf", beside.edf, lambda folder: _by_name(recording_files(folder)))
    scorings = matched("--scoring", beside.scoring, lambda folder: _scorings(folder, names))
    nights = tuple(
        replace(night, edf=recordings.get(night.id, night.edf), scoring=scorings.get(night.id, night.scoring))
        for night in found.nights
    )
    return ReviewedNights(nights, tuple(notes))


Matched = dict[str, Path]


def _matched(
    option: str, source: Path, names: Sequence[str], find: Callable[[Path], Mapping[str, Path]]
) -> Matched:
    """Return the file for each night: the one file, or those of a folder that have the nights' names."""
    if not is_folder(source):
        if len(names) > 1:
            raise UsageError(
                f"{option} is one file for {count(len(names), 'night')}, expected a folder of files named "
                "like the nights, or a list (--list)."
            )
        return {names[0]: source}
    files = find(source)
    known = {name: files[name] for name in names if name in files}
    if not known:
        raise InputError(
            f"no file in {source} is named like a night: there are {listed([*files], 3)}, and the nights are "
            f"{listed(names, 3)}. Expected the same names."
        )
    return known


def _by_name(files: Sequence[Path]) -> dict[str, Path]:
    """Return files by the name of their night; two of one name are an error."""
    named: dict[str, Path] = {}
    for path in files:
        other = named.setdefault(night_id(path), path)
        if other is not path:
            raise InputError(
                f"{other.name} and {path.name} are both named like night {night_id(path)!r}. Keep one."
            )
    return named


def _scorings(folder: Path, names: Sequence[str]) -> dict[str, Path]:
    experts = Experts(folder)
    found = {name: path for name in names if (path := experts.path_for(name)) is not None}
    return found or dict.fromkeys(experts.names, folder)
