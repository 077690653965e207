"""Which formats can hold a night's stages, found by trying to write a short night of all of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from stageguard.base.errors import StageGuardError
from stageguard.formats.file_format import FileFormat
from stageguard.formats.outgoing import Outgoing
from stageguard.formats.registry import formats
from stageguard.formats.sources import outgoing_of
from stageguard.night.hypnogram import Hypnogram


def formats_for(night: Hypnogram) -> tuple[FileFormat, ...]:
    """Return the formats that can hold a scoring of these stages and epochs."""
    every_stage = np.arange(night.scheme.n_stages, dtype=np.int8)
    short = outgoing_of(replace(night, labels=every_stage))
    return tuple(form for form in formats() if form.does("write") and _can_hold(form, short))


def _can_hold(form: FileFormat, night: Outgoing) -> bool:
    assert form.write is not None
    try:
        form.write(night, Path(f"night{form.written_suffix}"))  # returns the content, and writes no file
    except StageGuardError:
        return False
    return True
