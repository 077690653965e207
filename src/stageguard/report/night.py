"""One night as one HTML file that needs nothing else: pictures, measures, words. Writes no files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from stageguard import __version__
from stageguard.agreement import Agreement, agreement
from stageguard.bouts import check_aligned, hypnogram_before, in_scheme
from stageguard.decoded import Decoding
from stageguard.errors import InputError
from stageguard.formats.outputs import REVIEW_SENTENCE
from stageguard.hypnogram import Hypnogram
from stageguard.rare_events import RareEvent, rare_events
from stageguard.report import words
from stageguard.report.agreement_table import agreement_caption, agreement_rows
from stageguard.report.bands_svg import bands_svg
from stageguard.report.hypnogram_svg import expert_name, page_strips
from stageguard.report.ledger_table import ledger_caption, ledger_counts, ledger_intro, ledger_rows, marks_of
from stageguard.report.numbers import count, difference, duration, shown
from stageguard.report.profile_words import caution_rows, provenance_rows, settings_rows, version_rows
from stageguard.report.statistics_table import absent_reasons, statistic_groups
from stageguard.report.svg import printable
from stageguard.report.validity_table import (
    band_rows,
    band_sources,
    bands_sentence,
    indicator_rows,
    reasons_of,
)
from stageguard.statistics import SleepStatistics, sleep_statistics
from stageguard.validity import Validity, validity

if TYPE_CHECKING:
    import jinja2

    from stageguard._day import Moment


@dataclass(frozen=True, slots=True)
class Measured:
    """All measures of one night, before and after, and of the expert's where there is one."""

    statistics: dict[str, SleepStatistics]
    validity: dict[str, Validity]
    agreement: tuple[Agreement, Agreement] | None
    events: tuple[RareEvent, ...]


@dataclass(frozen=True, slots=True)
class Tile:
    """A number worth seeing first."""

    name: str
    value: str
    detail: str


def night_report(
    decoding: Decoding,
    *,
    expert: Hypnogram | None = None,
    title: str | None = None,
    lights_off: Moment | None = None,
    lights_on: Moment | None = None,
) -> str:
    """Return a complete HTML page about one decoded night.

    Parameters
    ----------
    decoding : Decoding
        The night.
    expert : Hypnogram, optional
        A scoring of the same epochs to compare with; finer stages are merged.
    title : str, optional
        Headline; by default the source of the probabilities.
    lights_off, lights_on : int, float, timedelta, datetime or str, optional
        When time in bed begins and ends, as in `stageguard.sleep_statistics`.

    Returns
    -------
    str
        HTML with its pictures and style inside; no scripts, nothing loaded from elsewhere. The same night
        gives the same text.
    """
    if not isinstance(decoding, Decoding):
        raise InputError(
            f"the night is a {type(decoding).__name__}, expected a Decoding: report what decode() returned."
        )
    if expert is not None:
        check_aligned(expert, decoding.hypnogram)
        expert = in_scheme(expert, decoding.hypnogram.scheme)
    lights = {"lights_off": lights_off, "lights_on": lights_on}
    measured = _measure(decoding, expert, lights)
    context = {
        "title": title if title is not None else (decoding.source or "A night"),
        "version": __version__,
        "review": REVIEW_SENTENCE,
        "expert_title": "" if expert is None else expert_name(expert).capitalize(),
        **_summary(decoding, expert, measured),
        **_pictures(decoding, expert, measured, lights),
        **_tables(decoding, expert, measured),
        **_origin(decoding),
    }
    return _templates().get_template("night.html.j2").render(context)


def _measure(decoding: Decoding, expert: Hypnogram | None, lights: dict[str, Any]) -> Measured:
    before = hypnogram_before(decoding)
    nights: dict[str, Decoding | Hypnogram] = {"before": before, "after": decoding}
    if expert is not None:
        nights[expert_name(expert)] = expert
    agreed = None if expert is None else (agreement(expert, before), agreement(expert, decoding))
    return Measured(
        {column: sleep_statistics(night, **lights) for column, night in nights.items()},
        {column: validity(night, decoding.profile) for column, night in nights.items()},
        agreed,
        tuple(rare_events(decoding)),
    )


def _expert_of(measured: dict[str, Any]) -> Any:
    """Return what was measured on the expert's scoring, the third column, or None."""
    return next(iter([value for column, value in measured.items() if column not in ("before", "after")]), None)


def _summary(decoding: Decoding, expert: Hypnogram | None, measured: Measured) -> dict[str, Any]:
    rows = band_rows(measured.validity["before"], measured.validity["after"], None)
    sentences = [words.summary(decoding), *words.unscored_words(decoding), bands_sentence(rows)]
    if measured.agreement is not None and expert is not None:
        own, now = measured.agreement
        sentences.append(
            f"Agreement with the {expert_name(expert)}: κ {shown(own.kappa, 2)} before, {shown(now.kappa, 2)} after."
        )
    return {
        "facts": tuple(_facts(decoding)),
        "headline": words.headline(decoding),
        "summary": tuple(sentence for sentence in sentences if sentence),
        "tiles": tuple(_tiles(decoding, measured)),
        "warnings": tuple(words.warnings_of(decoding)),
    }


