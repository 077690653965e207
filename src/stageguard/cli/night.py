"""Decode one night from its probabilities, or again as an output records it. Prints nothing."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from stageguard.cli.decode_file import DecodeOptions, decode_file
from stageguard.formats.outputs import JSON_SUFFIX, TSV_SUFFIX

if TYPE_CHECKING:
    from stageguard.guard.decoding import Decoding
    from stageguard.profile.profile import Profile


def decode_night(
    night: Path,
    profile: Profile | None,
    options: DecodeOptions,
    start: datetime | None,
    source: Path | None = None,
) -> tuple[Decoding, tuple[str, ...]]:
    """Decode probabilities with a profile, or an output of `decode` as it records; also returns remarks.

    `source` is where the probabilities of an output are, when they are not beside it.
    """
    if night.name.endswith((TSV_SUFFIX, JSON_SUFFIX)):
        from stageguard.cli.verification import decode_recorded

        if profile is not None or options.to_dict() != DecodeOptions().to_dict():
            raise typer.BadParameter(
                f"{night.name} records its profile and options: leave them out, or name the probabilities."
            )
        return decode_recorded(night, start, source)
    if profile is None:
        raise typer.BadParameter("Missing option '--profile' / '-p': probabilities come without one.")
    return decode_file(night, profile, options, start)
