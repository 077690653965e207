"""Read untrusted XML (no entities) and scored events in it, and write XML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stageguard.files import file_error, open_file
from stageguard.formats.night import Event
from stageguard.formats.tables.table import as_number

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


def read_xml(path: Path, root: str) -> Element:
    """Return the root element of a file, which must have the name `root`."""
    from xml.etree.ElementTree import ParseError

    from defusedxml import DefusedXmlException  # type: ignore[import-untyped]
    from defusedxml.ElementTree import parse  # type: ignore[import-untyped]

    try:
        with open_file(path) as file:
            element: Element = parse(file).getroot()
    except DefusedXmlException:
        raise file_error(
            path, "defines XML entities, which scorings do not need and attacks do. Remove its DOCTYPE."
        ) from None
    except (ParseError, LookupError, ValueError) as error:
        raise file_error(path, f"is not readable XML ({error}). Was it copied completely?") from None
    if local_name(element) != root:
        raise file_error(path, f"is XML that begins with <{local_name(element)}>, expected <{root}>.")
    return element


def local_name(element: Element) -> str:
    """Return an element's name without its namespace."""
    return str(element.tag).rpartition("}")[2]


def children(element: Element, name: str) -> Iterator[Element]:
    """Yield the children with a name, whatever their namespace."""
    return (child for child in element if local_name(child) == name)


def text_of(element: Element, name: str) -> str | None:
    """Return the stripped text of the first child with a name, or None."""
    child = next(children(element, name), None)
    return None if child is None else (child.text or "").strip()


def epoch_length(path: Path, element: Element) -> float | None:
    """Return the seconds in <EpochLength>, or None without it."""
    text = text_of(element, "EpochLength")
    if not text:
        return None
    seconds = as_number(text) or 0.0
    if seconds <= 0:
        raise file_error(path, f"has an <EpochLength> of {text[:40]!r}, expected seconds above 0.")
    return seconds


def xml_document(
    root: str, head: Mapping[str, str], lists: Mapping[str, tuple[str, Sequence[str | Mapping[str, str]]]]
) -> str:
    """Return an XML document: single texts, then lists of elements that hold a text, or texts by name."""
    from xml.etree.ElementTree import Element, SubElement, indent, tostring

    top = Element(root)
    for name, text in head.items():
        SubElement(top, name).text = _legal(text)
    for name, (each, items) in lists.items():
        parent = SubElement(top, name)
        for item in items:
            child = SubElement(parent, each)
            if isinstance(item, str):
                child.text = _legal(item)
            else:
                for key, text in item.items():
                    SubElement(child, key).text = _legal(text)
    indent(top)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(top, encoding="unicode") + "\n"


def _legal(text: str) -> str:
    """Return a text without the control characters that XML cannot hold."""
    return "".join(c for c in text if c.isprintable() or c in "\t\n")


def scored_event(event: Element, text: str, kind: str = "") -> Event:
    """Return an annotation from an element with <Start> and <Duration> in seconds."""
    onset, seconds = (as_number(text_of(event, name) or "") for name in ("Start", "Duration"))
    return Event(onset or 0.0, seconds or None, text, kind)


def details_of(event: Element, known: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return the other entries of an event, such as the lowest oxygen saturation."""
    entries = ((local_name(child), (child.text or "").strip()) for child in event)
    return tuple((name, text) for name, text in entries if name not in known and text)
