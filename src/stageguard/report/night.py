"""The report of one night as one self-contained HTML file: what to report, pictures, measures."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from math import isnan
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from stageguard import checks
from stageguard.errors import InputError
from stageguard.formats.night import Event
from stageguard.formats.outputs import REVIEW_SENTENCE
from stageguard.formats.read import night_name
from stageguard.guard.decoding import Decoding
from stageguard.guard.explain import Change, explain
from stageguard.measures.bouts import cuts_of, hypnogram_before
from stageguard.measures.grade import GradeCard, require_card
from stageguard.measures.intervals import Intervals
from stageguard.measures.statistics import LONGEST_NIGHT_HOURS, StatisticsOptions, lights_words
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.quantities import EARLY_WORDS, quantity_of
from stageguard.night.timing import Moment
from stageguard.profile.profile import Profile
from stageguard.report import numbers, tables, words
from stageguard.report.hypnogram_svg import (
    Mark,
    axis_of,
    event_lanes,
    expert_name,
    page_picture,
    script_data,
)
from stageguard.report.methods import night_methods
from stageguard.report.numbers import count, duration, number_text
from stageguard.report.page import as_json, render_page
from stageguard.report.pictures import band_svg
from stageguard.report.summary import interval_title, night_intervals
from stageguard.report.tables import ReportMeasures, align_expert, measure

TILES = ("tst_minutes", "sol_minutes", "rem_latency_minutes", "waso_minutes")
MOST_CHANGES = 4_000  # listed on a page; of more, those with the largest margin
MOST_EVENTS = 150  # a mouse's day can have hundreds; events that decoding lost or made take precedence


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
        Headline. Default: the name of the night, from the file of its probabilities.
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
    options = StatisticsOptions(lights_off=lights_off, lights_on=lights_on, lights_on_phase=lights_on_phase)
    measured, intervals = measure(decoding, expert, options), night_intervals(decoding, options)
    profile, valid = decoding.profile, measured.valid[1]
    changes, joint, agreed = explain(decoding), profile.joint, measured.agreement
    scorings = [("Stager", hypnogram_before(decoding)), ("Guarded", decoding.hypnogram)]
    scorings += [] if expert is None else [(expert_name(expert).capitalize(), expert)]
    grouped = change_groups(changes, decoding)
    context = {
        "title": title if title is not None else night_title(decoding),
        "review": REVIEW_SENTENCE,
        "decoding": decoding,
        "measured": measured,
        "noun": noun(decoding),
        "facts": facts(decoding),
        "staging": tuple(map(numbers.sentence, staging)),
        "verdict": words.verdict_words(valid),
        "summary": tuple(_summary(decoding, measured, has_intervals=intervals is not None)),
        "tiles": tuple(tiles(measured, intervals, profile)),
        "warnings": tuple(words.warnings_of(decoding, valid, measured.hinges)),
        **_pictures(decoding, expert, measured, options, annotations),
        **_statistics(decoding, measured, options, grade, intervals),
        **_validity(measured),
        "expert_title": "" if measured.expert is None else measured.expert.name.capitalize(),
        "measured_part": measured_part(decoding, options),
        "joint_source": "" if joint is None else joint.source,
        "band_sources": dict.fromkeys(band.source for band in profile.bands.values() if band.source),
        "agreement_rows": () if agreed is None else tuple(tables.agreement_rows(*agreed)),
        "agreement_caption": "" if agreed is None else tables.agreement_caption(agreed[1], profile.scheme),
        "confusions": [
            tables.matrix(name, each.scheme.names, each.confusion)
            for (name, _), each in zip(scorings, agreed or (), strict=False)
        ],
        "transitions": tables.transition_matrices(scorings, cuts_of(decoding)),
        "changes": grouped,
        "changes_words": words.kinds_words(changes, decoding.epoch_seconds) if changes else "none",
        "n_left_out": max(0, len(changes) - MOST_CHANGES),
        "watched": words.watched_words(decoding, measured.events),
        # of very many, those that decoding lost or made
        "events": sorted(
            sorted(measured.events, key=lambda event: event.fate == "kept")[:MOST_EVENTS],
            key=lambda event: (event.epoch, event.kind),
        ),
        "assumed": dict.fromkeys(map(numbers.sentence, (*notes, *decoding.assumed))),
        "advice": words.advice(decoding),
        "profile": profile,
        "methods": night_methods(decoding, options.lights),
        "versions": _versions(decoding),
    }
    return render_page("night.html.j2", context, script="night.js", saves_pictures=True)


def _check_text(value: object, where: str) -> None:
    if not isinstance(value, str):  # of any characters: a page shows what is not printable, too
        raise InputError(f"{where} is {checks.shown(value)}, expected a text.")


def _check_event(value: object, where: str) -> None:
    if not isinstance(value, Event):
        raise InputError(f"{where} is {checks.shown(value)}, expected an Event, as read_events returns it.")


def noun(decoding: Decoding) -> str:
    """Return "night" or, for a long one, "recording"."""
    hours = decoding.hypnogram.n_epochs * decoding.epoch_seconds / 3600
    return "night" if hours < LONGEST_NIGHT_HOURS else "recording"


def night_title(decoding: Decoding) -> str:
    """Return what a night is called: by its file, without folder and suffixes."""
    name = PurePath(decoding.source or "").name.removesuffix(".gz")
    return night_name(Path(name)) if name else f"{noun(decoding).capitalize()} without a name"


def facts(decoding: Decoding) -> Iterator[str]:
    """Yield facts about the recording."""
    hypnogram = decoding.hypnogram
    if hypnogram.start is not None:
        yield f"starts {hypnogram.start:%Y-%m-%d %H:%M:%S}"
    yield duration(hypnogram.n_epochs * hypnogram.epoch_seconds)
    yield f"{count(hypnogram.n_epochs, 'epoch')} of {hypnogram.epoch_seconds:g} s"
    yield f"stages {' '.join(hypnogram.scheme.names)}"
    yield f"profile {decoding.profile.name}"
    if decoding.cohort:
        yield f"cohort {decoding.cohort}"


def _summary(decoding: Decoding, measured: ReportMeasures, *, has_intervals: bool) -> Iterator[str]:
    """Yield what was done, what to report, and what not."""
    yield words.done_words(decoding)
    yield words.report_words(
        measured.valid[1].looks_like_experts,
        decoding.n_changed,
        is_cautioned=words.is_cautioned(decoding),
        has_intervals=has_intervals,
    )
    if decoding.n_ties:
        yield f"{words.ties_words(decoding.n_ties)}."
    yield from words.unscored_words(decoding)
    yield from words.steering_words(decoding.steered)
    if measured.agreement is not None and measured.expert is not None:
        before, after = (agreement.kappa for agreement in measured.agreement)
        yield words.kappa_words(before, after, measured.expert.name)


def tiles(
    measured: ReportMeasures, intervals: Intervals | None, profile: Profile
) -> Iterator[tuple[str, str, str]]:
    """Yield name, value, and the stager's own value with the interval of the numbers reported most."""
    before, after = measured.before.statistics, measured.after.statistics
    for key in TILES:
        quantity, was, now = quantity_of(key), getattr(before, key), getattr(after, key)
        if isnan(was) and isnan(now) and profile.species != "human":
            continue  # statistics of human nights
        unit = "" if isnan(now) else f" {quantity.short_unit}"
        detail = "as the stager" if was == now else f"stager: {number_text(was, quantity.decimals)}"
        ends = tables.interval_of(intervals, key, quantity.decimals)
        if isnan(was) and isnan(now):
            detail = after.reasons.get(key, detail)
        detail += f" · {interval_title(intervals)} {ends}" if intervals and ends else ""
        yield quantity.title, f"{number_text(now, quantity.decimals)}{unit}", detail