def _facts(decoding: Decoding) -> Iterator[str]:
    hypnogram = decoding.hypnogram
    if hypnogram.start is not None:
        yield f"starts {hypnogram.start:%Y-%m-%d %H:%M:%S}"
    yield duration(hypnogram.n_epochs * hypnogram.epoch_seconds)
    yield f"{count(hypnogram.n_epochs, 'epoch')} of {hypnogram.epoch_seconds:g} s"
    yield f"stages {' '.join(hypnogram.scheme.names)}"
    yield f"profile {decoding.profile.name}"
    if decoding.cohort:
        yield f"cohort {decoding.cohort}"


def _tiles(decoding: Decoding, measured: Measured) -> Iterator[Tile]:
    n_changed, n_scored = int(np.count_nonzero(decoding.changed)), int(np.count_nonzero(decoding.argmax >= 0))
    yield Tile("Epochs changed", f"{100 * decoding.changed_share:.1f} %", f"{n_changed:,} of {n_scored:,}")
    own, now = (measured.validity[column].indicators["transitions_per_hour"] for column in ("before", "after"))
    band = f"experts {now.low:.0f} to {now.high:.0f}" if now.low == now.low else "no expert band"
    yield Tile("Stage changes per hour", f"{shown(own.value, 1)} → {shown(now.value, 1)}", band)
    before, after = measured.statistics["before"], measured.statistics["after"]
    change = difference(after.tst_minutes, before.tst_minutes, 1)
    yield Tile("Total sleep time", _hours(after.tst_minutes), f"{change} min by decoding")
    if measured.agreement is not None:
        first, second = (f"{a.kappa:.2f}" for a in measured.agreement)
        column = next(reversed(measured.statistics))
        yield Tile(f"Agreement with the {column}", f"κ {first} → {second}", "1 is perfect, 0 is chance")
        return
    cells = (shown(before.waso_minutes, 1), shown(after.waso_minutes, 1))
    yield Tile("Wake after sleep onset", f"{cells[0]} → {cells[1]}", "min")


def _hours(minutes: float) -> str:
    return duration(60 * minutes) if minutes == minutes else "–"


def _pictures(
    decoding: Decoding, expert: Hypnogram | None, measured: Measured, lights: dict[str, Any]
) -> dict[str, Any]:
    from markupsafe import Markup

    after = measured.statistics["after"]
    given = (("lights_off", after.lights_off_epoch), ("lights_on", after.lights_on_epoch))
    moments = [(float(epoch), key.replace("_", " ")) for key, epoch in given if lights[key] is not None]
    strips = page_strips(decoding, expert, marks=marks_of(measured.events), lights=moments)
    rows = band_rows(
        measured.validity["before"], measured.validity["after"], _expert_of(measured.validity)
    )
    name = None if expert is None else expert_name(expert)
    return {
        # escaped where they are drawn
        "strips": tuple(Markup(strip) for strip in strips),
        "bands_picture": Markup(bands_svg(rows, expert_name=name)) if rows else "",
        "has_gaps": bool((decoding.argmax < 0).any()),
    }


def _tables(decoding: Decoding, expert: Hypnogram | None, measured: Measured) -> dict[str, Any]:
    valid, statistics = measured.validity, measured.statistics
    agreed = measured.agreement
    name = "" if expert is None else expert_name(expert)
    assumed = "; ".join(statistics["after"].assumed)
    return {
        "indicators": indicator_rows(valid["before"], valid["after"], _expert_of(valid)),
        "indicator_reasons": reasons_of(valid),
        "band_sources": band_sources(decoding.profile),
        "validity_notes": tuple(words.band_notes(decoding, valid["after"])),
        "agreement_rows": () if agreed is None else tuple(agreement_rows(*agreed)),
        "agreement_caption": "" if agreed is None else agreement_caption(agreed[1], name),
        "statistics_caption": f"Convention aasm: REM latency counts from sleep onset. {assumed}".strip(),
        "statistic_groups": statistic_groups(statistics["before"], statistics["after"], _expert_of(statistics)),
        "statistic_reasons": absent_reasons(statistics),
        "ledger": ledger_rows(decoding, measured.events),
        "ledger_counts": ledger_counts(measured.events),
        "ledger_intro": ledger_intro(decoding, measured.events),
        "ledger_caption": ledger_caption(measured.events),
    }


def _origin(decoding: Decoding) -> dict[str, Any]:
    profile = decoding.profile
    return {
        "strength": str(decoding.strength),
        "assumed": decoding.assumed,
        "advice": decoding.advice(),
        "profile": profile,
        "cautions": caution_rows(profile),
        "settings": tuple(settings_rows(profile)),
        "provenance": tuple(provenance_rows(profile.provenance)),
        "methods": decoding.methods_text(),
        "versions": tuple(version_rows(decoding)),
    }


@cache
def _templates() -> jinja2.Environment:
    import jinja2

    folder = files("stageguard.report") / "templates"
    return jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: (folder / name).read_text("utf-8")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown_text,
    )


def _shown_text(value: object) -> object:
    """Drop what a page cannot hold from text; pictures are clean already."""
    return printable(value) if type(value) is str else value
