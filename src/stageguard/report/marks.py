"""How numbers of nights are marked by the grade card of their stager: the words beside a table."""

from __future__ import annotations

from stageguard.measures.grade import NOT_GRADED, GradeCard
from stageguard.report.numbers import count

WITHOUT_CARD = (
    f"{NOT_GRADED}: whether these numbers are as good as an expert's is not known without a grade card of "
    "their stager"
)


def marks_words(card: GradeCard | None) -> str:
    """Return whose grades the marks of a table are, or that nothing is graded."""
    if card is None:
        return WITHOUT_CARD
    people = "1 person" if card.n_people == 1 else f"{card.n_people:,} people"
    whose = "" if card.facts.stager is None else f" of {card.facts.stager}"
    return (
        f"grades are of the final numbers, by the card{whose} with {people} and "
        f"{count(len(card.scorers), 'expert')} (SHA-256 {card.sha256[:12]})"
    )
