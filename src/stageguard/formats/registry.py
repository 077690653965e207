"""Every file format there is: how to know it, who reads it, who writes it, what it cannot carry. Reads none.

The lines are in `_density_formats` and `_hypnogram_formats`. A new format is one module, one line there, one
test and one row of docs/formats.md, which is checked against this table.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from stageguard.base.errors import Argument, FileFormatError, InputError, Message, did_you_mean
from stageguard.base.files import open_file
from stageguard.formats import sniffing as sniffing
from stageguard.formats.density_formats import DENSITY_FORMATS
from stageguard.formats.file_format import FileFormat, Kind
from stageguard.formats.hypnogram_formats import HYPNOGRAM_FORMATS

PURPOSES = {"density": "probabilities", "hypnogram": "hypnograms", "write": "writing"}


def joined(*tables: Sequence[FileFormat]) -> tuple[FileFormat, ...]:
    """Join tables of formats; a format of several tables does what it does in each of them."""
    found: dict[str, FileFormat] = {}
    for form in (form for table in tables for form in table):
        first = found.setdefault(form.name, form)
        if first is not form:
            found[form.name] = _both(first, form)
    return tuple(found.values())


def _both(first: FileFormat, second: FileFormat) -> FileFormat:
    """Return a format that two tables list, for example one for probabilities and one for hypnograms."""
    twice = [kind for kind in get_args(Kind) if first.does(kind) and second.does(kind)]
    assert not twice, f"{first.name}: {twice} in two tables"
    return FileFormat(
        first.name,
        first.title,
        tuple(dict.fromkeys((*first.suffixes, *second.suffixes))),
        first.sniff,
        density=first.density or second.density,
        hypnogram=first.hypnogram or second.hypnogram,
        write=first.write or second.write,
        loses=tuple(
            dict.fromkeys((*first.loses, *(loss for loss in second.loses if loss != "probabilities")))
        ),
        test=", ".join(test for test in (first.test, second.test) if test),
        is_general=first.is_general or second.is_general,
        sniff_hypnogram=second.sniff if second.does("hypnogram") else first.sniff_hypnogram,
    )


FORMATS: tuple[FileFormat, ...] = joined(DENSITY_FORMATS, HYPNOGRAM_FORMATS)


def named(name: str, kind: Kind) -> FileFormat:
    """Return the format a caller named, which must be read as this, or written."""
    able = {form.name: form for form in FORMATS if form.does(kind)}
    if name in able:
        return able[name]
    known = f"Known for {PURPOSES[kind]}: {', '.join(able)}."
    if any(form.name == name for form in FORMATS):
        raise InputError(f"format {name!r} is not for {PURPOSES[kind]}. {known}")
    raise InputError(f"unknown format {str(name)[:40]!r}. {known}{did_you_mean(str(name), able)}")


OWN_TABLE = "stageguard-tsv"  # what `decode` writes


def detect(path: Path, kind: Kind, formats: Sequence[FileFormat] | None = None) -> FileFormat:
    """Return the format of a file: by its content, then by its name; what stays open is an error.

    A name that promises another format than the content is an error too; an unknown name is not.
    """
    with open_file(path, "a recording") as file:
        head = file.read(sniffing.HEAD_BYTES)
    if not head:
        raise _error(path, "is empty (0 bytes). Was it written completely?")
    able = [form for form in (FORMATS if formats is None else formats) if form.does(kind)]
    found = [form for form in able if form.may_be(kind, head, path)]
    found = [form for form in found if not form.is_general] or found
    by_name = [form for form in able if path.name.lower().endswith(form.suffixes)]
    if len(found) > 1:
        found = [form for form in found if form in by_name] or found
    if not found:
        likely = [form for form in by_name if form.is_general] or by_name
        likely = likely or [form for form in able if form.is_general]
        expected = " or ".join(form.title for form in likely[:4])
        raise _error(path, f"holds {_content(head)}, not {expected}. Convert it first.")
    if len(found) > 1:
        choices = [part for form in found for part in (" or ", form.title, " (", _named(form), ")")][1:]
        raise _error(path, Message("may be ", *choices, ". Say which with ", Argument("format"), "."))
    if found[0].is_general and head.startswith(sniffing.UTF16_MARKS):
        raise _error(path, "is UTF-16 text. Save it as UTF-8.")
    if found[0].name == OWN_TABLE:  # says itself what it is, under any name
        return found[0]
    if by_name and found[0] not in by_name and not _like(found[0], by_name):
        hint = " Is it an Excel workbook? Save it as CSV." if head.startswith(b"PK") else ""
        if path.suffix.lower() == ".txt":  # a name that promises no format in particular
            choice = Argument("format", found[0].name)
            raise _error(
                path,
                Message(f"holds {found[0].title}, which is not called .txt. Say ", choice, ", or rename it."),
            )
        raise _error(path, f"holds {found[0].title}, not {by_name[0].title} as its name says.{hint}")
    return found[0]


def chosen(path: Path, kind: Kind, name: str | None) -> FileFormat:
    """Return the format that a caller named, else the one that the content of a file tells."""
    return detect(path, kind) if name is None else named(name, kind)


def is_own_table(path: Path) -> bool:
    """Whether `decode` wrote a table, whatever it is called."""
    try:
        return detect(path, "hypnogram").name == OWN_TABLE
    except (FileFormatError, OSError):
        return False


def _like(found: FileFormat, by_name: Sequence[FileFormat]) -> bool:
    """Whether a name promises nothing against the content: text by any name for text is text."""
    return any(set(found.suffixes) & set(form.suffixes) for form in by_name)


def _content(head: bytes) -> str:
    if sniffing.is_json(head):
        return "JSON of an unknown kind"
    if head.lstrip()[:1] == b"<":
        return f"XML that begins with <{(sniffing.xml_root(head) or '')[:40]}>"
    return sniffing.stranger(head) or "binary data"


def _named(form: FileFormat) -> Argument:
    return Argument("format", form.name)


def _error(path: Path, message: str) -> FileFormatError:
    from stageguard.base.files import file_error

    return file_error(path, message)
