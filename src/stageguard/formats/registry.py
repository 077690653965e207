"""All file formats, collected from `FORMATS` in each module of `tools`, and from other packages.

A new format is one module there, and one test; or an entry point of another package.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path

from stageguard import checks
from stageguard.errors import (
    FileFormatError,
    InputError,
    InstallationWarning,
    did_you_mean,
    fault_text,
    warn,
)
from stageguard.files import file_error
from stageguard.formats import sniffing
from stageguard.formats.file_format import FileFormat, Kind
from stageguard.formats.outputs import OWN_HEAD
from stageguard.formats.outputs import is_own_table as has_own_columns
from stageguard.formats.tables.probabilities import FORMATS as TABLES
from stageguard.formats.tables.probabilities import stage_of
from stageguard.formats.tables.times import TIMING_COLUMNS

GROUP = "stageguard.formats"  # entry points of other packages: a name and a `FileFormat`
PURPOSES = {"density": "probabilities", "hypnogram": "hypnograms", "write": "writing"}


@cache
def formats() -> tuple[FileFormat, ...]:
    """Return all formats; the first call loads the modules of all tools."""
    from pkgutil import iter_modules  # not needed if `_known_at_sight`

    tools = import_module("stageguard.formats.tools")
    modules = [import_module(f"{tools.__name__}.{each.name}") for each in iter_modules(tools.__path__)]
    built_in = (*TABLES, *(form for module in modules for form in module.FORMATS))
    return (*built_in, *_added({form.name for form in built_in}))


def _added(taken: set[str]) -> list[FileFormat]:
    """Return the formats of other packages; one that is broken is left out, as the others can do without."""
    from importlib.metadata import entry_points  # not needed if `_known_at_sight`

    added: list[FileFormat] = []
    for entry in entry_points(group=GROUP):
        try:
            form = entry.load()
            if not isinstance(form, FileFormat):
                raise TypeError(f"a {type(form).__name__}, expected a FileFormat")
            if form.name in taken:
                raise ValueError(f"there is a format {form.name!r} already")
        except Exception as error:  # whatever importing another package raises
            told = f"format {entry.name!r} of another package is left out ({fault_text(error)})."
            warn(told, InstallationWarning)
            continue
        taken.add(form.name)
        added.append(form)
    return added


def named(name: str, kind: Kind) -> FileFormat:
    """Return the format a caller named; refuse one that cannot be read as this kind, or written."""
    name = checks.text(name, "format")
    able = {form.name: form for form in formats() if form.does(kind)}
    if name in able:
        return able[name]
    known = f"Known for {PURPOSES[kind]}: {', '.join(able)}."
    if any(form.name == name for form in formats()):
        raise InputError(f"format {name!r} is not for {PURPOSES[kind]}. {known}")
    raise InputError(f"unknown format {str(name)[:40]!r}. {known}{did_you_mean(str(name), able)}")


def is_for_stages_alone(name: str | None) -> bool:
    """Whether a caller named a format that holds stages and no probabilities."""
    return name is not None and any(
        form.name == name and form.does("hypnogram") and not form.does("density") for form in formats()
    )


def detect(
    path: Path, kind: Kind, among: Sequence[FileFormat] | None = None, *, name: str | None = None
) -> FileFormat:
    """Return the format that the caller named, else that of a file's content, then of its name.

    An ambiguous file is an error.
    """
    if name is not None:
        return named(name, kind)
    head = sniffing.read_head(path)
    if not head:
        raise file_error(path, "is empty (0 bytes). Was it written completely?")
    known = _known_at_sight(head, path) if among is None and kind == "density" else None
    if known is not None:
        return known
    able = [form for form in (formats() if among is None else among) if form.does(kind)]
    fitting = [form for form in able if form.may_be(kind, head, path)]
    fitting = [form for form in fitting if not form.is_general] or fitting
    by_name = [form for form in able if path.name.lower().endswith(form.suffixes)]
    if len(fitting) > 1:
        fitting = [form for form in fitting if form in by_name] or fitting
    if not fitting:
        likely = [form for form in by_name if form.is_general] or by_name
        likely = likely or [form for form in able if form.is_general]
        expected = " or ".join(form.title for form in likely[:4])
        raise file_error(path, f"holds {sniffing.content(head)}, not {expected}. Convert it first.")
    if len(fitting) > 1:
        choices = "; ".join(f"{form.name} = {form.title}" for form in fitting)
        raise file_error(
            path,
            f"fits {len(fitting)} formats. Name the right one, as in format={fitting[0].name!r}: {choices}.",
            code="ambiguous-format",
        )
    form = fitting[0]
    if form.is_general and head.startswith(sniffing.UTF16_MARKS):
        raise file_error(path, "is UTF-16 text. Save it as UTF-8.")
    return form


def is_own_table(path: Path) -> bool:
    """Whether `decode` wrote a table, whatever its name."""
    try:
        return has_own_columns(sniffing.read_head(path), path)
    except (FileFormatError, OSError):
        return False


def _known_at_sight(head: bytes, path: Path) -> FileFormat | None:
    """Return the format of a table with only stages and times, or None; this saves loading all tools."""
    cells = sniffing.first_row(head)
    is_own = cells[:3] == OWN_HEAD[:3]
    form = TABLES[0]
    if is_own:
        from stageguard.formats.tools.stageguard import STAGE_TABLE

        form = STAGE_TABLE
    stages = [cell for cell in cells[3 * is_own :] if cell not in TIMING_COLUMNS]
    is_table = len(stages) > 1 and all(stage_of(cell) is not None for cell in stages)
    return form if is_table and path.name.lower().endswith(form.suffixes) else None
