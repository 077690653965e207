"""A grade card in words and as one page that can be attached to a paper."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from stageguard.measures.grade import (
    CONFIDENCE,
    LEAST_PEOPLE,
    LEAST_SCORERS,
    LIMIT,
    Grade,
    GradeCard,
    Ratio,
    expert_errors,
)
from stageguard.night.colours import PAGE, STAGES
from stageguard.night.quantities import quantity_of
from stageguard.report.numbers import ABSENT, and_list, count, number_text
from stageguard.report.page import render_page
from stageguard.report.svg import GREY, INK, PALE, rect, text_at

FLATTERS = (
    "The consensus flatters a network that was trained on it, or on these experts: such a network is nearer "
    "to the experts' mean than any of them."
)
HELD_TO = (
    "Errors are absolute differences from the consensus of all experts but one, and are divided by that "
    "expert's own difference from the same consensus, each expert in turn: 1 is an exchangeable expert."
)
READINGS = (
    f"Two readings with {100 * CONFIDENCE:.0f} % limits over people: the ratio of the mean errors (Fieller) "
    f"and that of a typical night (paired logs, t). As an expert: both upper limits at most {LIMIT:g}. "
    "Worse: either lower limit above 1. Nothing is corrected for the number of statistics."
)


def times(value: float) -> str:
    """Return a ratio with two decimals and no zero before the point."""
    if math.isinf(value):
        return "∞"
    return number_text(value, 2).removeprefix("0") if not math.isnan(value) else ABSENT


def ratio_text(ratio: Ratio) -> str:
    """Return a ratio with its limits."""
    if math.isnan(ratio.value) and math.isnan(ratio.low):
        return ABSENT
    return f"{times(ratio.value)} ({times(ratio.low)} to {times(ratio.high)})"


def statistic_name(key: str) -> str:
    """Return how a statistic is called, with its unit."""
    quantity = quantity_of(key)
    unit = f" ({quantity.short_unit})" if quantity.short_unit else ""
    return f"{quantity.title}{unit}"


def short_verdict(grade: Grade) -> str:
    """Return the verdict in a word or two; with three experts, too few people show nothing."""
    if grade.verdict is not None:
        return grade.verdict
    return "not shown" if grade.n_experts >= LEAST_SCORERS else "no verdict"


def verdict_words(grade: Grade) -> str:
    """Return the verdict on a statistic as a clause."""
    people = people_words(grade.n_people)
    if grade.n_experts == 1:
        return about_words(grade)
    if grade.verdict == "as an expert":
        return (
            "as close to the other experts as one of them "
            f"(error {times(grade.mean.value)} times, at most {times(LIMIT)})"
        )
    if grade.verdict == "worse":
        return f"further from them than the average expert (error {times(_surer(grade).value)} times)"
    if grade.n_experts < LEAST_SCORERS:
        return f"no verdict with {grade.n_experts} experts: {LEAST_SCORERS} are needed"
    if grade.people_needed is None:
        return f"not shown with {people}"
    return f"not shown with {people}; {grade.people_needed:,} would show it"


def _surer(grade: Grade) -> Ratio:
    """Return the reading by which a statistic is more surely worse."""
    return max(grade.mean, grade.typical, key=lambda ratio: ratio.low)


def group_words(card: GradeCard) -> list[str]:
    """Return the verdicts of a card, a sentence for all statistics that share one."""
    found: dict[str, list[Grade]] = {}
    for key in card:
        found.setdefault(short_verdict(card[key]), []).append(card[key])
    close = [(_name(each), each.mean.value) for each in found.get("as an expert", [])]
    far = [(_name(each), _surer(each).value) for each in found.get("worse", [])]
    not_shown = [
        _name(each) + ("" if each.people_needed is None else f" ({each.people_needed:,} would show it)")
        for each in found.get("not shown", [])
    ]
    sentences = []
    if close:
        errors = f"error {times(min(v for _, v in close))} to {times(max(v for _, v in close))} times"
        names = ", ".join(name for name, _ in close)
        sentences.append(
            f"As close to the other experts as one of them ({errors}, at most {times(LIMIT)}): {names}."
        )
    if far:
        names = ", ".join(f"{name} ({times(value)} times)" for name, value in far)
        sentences.append(f"Further from them than the average expert: {names}.")
    if not_shown:
        sentences.append(f"Not shown with {people_words(card.n_people)}: {', '.join(not_shown)}.")
    return sentences


def _name(grade: Grade) -> str:
    quantity = quantity_of(grade.key)
    return quantity.abbreviation or quantity.title


def about_words(grade: Grade) -> str:
    """Return how an error against one expert compares with the table of expert against expert."""
    if not grade.about:
        return "no table of experts' errors for it"
    return "about " + ", ".join(
        f"{times(ratio)} (table from {cohort})" for cohort, ratio in grade.about.items()
    )


def lead_words(card: GradeCard) -> str:
    """Return the finding of a card in one sentence."""
    verdicts = [grade.verdict for grade in card.values()]
    if len(card.scorers) == 1:
        return f"One expert scored these nights: no verdict, {count(len(card), 'statistic')} beside a table."
    if not any(verdicts):
        whom = f"{people_words(card.n_people)} and {count(len(card.scorers), 'expert')}"
        return f"No verdict with {whom}: {LEAST_PEOPLE} people and {LEAST_SCORERS} experts are needed."
    close, far, open_ = (verdicts.count(each) for each in ("as an expert", "worse", "not shown"))
    return (
        f"Of {len(card)} statistics, as close to the other experts as one of them: {close}; further away: "
        f"{far}; not shown: {open_}."
    )


def people_words(number: int) -> str:
    """Return a number of people."""
    return f"{number:,} {'person' if number == 1 else 'people'}"


def fact_rows(card: GradeCard) -> Iterator[tuple[str, str]]:
    """Yield what a card is about."""
    facts = card.facts
    yield "Stager", facts.stager or "not named"
    if facts.profile is None:
        yield "Guard", "none: the stager's own stages"
    else:
        yield "Profile", f"{facts.profile}, sha256 {str(facts.profile_sha256)[:12]}"
    yield "Cohort", facts.cohort or "not named"
    nights = f"{count(len(card.nights), 'night')} of {people_words(card.n_people)}"
    yield "Nights", f"{nights}, {' '.join(card.nights[0].scheme.names)}"
    yield "Experts", f"{len(card.scorers)}: {and_list(card.scorers)}"
    kappas = f"stager {number_text(card.kappa, 3)}"
    if len(card.scorers) > 1:
        kappas += f", one expert {number_text(card.expert_kappa, 3)}, with the consensus of the other experts"
    yield "Cohen's κ", kappas
    yield "StageGuard", f"{facts.version}, card sha256 {card.sha256}"


def method_words(card: GradeCard) -> list[str]:
    """Return how the numbers of a card came about, and what to keep in mind."""
    if len(card.scorers) > 1:
        return [HELD_TO, READINGS, FLATTERS]
    tables = [f"{each.cohort} ({each.people})" for each in expert_errors(card.nights[0].scheme.name)]
    about = [[*grade.about.values()] for grade in card.values() if all(grade.about.values())]
    apart = [ratios[0] / ratios[-1] for ratios in about if len(ratios) > 1]
    if not apart:
        return [
            "With one expert, and no table of experts' errors for such epochs, errors stand by themselves."
        ]
    return [
        f"With one expert the stager's error is divided by that between two experts in the table from "
        f"{and_list(tables)}. Between these cohorts such ratios differ by {times(min(apart))} to "
        f"{times(max(apart))}, so that there is no verdict.",
        "How far this expert is from others is not known: have two more score the nights.",
    ]


def grade_rows(card: GradeCard) -> list[dict[str, Any]]:
    """Return the cells of a card's table, a row per statistic."""
    rows = []
    for key in card:
        grade = card[key]
        limits, decimals = grade.against_consensus, max(1, quantity_of(key).decimals)

        def number(value: float, decimals: int = decimals) -> str:
            return number_text(value, decimals)

        rows.append(
            {
                "key": key,
                "name": statistic_name(key),
                "heading": quantity_of(key).short_heading,
                "verdict": short_verdict(grade),
                "words": verdict_words(grade),
                "mean": ratio_text(grade.mean),
                "typical": ratio_text(grade.typical),
                "less": f"{grade.errs_less_than} of {grade.n_experts}" if grade.n_experts > 1 else ABSENT,
                "error": number(grade.stager_error),
                "expert_error": number(grade.expert_error),
                "bias": f"{number(limits.bias)} ({number(limits.bias_low)} to {number(limits.bias_high)})",
                "limits": f"{number(limits.low)} to {number(limits.high)} (± {number(limits.limit_margin)})",
                "needed": "" if grade.people_needed is None else f"{grade.people_needed:,}",
                "n": str(grade.n_people),
            }
        )
    return rows