def measured_part(decoding: Decoding, options: StatisticsOptions) -> str:
    """Return which part of the recording the indicators are of."""
    part = "sleep period" if decoding.profile.measures_sleep_period else "recording"
    if options.lights != (None, None):
        return f"{part} between lights"
    return part if decoding.profile.measures_sleep_period else "whole recording"


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
    cycles = [(first + begins, first + ends) for begins, ends in statistics.cycle_epochs]
    lanes = event_lanes(annotations, decoding.hypnogram)
    svg = page_picture(
        decoding,
        expert,
        marks=[Mark(epoch, "lost" if fate == "partly removed" else fate) for epoch, fate in fates],
        events=lanes,
        cycles=cycles,
        quality=decoding.night.quality,
        lights=moments,
        zeitgeber=zeitgeber,
    )
    axis = axis_of(decoding.hypnogram)
    return {
        "picture": Markup(svg),  # already escaped
        "data": as_json(script_data(axis)),
        "is_binned": axis.bins is not None,
        "has_gaps": bool((decoding.argmax < 0).any()),
        "cycles": cycles,
        "annotations": lanes,
    }


def _statistics(
    decoding: Decoding,
    measured: ReportMeasures,
    options: StatisticsOptions,
    card: GradeCard | None,
    intervals: Intervals | None,
) -> dict[str, Any]:
    groups = tables.statistic_groups(decoding, measured, intervals, card)
    flags = {row.flag for rows in groups.values() for row in rows}
    lights = lights_words(decoding.hypnogram, *options.lights)
    caption = [
        "AASM definitions: REM latency counts from sleep onset; unscored is neither sleep nor wake",
        f"A lasting bout of REM is one of {options.min_first_rem_seconds:g} s or more",
        *([lights.capitalize(), "Agreement and rare events are of the whole recording"] if lights else []),
        *measured.after.statistics.assumed,
    ]
    notes = [
        tables.coverage_words(measured),
        EARLY_WORDS if "early" in flags else "",
        words.marks_words(card),
        *tables.interval_notes(decoding, intervals),
    ]
    return {
        "statistics_caption": ". ".join(caption) + ".",
        "statistic_groups": groups,
        "has_grades": card is not None,
        "interval_title": "" if intervals is None else interval_title(intervals),
        "statistic_notes": [numbers.sentence(note) for note in notes if note],
        "reasons": tuple(tables.reasons(measured)),
    }


def _validity(measured: ReportMeasures) -> dict[str, Any]:
    from markupsafe import Markup

    rows = [row for row in (tables.joint_row(measured), *tables.indicator_rows(measured)) if row is not None]
    # already escaped
    drawn = [Markup(band_svg(row)) if row.has_band else "" for row in rows]
    return {"indicators": list(zip(rows, drawn, strict=True)), "has_bands": any(drawn)}


def change_groups(changes: Sequence[Change], decoding: Decoding) -> list[dict[str, Any]]:
    """Return the changes by the rule that decided, the most frequent first; each group in order of time."""
    listed = set(map(id, sorted(changes, key=lambda change: -change.margin_nats)[:MOST_CHANGES]))
    groups: dict[str, list[Change]] = {}
    for change in changes:
        groups.setdefault(words.rule_words(change, decoding.profile.scheme), []).append(change)
    return [
        {
            "by": by,
            "n_changes": len(group),
            "detail": words.kinds_words(group, decoding.epoch_seconds),
            "rows": [change for change in group if id(change) in listed],
        }
        for by, group in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    ]


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
