"""Print decoded nights: one in full, a row for each of a few, percentiles over very many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stageguard.cli.outcomes import (
    MOST_NOTES,
    MOST_ROWS,
    first_few,
    is_worth_saying,
    notes_of,
    placed,
    print_headline,
    print_look_at,
    print_read,
    print_review,
    print_verdict,
)
from stageguard.cli.terminal import Console, Piece, count, one_line
from stageguard.measures.cohort import count_steered
from stageguard.night.quantities import EARLY_WORDS, JOINT, steered_words
from stageguard.report.summary import BeforeAfter, DecodingSummary, hinge_words, looking_like_experts
from stageguard.runner.manifest import DecodedFile, Manifest
from stageguard.runner.run import Outcome

if TYPE_CHECKING:
    from stageguard.guard.explain import Change

MOST_BOUTS = 3  # bouts of removed early REM that are listed for a night
PERCENTILES = {"5th percentile": 5, "median": 50, "95th percentile": 95}


def print_manifest(manifest: Manifest, out: Console, *, in_one_table: bool = False) -> None:
    """Print one night in full, a row for each of a few nights, or a summary of very many."""
    if manifest.n_nights > 1 or in_one_table:
        if manifest.n_decoded <= MOST_ROWS and not in_one_table:
            print_cohort(manifest.first, out)
        elif manifest.nights:
            _print_common(manifest, out)
        counts = {
            "done before": manifest.n_before,
            "decoded": manifest.n_decoded,
            "failed": len(manifest.failures),
        }
        words = ", ".join(f"{n:,} {what}" for what, n in counts.items() if n or what == "decoded")
        out.print(f"{count(manifest.n_nights, 'night')}: {words}.", style="bold")
        out.list("Wrote", manifest.written)
    elif manifest.first:
        print_night(manifest.first[0], out)
    elif manifest.nights:
        out.print(
            f"{manifest.nights[0].file} was decoded before, with the same profile and options: nothing to "
            "do. --overwrite decodes it again."
        )


def print_night(outcome: Outcome[DecodedFile], out: Console, more: Sequence[Sequence[str]] = ()) -> None:
    """Print the before/after table of one file, the changes, assumptions, warnings and outputs."""
    night = outcome.result
    summary = night.summary
    assert summary is not None
    print_summary(outcome.file, summary, out, more)
    if night.changes:
        _print_changes(night.changes, out)
    print_read(outcome.notes, out)
    out.list("Assumed", [note for note in summary.assumptions if is_worth_saying(note)])
    out.list("Advice", summary.advice)
    out.list("Warning", outcome.warnings)
    out.list("Wrote", [", ".join(map(str, night.outputs.values()))])
    print_review(out)


def _print_changes(changes: Sequence[Change], out: Console) -> None:
    """Print every change of a night, the rule that decided, and the cost of keeping the original."""
    from stageguard.guard.explain import in_bouts  # only changes need it

    rows = []
    for change in changes:
        seconds = change.onset_seconds
        elapsed = f"+{seconds // 3600:.0f}:{seconds // 60 % 60:02.0f}:{seconds % 60:02.0f}"
        rows.append(
            (
                change.first_epoch + 1,
                elapsed if change.clock is None else change.clock.isoformat()[11:19],
                in_bouts(change.before),
                in_bouts(change.after),
                change.rule,
                f"{change.probability_before:.2f}",
                f"{change.probability_after:.2f}",
                "forbidden" if change.margin_nats == float("inf") else f"{change.margin_nats:.2f}",
            )
        )
    out.heading(f"Changes ({len(changes):,}): what keeping the stager's choice would cost")
    columns = (">epoch", "time", "before", "after", "rule", ">p before", ">p after", ">cost (nats)")
    out.table(columns, rows)


def print_summary(
    file: str, summary: DecodingSummary, out: Console, more: Sequence[Sequence[str]] = ()
) -> None:
    """Print what changed, as a before/after table with `more` rows and in sentences."""
    print_headline(file, summary.facts, out, "with", summary.lights)
    print_verdict(summary.verdict, out, looks_like_experts=summary.joint.looks_like_experts)
    rows: list[Sequence[object]] = []
    for row in summary.indicators:
        told = row if summary.is_early_rem_odd else _without_early(row)
        title, before, after, band = told.cells()
        # what can hinge on a few epochs has no range of experts
        last = (hinge_words(row.hinge), "bold") if row.hinge else band
        rows.append((title, placed(before, told.before_place), placed(after, told.after_place), last))
    changed = f"{summary.n_changed:,} ({summary.changed_percent:.1f} %)"
    rows += [*more, ("Epochs changed", "", changed, "")]
    if summary.n_ties:
        rows.append(("Ties resolved by neighbours", "", summary.n_ties, ""))
    if summary.n_filled:
        rows.append(("Epochs filled (no evidence)", "", summary.n_filled, ""))
    if summary.n_unscored:
        rows.append(("Epochs left unscored", "", summary.n_unscored, ""))
    out.table(("", ">before", ">after", "expert range"), rows)
    if any(row.is_steered for row in summary.indicators):
        out.print(steered_words(count_steered([summary.steered])))
    if summary.range_note:
        out.print(summary.range_note)
    out.print(summary.deed)
    if summary.aside:
        out.print(summary.aside, style="bold red")
    if summary.is_early_rem_odd:
        _print_early_rem(summary, out)


def _print_early_rem(summary: DecodingSummary, out: Console) -> None:
    """List early REM that was removed, and advise to look at the night if some is left."""
    if summary.early_rem_removed:
        removed = first_few(summary.early_rem_removed, "bout", MOST_BOUTS)
        out.list("Early REM removed", ["; ".join(removed)])
    is_early = any(row.after_place == "early" for row in summary.indicators)
    was_early = any(row.before_place == "early" for row in summary.indicators)
    if is_early or (was_early and not summary.early_rem_removed):
        out.print(EARLY_WORDS)


def _without_early(row: BeforeAfter) -> BeforeAfter:
    """Return a row that does not call a latency early."""
    before, after = ("" if place == "early" else place for place in (row.before_place, row.after_place))
    return replace(row, before_place=before, after_place=after)


def print_cohort(outcomes: Sequence[Outcome[DecodedFile]], out: Console) -> None:
    """Print one row per decoded file, and what to look at."""
    if not outcomes:
        return
    summaries = {outcome.file: summary for outcome in outcomes if (summary := outcome.result.summary)}
    rows = []
    for outcome in outcomes:
        summary = summaries[outcome.file]
        measures = {row.key: row for row in summary.indicators}
        rows.append(
            (
                outcome.file,
                summary.facts.n_epochs,
                f"{summary.changed_percent:.1f} %",
                _before_and_after(measures.get(JOINT.key))[1],
                *_before_and_after(measures.get("fragmentation_index")),
                "; ".join(map(one_line, outcome.warnings)),
            )
        )
    out.table(("file", ">epochs", ">changed", ">joint score", ">FI before", ">FI after", "warnings"), rows)
    out.print(looking_like_experts([outcome.result.row.joint.looks_like_experts for outcome in outcomes]))
    people = [outcome for outcome in outcomes if summaries[outcome.file].is_early_rem_odd]
    removed = [outcome.file for outcome in people if outcome.result.row.early_rem_removed]
    out.list("Early REM removed", [_some_nights(removed, len(outcomes))] if removed else [])
    print_look_at({outcome.id: outcome.result.row.look_at for outcome in outcomes}, out)
    folders = sorted({str(outcome.result.outputs["tsv"].parent) for outcome in outcomes})
    out.print(f"Wrote {count(len(outcomes), 'hypnogram')} to {', '.join(folders)}")
    print_read(notes_of(outcomes), out)
    assumed = [text for summary in summaries.values() for text in summary.assumptions]
    out.list("Assumed", first_few(filter(is_worth_saying, assumed), "remark"))
    print_review(out)


def _before_and_after(row: BeforeAfter | None) -> tuple[Piece, Piece]:
    """Return two cells; a night without sleep has no such row."""
    if row is None:
        return "n/a", "n/a"
    _, before, after, _ = row.cells()
    return placed(before, row.before_place), placed(after, row.after_place)


def _some_nights(names: Sequence[str], n_nights: int) -> str:
    """Return how many of all nights these are, and the names of the first."""
    more = f" and {len(names) - MOST_NOTES:,} more" if len(names) > MOST_NOTES else ""
    named = ", ".join(map(one_line, names[:MOST_NOTES]))
    return f"on {len(names):,} of {count(n_nights, 'night')}: {named}{more}"


def _look_at(names: Sequence[str]) -> str:
    return "Look at it." if len(names) == 1 else "Look at them."


def _print_common(manifest: Manifest, out: Console) -> None:
    """Print percentiles over the nights, and counts of what the strength rule did, warnings and remarks."""
    rows = manifest.nights
    numbers = {
        ("Epochs", ",.0f"): [row.n_epochs for row in rows],
        ("Epochs changed (%)", ".1f"): [100 * row.n_changed / row.n_epochs for row in rows],
        ("Joint score before", ".2f"): [row.joint_before for row in rows],
        ("Joint score after", ".2f"): [row.joint_after for row in rows],
        ("FI before", ".3f"): [row.fi_before for row in rows],
        ("FI after", ".3f"): [row.fi_after for row in rows],
    }
    cells = []
    for (title, form), values in numbers.items():
        known = np.array(values, dtype=np.float64)
        known = known[~np.isnan(known)]
        shares = np.percentile(known, list(PERCENTILES.values())).tolist() if len(known) else []
        cells.append((title, *([f"{value:{form}}" for value in shares] or ["n/a"] * len(PERCENTILES))))
    out.table(("over all nights", *(f">{title}" for title in PERCENTILES)), cells)
    out.print(looking_like_experts([row.joint.looks_like_experts for row in rows]))
    early = [row.id for row in rows if row.early_rem_removed]
    if early:
        text = f"{_some_nights(early, len(rows))} (column early_rem_removed). {_look_at(early)}"
        out.list("Early REM removed", [text])
    print_look_at({row.id: row.look_at for row in rows}, out)
    strengths = Counter(f"{row.rule}, {row.step}" for row in rows).most_common()
    out.list("Strength", ["; ".join(f"{text} ({n:,})" for text, n in strengths)])
    out.list("Warning", _counted(manifest.warnings))
    notes = Counter({text: n for text, n in manifest.notes.items() if is_worth_saying(text)})
    out.list("Read", ["; ".join(_counted(notes))] if notes else [])
    print_review(out)


def _counted(texts: Counter[str]) -> list[str]:
    """Return the most frequent texts, each with its number of nights."""
    lines = [f"{one_line(text)} ({count(n, 'night')})" for text, n in texts.most_common(MOST_NOTES)]
    more = len(texts) - MOST_NOTES
    return lines + ([f"and {count(more, 'more remark')}"] if more > 0 else [])
