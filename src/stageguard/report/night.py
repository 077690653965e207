"""One night as one HTML file that needs nothing else: pictures, measures, words."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stageguard.base.errors import InputError
from stageguard.base.files import read_text
from stageguard.base.version import __version__
from stageguard.formats.outputs import REVIEW_SENTENCE
from stageguard.guard.decoding import Decoding
from stageguard.guard.explain import explain
from stageguard.measures.statistics import StatisticsOptions
from stageguard.night.hypnogram import Hypnogram
from stageguard.report import profile_words, tables, validity_table, words
from stageguard.report.bands_svg import bands_svg
from stageguard.report.hypnogram_svg import page_strips
from stageguard.report.measures import Measured, aligned, measure
from stageguard.report.numbers import arrowed, sentence
from stageguard.report.statistics_table import (
    absent_reasons,
    interval_notes,
    interval_title,
    night_intervals,
    phase_rows,
    statistic_groups,
)
from stageguard.report.svg import printable

if TYPE_CHECKING:
    import jinja2

    from stageguard.measures.day import Moment


def night_report(
    decoding: Decoding,
    *,
    expert: Hypnogram | None = None,
    title: str | None = None,
    lights_off: Moment | None = None,
    lights_on: Moment | None = None,
    lights_on_phase: str | None = None,
    notes: Sequence[str] = (),
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
    lights_off, lights_on : float, timedelta, datetime or str, optional
        When time in bed begins and ends, as in `stageguard.sleep_statistics`.
    lights_on_phase : str, optional
        For rodents: when the lights of a 12 h : 12 h cycle go on, such as ``"07:00"``.
    notes : sequence of str
        What was assumed or ignored while reading, shown with the decoding's own assumptions.

    Returns
    -------
    str
        HTML with its pictures and style inside; no scripts, nothing loaded from elsewhere. The same night
        gives the same text.
    """
    if not isinstance(decoding, Decoding):
        raise InputError(
            f"the night is a {type(decoding).__name__}, expected a Decoding. Report what decode() returned."
        )
    expert = None if expert is None else aligned(expert, decoding)
    options = StatisticsOptions(lights_off=lights_off, lights_on=lights_on, lights_on_phase=lights_on_phase)
    measured = measure(decoding, expert, options)
    context = {
        "title": title if title is not None else (decoding.source or "A night"),
        "version": __version__,
        "review": REVIEW_SENTENCE,
        "expert_title": "" if measured.expert is None else measured.expert.name.capitalize(),
        "facts": tuple(words.facts(decoding)),
        "noun": words.noun(decoding),
        "headline": words.headline(decoding),
        "summary": tuple(words.summary(decoding, measured)),
        "tiles": tuple(words.tiles(decoding, measured)),
        "warnings": tuple(words.warnings_of(decoding)),
        **_pictures(decoding, expert, measured, options),
        **_tables(decoding, measured, options),
        **_origin(decoding, notes),
    }
    return _templates().get_template("night.html.j2").render(context)


def _pictures(
    decoding: Decoding, expert: Hypnogram | None, measured: Measured, options: StatisticsOptions
) -> dict[str, Any]:
    from markupsafe import Markup

    statistics = measured.after.statistics
    moments = []
    if options.lights_off is not None:
        moments.append((statistics.lights_off_epoch, "lights off"))
    if options.lights_on is not None:
        moments.append((statistics.lights_on_epoch, "lights on"))
    zeitgeber = statistics.zeitgeber
    if zeitgeber is not None:  # counted from the start of time in bed
        zeitgeber -= statistics.lights_off_epoch * decoding.epoch_seconds
    marks = tables.marks_of(measured.events)
    strips = page_strips(decoding, expert, marks=marks, lights=moments, zeitgeber=zeitgeber)
    rows = validity_table.band_rows(measured)
    scored = measured.expert
    compared = None if scored is None or scored.validity is None else scored.name
    return {
        # both are escaped where they are drawn
        "strips": tuple(Markup(strip) for strip in strips),
        "bands_picture": Markup(bands_svg(rows, expert_name=compared)) if rows else "",
        "has_gaps": bool((decoding.argmax < 0).any()),
    }


def _tables(decoding: Decoding, measured: Measured, options: StatisticsOptions) -> dict[str, Any]:
    agreed, events = measured.agreement, measured.events
    changes, intervals = explain(decoding), night_intervals(decoding, options)
    return {
        "indicators": validity_table.indicator_rows(measured),
        "indicator_reasons": validity_table.indicator_reasons(measured),
        "band_sources": validity_table.band_sources(decoding.profile),
        "validity_notes": (
            *words.band_notes(decoding, measured.after.validity),
            *validity_table.minimum_words(measured),
        ),
        "agreement_rows": () if agreed is None else tuple(tables.agreement_rows(*agreed)),
        "agreement_caption": ""
        if agreed is None
        else tables.agreement_caption(agreed[1], decoding.profile.scheme),
        "columns": tuple(column.name.capitalize() for column in measured.columns),
        "statistics_caption": words.statistics_caption(decoding, options, measured.after.statistics.assumed),
        "statistic_groups": statistic_groups(measured, intervals),
        "interval_title": interval_title(intervals),
        "interval_notes": tuple(interval_notes(decoding, intervals, measured.after.statistics)),
        "statistic_reasons": absent_reasons(measured),
        "phases": phase_rows(measured),
        "ledger": tables.ledger_rows(decoding, events),
        "ledger_counts": tables.ledger_counts(events),
        "ledger_intro": tables.ledger_intro(decoding, events),
        "ledger_caption": tables.ledger_caption(events),
        "changes": tables.change_rows(decoding, changes),
        "changes_intro": tables.changes_intro(changes),
        "changes_caption": tables.changes_caption(changes),
    }


def _origin(decoding: Decoding, notes: Sequence[str]) -> dict[str, Any]:
    profile = decoding.profile
    return {
        "strength": arrowed(str(decoding.strength)),
        "assumed": tuple(dict.fromkeys(map(sentence, (*notes, *decoding.assumed)))),
        "advice": tuple(map(arrowed, decoding.advice())),
        "profile": profile,
        "cautions": profile_words.caution_rows(profile),
        "settings": tuple(profile_words.settings_rows(profile)),
        "provenance": tuple(profile_words.provenance_rows(profile.provenance)),
        "methods": decoding.methods_text(),
        "versions": tuple(profile_words.version_rows(decoding)),
    }


@cache
def _templates() -> jinja2.Environment:
    import jinja2

    folder = Path(__file__).with_name("templates")
    return jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: read_text(folder / name, "text")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_page_text,
    )


def _page_text(value: object) -> object:
    """Drop from text what a page cannot hold; pictures are clean already."""
    return printable(value) if type(value) is str else value