WIDTH, HEIGHT, MARGIN = 190.0, 14.0, 8.0  # of the picture in a row
LOWEST, HIGHEST = 0.25, 4.0
TICKS = (0.25, 0.5, 1.0, 2.0, 4.0)
COLOURS = {"as an expert": STAGES["N3"].light, "worse": STAGES["R"].light}


def ratios_svg(grade: Grade) -> str:
    """Return the picture of both readings with their limits on a log scale; the numbers stand beside it."""
    colour = COLOURS.get(grade.verdict or "", GREY)
    parts = [
        rect(_x(LOWEST), 0, _x(LIMIT) - _x(LOWEST), HEIGHT, PAGE["wash"].light),
        *(_line(tick, INK if tick == 1 else PALE) for tick in TICKS),
        *_reading(grade.mean, HEIGHT / 2 - 3, colour, fill=colour),
        *_reading(grade.typical, HEIGHT / 2 + 3, colour, fill=PAGE["paper"].light),
    ]
    return _picture(parts)


def ticks_svg() -> str:
    """Return the numbers of the scale, for the head of the column."""
    style = {"font_size": 9.5, "text_anchor": "middle", "fill": GREY}
    return _picture([text_at(_x(tick), 11, f"{tick:g}".removeprefix("0"), **style) for tick in TICKS])


