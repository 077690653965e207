"""Find and read the expert's scoring of a night, by name in a folder or as told. Prints nothing."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from errno import ENOENT
from pathlib import Path

from stageguard.base.errors import InputError
from stageguard.cli.inputs import is_own, night_id, special
from stageguard.cli.recognising import Wanted, is_night
from stageguard.cli.scored_files import ReadOptions, read_scoring
from stageguard.formats.hypnogram import HypnogramOptions
from stageguard.formats.outputs import TSV_SUFFIX
from stageguard.formats.registry import formats
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.timing import begun, recording_start

SCORED = Wanted("hypnogram")


class Experts:
    """Expert scorings by the name of the night."""

    def __init__(self, place: Path | None, named: Mapping[str, Path] | None = None) -> None:
        self._named = dict(named or {})
        self._file: Path | None = None
        self._folder: dict[str, list[Path]] = {}
        self._others: dict[str, list[Path]] = {}
        problem = None if place is None else special(place)
        if problem is not None:
            raise InputError(problem)
        if place is not None and not place.exists():
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT), str(place))
        if place is not None and place.is_dir():
            files = [path for path in sorted(place.iterdir()) if path.is_file() and not is_own(path)]
            scored = [form for form in formats() if form.does("hypnogram")]
            plain = {suffix for form in scored if form.is_plain for suffix in form.suffixes}
            known = tuple(suffix for form in scored for suffix in form.suffixes)
            for path in files:
                if path.suffix.lower() in plain:
                    self._folder.setdefault(night_id(path), []).append(path)
            for path in files:  # other formats, of nights that have none of those
                if path.name.lower().endswith(known) and night_id(path) not in self._folder:
                    self._others.setdefault(night_id(path), []).append(path)
            self._folder |= self._others
            if not self._folder:
                raise InputError(
                    f"{place} holds no hypnogram, expected files such as night.tsv or night.txt."
                )
        else:
            self._file = place

    @property
    def kind(self) -> str:
        """Where scorings are looked for, in a word."""
        return "folder" if self._folder else "list"

    def path_for(self, name: str) -> Path | None:
        """Return the file that holds the expert's scoring of a night, or None."""
        if name in self._named:
            return self._named[name]
        if self._file is not None:
            return self._file
        found = self._folder.get(name, [])
        if len(found) > 1 and name in self._others:  # a recording may lie beside its scoring
            found = [path for path in found if is_night(path, SCORED)] or found
        if len(found) > 1:
            listed = " and ".join(path.name for path in found[:2])
            raise InputError(f"the expert of {name!r} may be {listed}, expected one file. Keep one.")
        return found[0] if found else None

    def read(
        self, name: str, night: Hypnogram | None, options: ReadOptions, listed: Path | None = None
    ) -> Hypnogram | None:
        """Read the expert's scoring of a night; what its file does not say is taken from the night.

        `listed` is the file that a sample list names, which goes before a folder's.
        """
        path = listed or self.path_for(name)
        return None if path is None else read_expert(path, night, options)


def read_expert(path: Path, night: Hypnogram | None, options: ReadOptions) -> Hypnogram:
    """Read an expert's scoring; what its file does not say, scheme to start, is taken from the night."""
    format = None if path.name.endswith(TSV_SUFFIX) else options.scoring_format
    given = HypnogramOptions(options.scheme, options.epoch_seconds, format=format)
    if night is not None:
        given = dataclasses.replace(
            given, default_scheme=night.scheme, default_epoch_seconds=night.epoch_seconds
        )
    expert = read_scoring(path, given).hypnogram
    return begun(expert, options.start if night is None else recording_start(night))
