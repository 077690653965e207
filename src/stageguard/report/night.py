"""The report of one night as one self-contained HTML file: pictures, measures, words."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from stageguard import checks
from stageguard.errors import InputError
from stageguard.formats.outputs import REVIEW_SENTENCE
from stageguard.formats.raw_night import Event
from stageguard.guard.decoding import Decoding
from stageguard.guard.explain import explain
from stageguard.measures.bouts import cuts_of, hypnogram_before
from stageguard.measures.grade import GradeCard, require_card
from stageguard.measures.statistics import StatisticsOptions
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.timing import Moment
from stageguard.report import numbers, tables, words
from stageguard.report.guard_words import advice, reason
from stageguard.report.hypnogram_svg import (
    Mark,
    axis_of,
    bins_of,
    event_lanes,
    page_picture,
    script_data,
)
from stageguard.report.marks import marks_words
from stageguard.report.methods import night_methods, provenance_rows, settings
from stageguard.report.page import as_json, render_page
from stageguard.report.pictures import BandRow, bands_svg
from stageguard.report.svg import INK
from stageguard.report.tables import ReportMeasures, align_expert, measure
from stageguard.report.words import change_groups, changes_intro


def night_report(
    decoding: Decoding,
    *,
    expert: Hypnogram | None = None,
    title: str | None = None,
    lights_off: Moment | None = None,
    lights_on: Moment | None = None,
    lights_on_phase: str | None = None,
    annotations: Sequence[Event] = (),
    notes: Sequence[str] = (),
    staging: Sequence[str] = (),
    grade: GradeCard | None = None,
) -> str:
    """Return a complete HTML page about one decoded night.

    Parameters
    ----------
    decoding : Decoding
        The night.
    expert : Hypnogram, optional
        A scoring of the same epochs to compare with; finer stages are merged.
    title : str, optional
        Headline. Default: the source of the probabilities.
    lights_off, lights_on : float, timedelta, datetime or str, optional
        When time in bed begins and ends, as in `stageguard.sleep_statistics`.
    lights_on_phase : str, optional
        For rodents: when the lights of a 12 h : 12 h cycle go on, such as ``"07:00"``.
    annotations : sequence of Event
        Other scored events, such as arousals, drawn below the stages; as returned by
        `stageguard.formats.events.read_events`.
    notes : sequence of str
        Assumptions made while reading, shown with the assumptions of the decoding.
    staging : sequence of str
        Which stager staged which channels, shown below the headline: the notes of `stageguard.stage`.
    grade : GradeCard, optional
        The card of the night's stager and profile, by which its statistics are marked.

    Returns
    -------
    str
        HTML that includes its pictures, style and script, with a policy that allows no others; nothing is
        loaded from elsewhere. The same night gives the same text.

    Examples
    --------
    >>> import stageguard as sg
    >>> night = sg.simulate_night("human-psg-5", hours=2, seed=1)
    >>> page = sg.night_report(sg.decode(night.density, "human-psg-5"), expert=night.expert)
    >>> page[:15]
    '<!DOCTYPE html>'
    """
    if not isinstance(decoding, Decoding):
        raise InputError(
            f"the night is a {type(decoding).__name__}, expected a Decoding. Report what decode() returned."
        )
    if title is not None:
        _check_text(title, "title")
    checks.items(notes, "notes", _check_text)
    checks.items(staging, "staging", _check_text)
    checks.items(annotations, "annotations", _check_event)
    if grade is not None:
        require_card(grade, "grade")
        grade.refuse_other(decoding)
    expert = None if expert is None else align_expert(expert, decoding)
    options = StatisticsOptions(
        lights_off=lights_off,
        lights_on=lights_on,
        lights_on_phase=lights_on_phase,
    )
    measured = measure(decoding, expert, options)
    indicators = tables.indicator_rows(measured)
    context = {
        "title": title if title is not None else (decoding.source or "A night"),
        "contents": tuple(_contents(decoding, measured)),
        "review": REVIEW_SENTENCE,
        "decoding": decoding,
        "measured": measured,
        "indicators": indicators,
        "measured_part": words.measured_part(decoding, options),
        "expert_title": "" if measured.expert is None else measured.expert.name.capitalize(),
        "facts": words.facts(decoding),
        "staging": tuple(map(numbers.sentence, staging)),
        "noun": words.noun(decoding),
        "headline": words.headline(decoding),
        "summary": words.summary(decoding, measured),
        "tiles": words.tiles(decoding, measured),
        "warnings": tuple(words.warnings_of(decoding, measured)),
        **_pictures(decoding, expert, measured, options, annotations),
        **_bands(measured, indicators),
        **_tables(decoding, expert, measured, options, grade),
        "assumed": dict.fromkeys(map(numbers.sentence, (*notes, *decoding.assumed))),
        "advice": advice(decoding),
        "profile": decoding.profile,
        "settings": settings(decoding.profile),
        "provenance": tuple(provenance_rows(decoding.profile.provenance)),
        "strength": reason(decoding.strength),
        "methods": night_methods(decoding, options.lights),
        "versions": _versions(decoding),
    }
    return render_page("night.html.j2", context, script="night.js", saves_pictures=True)


def _check_text(value: object, where: str) -> None:
    if not isinstance(value, str):  # of any characters: a page shows what is not printable, too
        raise InputError(f"{where} is {checks.shown(value)}, expected a text.")


def _check_event(value: object, where: str) -> None:
    if not (hasattr(value, "onset") and hasattr(value, "seconds") and hasattr(value, "text")):
        raise InputError(f"{where} is {checks.shown(value)}, expected an Event, as read_events returns it.")


def _contents(decoding: Decoding, measured: ReportMeasures) -> Iterator[tuple[str, str]]:
    """Yield the id and the name of each section."""
    yield "summary", "Summary"
    yield "night", f"The {words.noun(decoding)}"
    yield "validity", "Like expert scoring?"
    if measured.agreement is not None:
        yield "agreement", "Agreement"
    yield "statistics", "Sleep statistics"
    yield "transitions", "Transitions"
    yield "changes", "What was changed"
    yield "events", "Rare events"
    yield "strength", "Strength, assumptions"
    yield "profile", "The profile"
    yield "methods", "Methods, versions"


def _pictures(
    decoding: Decoding,
    expert: Hypnogram | None,
    measured: ReportMeasures,
    options: StatisticsOptions,
    annotations: Sequence[Event],
) -> dict[str, Any]:
    from markupsafe import Markup

    statistics = measured.after.statistics
    first = statistics.lights_off_epoch
    moments = []
    if options.lights_off is not None:
        moments.append((first, "lights off"))
    if options.lights_on is not None:
        moments.append((statistics.lights_on_epoch, "lights on"))
    zeitgeber = statistics.zeitgeber
    if zeitgeber is not None:  # it counts from the start of time in bed
        zeitgeber -= first * decoding.epoch_seconds
    fates = [(event.epoch, event.fate) for event in measured.events]
    marks = [Mark(epoch, "lost" if fate == "partly removed" else fate) for epoch, fate in fates]
    cycles = [(first + begins, first + ends) for begins, ends in statistics.cycle_epochs]
    lanes = event_lanes(annotations, decoding.hypnogram)
    svg, picture = page_picture(
        decoding,
        expert,
        marks=marks,
        events=lanes,
        cycles=cycles,
        quality=decoding.night.quality,
        lights=moments,
        zeitgeber=zeitgeber,
    )
    axis = axis_of(decoding.hypnogram)
    return {
        "picture": Markup(svg),  # already escaped
        "data": as_json(script_data(picture, axis)),
        "ink": INK,
        "is_binned": bins_of(axis) is not None,
        "has_gaps": bool((decoding.argmax < 0).any()),
        "cycles": cycles,
        "events": lanes,
    }


def _bands(measured: ReportMeasures, indicators: Sequence[BandRow]) -> dict[str, Any]:
    from markupsafe import Markup

    banded = [row for row in (tables.joint_row(measured), *indicators) if row is not None and row.has_band]
    scored = measured.expert
    compared = None if scored is None or scored.validity is None else scored.name
    return {
        # already escaped
        "bands_picture": Markup(bands_svg(banded, expert_name=compared)) if banded else "",
        "indicator_reasons": tables.indicator_reasons(measured, indicators),
    }


def _tables(
    decoding: Decoding,
    expert: Hypnogram | None,
    measured: ReportMeasures,
    options: StatisticsOptions,
    card: GradeCard | None,
) -> dict[str, Any]:
    agreed, events, statistics = measured.agreement, measured.events, measured.after.statistics
    changes, intervals = explain(decoding), tables.night_intervals(decoding, options)
    groups = tables.statistic_groups(measured, intervals, decoding.steered, card)
    scorings = [("Before", hypnogram_before(decoding)), ("After", decoding.hypnogram)]
    if expert is not None and measured.expert is not None:
        scorings.append((measured.expert.name.capitalize(), expert))
    grouped = change_groups(changes, decoding.profile.scheme, decoding.epoch_seconds)
    bands, joint = decoding.profile.bands.values(), decoding.profile.joint
    return {
        "verdict": words.verdict(decoding, measured),
        "joint_source": "" if joint is None else joint.source,
        "band_sources": dict.fromkeys(band.source for band in bands if band.source),
        "validity_notes": (
            *words.band_notes(decoding, measured.after.validity),
            *tables.minimum_words(measured),
        ),
        "agreement_rows": () if agreed is None else tuple(tables.agreement_rows(*agreed)),
        "agreement_caption": ""
        if agreed is None
        else tables.agreement_caption(agreed[1], decoding.profile.scheme),
        "confusions": () if agreed is None else tuple(tables.confusion_tables(*agreed)),
        "statistics_caption": words.statistics_caption(decoding, options, statistics.assumed),
        "statistic_groups": groups,
        "has_grades": card is not None,
        "grade_note": numbers.sentence(marks_words(card)),
        "interval_title": tables.interval_title(intervals),
        "interval_notes": tables.interval_notes(decoding, intervals),
        "statistic_notes": tables.statistic_notes(groups, measured, decoding.steered),
        "statistic_reasons": tables.statistic_reasons(measured),
        "ledger": tables.ledger(events),
        "n_events": Counter((event.kind, event.fate) for event in events),
        "ledger_intro": tables.ledger_intro(decoding, events),
        "transitions": tuple(tables.transition_matrices(scorings, cuts_of(decoding))),
        "changes": grouped,
        "n_left_out": len(changes) - sum(len(group.rows) for group in grouped),
        "changes_intro": changes_intro(changes, decoding.n_ties),
    }


def _versions(decoding: Decoding) -> Iterator[tuple[str, str]]:
    """Yield versions, options and hashes, which are needed to reproduce the night."""
    provenance = decoding.provenance()
    yield "StageGuard", f"{provenance['stageguard']}, {provenance['core']} core"
    yield "NumPy, Python", f"{provenance['numpy']}, {provenance['python']}"
    for name, value in provenance["options"].items():
        if value is not None:
            yield name.replace("_", " "), f"{value:g}" if isinstance(value, float) else str(value)
    if decoding.source:
        yield "source", decoding.source
    yield "SHA-256 of the profile", provenance["profile_sha256"]
    probabilities = np.ascontiguousarray(decoding.density.probabilities, "<f8").tobytes()
    yield "SHA-256 of the probabilities (float64)", hashlib.sha256(probabilities).hexdigest()
    labels = np.ascontiguousarray(decoding.hypnogram.labels).tobytes()
    yield "SHA-256 of the decoded labels (int8)", hashlib.sha256(labels).hexdigest()