def _picture(parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {WIDTH:g} {HEIGHT:g}" aria-hidden="true">{"".join(parts)}</svg>'


def _line(ratio: float, colour: str) -> str:
    return f'<path d="M{_x(ratio):.1f} 0V{HEIGHT:g}" stroke="{colour}" stroke-width="0.8"/>'


def _x(ratio: float) -> float:
    share = math.log(min(max(ratio, LOWEST), HIGHEST) / LOWEST) / math.log(HIGHEST / LOWEST)
    return MARGIN + (WIDTH - 2 * MARGIN) * share


def _reading(ratio: Ratio, y: float, colour: str, *, fill: str) -> Sequence[str]:
    if math.isnan(ratio.value):
        return []
    low, high = (ratio.value if math.isnan(end) else end for end in (ratio.low, ratio.high))
    line = f'<path d="M{_x(low):.1f} {y:.1f}H{_x(high):.1f}" stroke="{colour}" stroke-width="1.3"/>'
    dot = f'<circle cx="{_x(ratio.value):.1f}" cy="{y:.1f}" r="2.2" fill="{fill}" stroke="{colour}"/>'
    return [line, dot]


def grade_page(card: GradeCard) -> str:
    """Return a card as a page of its own."""
    from markupsafe import Markup

    has_panel = len(card.scorers) > 1
    rows = [row | {"picture": Markup(ratios_svg(card[row["key"]]))} for row in grade_rows(card)]
    context = {
        "title": card.facts.stager or "A stager",
        "lead": lead_words(card),
        "groups": group_words(card),
        "facts": list(fact_rows(card)),
        "rows": rows,
        "has_panel": has_panel,
        "ticks": Markup(ticks_svg()),
        "methods": method_words(card),
    }
    return render_page("grade.html.j2", context, styles="grade.css")
