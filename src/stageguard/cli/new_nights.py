"""New nights of a stager against its grade card: read, charted in batches, shown. It is `grade --against`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click import UsageError
from click.exceptions import Exit

from stageguard.cli.graded_files import features_of_file, refuse_ungraded
from stageguard.cli.outcomes import end, print_warnings, run_shown
from stageguard.cli.scored_files import ReadOptions, read_night
from stageguard.cli.terminal import Console, count, one_line, print_json
from stageguard.errors import InputError, Message
from stageguard.files import check_apart, check_places, write_text_atomic
from stageguard.formats.companions import ListRow
from stageguard.measures.drift import Drift, chart, check_card
from stageguard.measures.grade_card import GradeCard
from stageguard.profile.fingerprint import StagerFeatures
from stageguard.report.drift import (
    DECIMALS,
    batch_names,
    batch_words,
    drift_svg,
    feature_words,
    limits_text,
    rate_words,
)
from stageguard.report.numbers import number_text
from stageguard.runner.inputs import Input, Inputs
from stageguard.runner.run import Outcome, succeeded

PICTURE = ".svg"
FEWEST_FEATURES = 5  # shown of each batch that drifted, and of the only one
MOST_BATCHES = 3  # whose features are shown; --json has all
STYLES = {True: "red", False: ""}


@dataclass(frozen=True, slots=True)
class NewNight:
    """The features of one file."""

    person: str
    features: StagerFeatures
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain types."""
        return {"person": self.person, "notes": list(self.notes)}


@dataclass(frozen=True, slots=True)
class NewNightReader:
    """Reads nights that a card is about."""

    options: ReadOptions
    card: GradeCard
    people: Mapping[str, ListRow]
    stager: str | None

    def read(self, night: Input) -> NewNight:
        """Read and measure one night; refuse one of another stager, profile or scheme."""
        who = self.people.get(night.id) or self.people.get(night.path.name)
        if self.people and who is None:
            raise InputError(f"night {night.id!r} is not in the table of subjects, expected a row for it.")
        scored = read_night(night, self.options)
        refuse_ungraded(self.card, night.path, scored, self.stager)
        features = features_of_file(night.path, scored, self.options)
        if features is None:
            raise InputError("its probabilities are not found, or none of its epochs has a stage.")
        return NewNight(who.subject if who else night.id, features, scored.notes)


def chart_new_nights(
    against: Path,
    inputs: Inputs,
    people: Mapping[str, ListRow],
    options: ReadOptions,
    output: Path | None,
    *,
    stager: str | None,
    strict: bool,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Compare nights with a card, in the order of their names, and show what drifted."""
    if output is not None and output.suffix.lower() != PICTURE:
        raise UsageError(f"--output is {str(output)!r}, expected a name that ends in {PICTURE}.")
    places = [] if output is None else [output]
    check_places(places, overwrite=overwrite)
    check_apart(places, inputs.files(against))
    card = GradeCard.load(against)
    check_card(card)
    reader = NewNightReader(options, card, people, stager)
    outcomes = run_shown(reader.read, inputs.nights, "Measuring", quiet=as_json)
    done = succeeded(outcomes)
    if not done:
        raise InputError(Message("no night could be compared. The first problem: ", outcomes[0].error))
    nights = [outcome.result for outcome in done]
    drift = chart(
        [outcome.id for outcome in done],
        [night.person for night in nights],
        [night.features for night in nights],
        card,
    )
    if output is not None:
        write_text_atomic(output, drift_svg(drift), overwrite=overwrite)
    if as_json:
        content = drift.to_dict() | {"files": [outcome.to_dict() for outcome in outcomes]}
        print_json(content | {"written": [str(path) for path in places]})
    else:
        _show(drift, card, outcomes, places)
    end(outcomes, inputs.notes, as_json=as_json)
    if strict and drift.has_drifted:
        raise Exit(1)


def _show(
    drift: Drift, card: GradeCard, outcomes: Sequence[Outcome[NewNight]], written: Sequence[Path]
) -> None:
    """Print a row per batch, the features of those that drifted, and what an alarm is worth."""
    out = Console()
    whose = one_line(card.facts.stager or "the stager")
    n_drifted = sum(batch.has_drifted for batch in drift.batches)
    found = f"{n_drifted} of {len(drift.batches)} batches drifted" if n_drifted else "no drift found"
    n_nights = sum(len(batch.nights) for batch in drift.batches)
    headline = f"{found}, {count(n_nights, 'night')} against the card with {drift.n_card_people} people"
    out.print(f"{whose}: {headline}", style="bold red" if n_drifted else "bold")
    rows = [
        (
            one_line(batch_names(batch)),
            batch.n_people,
            (batch_words(batch, most=1), STYLES[batch.has_drifted]),
        )
        for batch in drift.batches
    ]
    out.table(("nights", ">people", "against the card"), rows)
    shown = [batch for batch in drift.batches if batch.has_drifted or len(drift.batches) == 1]
    for batch in shown[:MOST_BATCHES]:
        out.heading(one_line(f"Features of {batch_names(batch)}, by how far they are from the card"))
        out.table(
            ("", ">card", ">new", ">limits", ">over the limit"),
            [
                (
                    ("all together", STYLES[batch.distance_ratio > 1]),
                    "",
                    *(number_text(value, 2) for value in (batch.distance, batch.limit, batch.distance_ratio)),
                ),
                *(
                    (
                        (feature_words(each), STYLES[each.is_outside]),
                        *(number_text(value, DECIMALS) for value in (each.card, each.batch)),
                        limits_text(each),
                        number_text(each.ratio, 2),
                    )
                    for each in batch.features[: max(FEWEST_FEATURES, len(batch.outside))]
                ),
            ],
        )
    print_warnings([outcome for outcome in outcomes if outcome.ok], out)
    out.list("Note", [rate_words(drift)])
    out.list("Wrote", written)
