"""A grade card in words and as one page that can be attached to a paper."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from stageguard.measures.expert_errors import expert_errors
from stageguard.measures.grade import (
    CONFIDENCE,
    LEAST_PEOPLE,
    LEAST_SCORERS,
    LIMIT,
    Grade,
    GradeCard,
    Ratio,
)
from stageguard.night.colours import PAGE, STAGES
from stageguard.night.quantities import quantity_of
from stageguard.report.numbers import ABSENT, and_list, count, number_text
from stageguard.report.page import render_page
from stageguard.report.pictures import FEWEST_FOR_LIMITS
from stageguard.report.svg import GREY, INK, PALE, rect, text_at
from stageguard.report.words import VERDICTS, people_words, times, worse_by

PANEL_METHOD = (
    "An error is the absolute difference from the consensus of all experts but one, divided by that expert's "
    "own difference from the same consensus, each expert in turn: 1 is an exchangeable expert.",
    f"Two readings with {100 * CONFIDENCE:.0f} % limits over people: the ratio of the mean errors (Fieller), "
    f"and a typical night (paired logs, t). Expert-level: both upper limits at most {LIMIT:g}. Worse: either "
    "lower limit above 1. Nothing is corrected for the number of statistics.",
    "The consensus flatters a network that was trained on it, or on these experts: such a network is nearer "
    "to the experts' mean than any of them.",
)


def ratio_text(ratio: Ratio) -> str:
    """Return a ratio with its limits."""
    if math.isnan(ratio.value) and math.isnan(ratio.low):
        return ABSENT
    return f"{times(ratio.value)} ({times(ratio.low)} to {times(ratio.high)})"


def verdict_word(grade: Grade) -> str:
    """Return the verdict in a word or two; with three experts, too few people are inconclusive."""
    if grade.verdict is None and grade.n_experts < LEAST_SCORERS:
        return "no verdict"
    return VERDICTS[grade.verdict or "not shown"]


def lead_words(card: GradeCard) -> str:
    """Return the conclusion of a card in one sentence."""
    people = people_words(card.n_people)
    verdicts = Counter[str | None](grade.verdict for grade in card.values())
    if set(verdicts) == {None}:
        whom = f"{people} and {count(len(card.scorers), 'expert')}"
        return f"No verdict with {whom}: {LEAST_PEOPLE} people and {LEAST_SCORERS} experts are needed."
    first, *others = ((verdicts[verdict], word) for verdict, word in VERDICTS.items())
    found = [f"{count(first[0], 'statistic')} {first[1]}", *(f"{n:,} {word}" for n, word in others)]
    return f"{', '.join(found)} with {people}."


def group_words(card: GradeCard) -> list[str]:
    """Return the verdicts of a card, a sentence for all statistics that share one."""
    found: dict[str, list[str]] = {}
    for grade in card.values():
        quantity, needed = quantity_of(grade.key), grade.people_needed
        about = f" ({worse_by(grade)})" if grade.verdict == "worse" else ""
        about = about if needed is None else f" ({needed:,})"
        name = f"{quantity.abbreviation or quantity.title}{about}"
        found.setdefault(verdict_word(grade), []).append(name)
    headings = {
        "expert-level": f"Expert-level (error at most {LIMIT:g} times an expert's)",
        "worse": "Worse than an expert",
        "inconclusive": f"Inconclusive with {people_words(card.n_people)} (about how many are needed)",
    }
    return [f"{what}: {', '.join(found[word])}." for word, what in headings.items() if word in found]


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


def method_words(card: GradeCard) -> Sequence[str]:
    """Return how the numbers of a card came about, and what to keep in mind."""
    if len(card.scorers) > 1:
        return PANEL_METHOD
    if not (cohorts := cohorts_of(card)):
        return ["No table of experts' errors has such epochs: errors stand by themselves."]
    tables = {each.cohort: each.people for each in expert_errors(card.nights[0].scheme.name)}
    about = [[*grade.about.values()] for grade in card.values() if all(grade.about.values())]
    apart = [ratios[0] / ratios[-1] for ratios in about if len(ratios) > 1]
    return [
        "÷: the error divided by that between two experts of "
        f"{and_list(f'{cohort} ({tables[cohort]})' for cohort in cohorts)}. These ratios differ by a factor "
        f"of {times(min(apart))} to {times(max(apart))} between the cohorts, too much for a verdict.",
        "How far this expert is from others is not known: have two more experts score the nights.",
    ]


def cohorts_of(card: GradeCard) -> list[str]:
    """Return the cohorts whose experts' errors stand beside those of a card with one expert."""
    return list(dict.fromkeys(cohort for grade in card.values() for cohort in grade.about))


def grade_rows(card: GradeCard) -> list[dict[str, Any]]:
    """Return the cells of a card's table, a row per statistic; no limits of agreement of too few people."""
    rows, cohorts = [], cohorts_of(card)
    for key, grade in card.items():
        limits, quantity = grade.against_consensus, quantity_of(key)
        error, expert_error, bias, bias_low, bias_high, low, high, margin = (
            number_text(value, max(1, quantity.decimals))
            for value in (
                *(grade.stager_error, grade.expert_error, limits.bias, limits.bias_low, limits.bias_high),
                *(limits.low, limits.high, limits.limit_margin),
            )
        )
        rows.append(
            {
                "key": key,
                "heading": quantity.short_heading,
                "verdict": verdict_word(grade),
                "mean": ratio_text(grade.mean),
                "typical": ratio_text(grade.typical),
                "less": f"{grade.errs_less_than} of {grade.n_experts}",
                "about": [times(grade.about.get(cohort, math.nan)) for cohort in cohorts],
                "error": error,
                "expert_error": expert_error,
                "bias": f"{bias} ({bias_low} to {bias_high})",
                "limits": f"{low} to {high} (± {margin})" if grade.n_people >= FEWEST_FOR_LIMITS else ABSENT,
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

    context = {
        "title": card.facts.stager or "A stager",
        "lead": lead_words(card),
        "groups": group_words(card),
        "facts": list(fact_rows(card)),
        "rows": [row | {"picture": Markup(ratios_svg(card[row["key"]]))} for row in grade_rows(card)],
        "has_panel": len(card.scorers) > 1,
        "cohorts": cohorts_of(card),
        "ticks": Markup(ticks_svg()),
        "methods": method_words(card),
    }
    return render_page("grade.html.j2", context, styles="grade.css")
