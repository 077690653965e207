"""Print decoded nights: one in full, a row for each of a few, percentiles over very many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Any

import numpy as np
from click.exceptions import Exit

from stageguard.arrays import NAN
from stageguard.cli.outcomes import (
    MOST_NOTES,
    MOST_ROWS,
    PARTIAL_FAILURE,
    first_few,
    is_worth_saying,
    look_at,
    print_headline,
    print_notes,
    print_problems,
    print_read,
    print_review,
    print_verdict,
)
from stageguard.cli.render import print_line, show
from stageguard.cli.terminal import Console, count, one_line, print_error
from stageguard.formats.outputs import POSTERIOR_MEANING
from stageguard.night.quantities import EARLY_WORDS
from stageguard.report.numbers import sentence
from stageguard.report.summary import HEADLINES, DecodingSummary
from stageguard.report.table import Cell, Table, numbers, words
from stageguard.report.words import (
    DONE,
    NO_CARD,
    few,
    looking_like_experts,
    report_words,
    steering_words,
)
from stageguard.runner.manifest import COHORT_TABLE, FAILURES_TABLE, DecodedFile, Manifest
from stageguard.runner.run import Outcome

MOST_BOUTS = 3  # bouts of removed early REM that are listed for a night
PERCENTILES = {"5th percentile": 5, "median": 50, "95th percentile": 95}


def print_outcome(outcome: Outcome[Any]) -> None:
    """Print the outcome of a night as a line of JSON."""
    print_line(outcome.to_dict())


def end_decoding(
    manifest: Manifest, *, as_json: bool, in_one_table: bool = False, next_steps: Sequence[str] | None = None
) -> None:
    """Print the outcome of the nights; exit with 1 if all failed, with 3 if some did."""
    if not as_json:
        out = Console()
        print_manifest(manifest, out, in_one_table=in_one_table)
        for line in _next_steps(manifest) if next_steps is None else next_steps:
            out.print(f"Next: {line}", whole_line=True)
    print_notes(manifest.remarks, as_json=as_json)
    failures = next((path for path in manifest.written if path.name.endswith(FAILURES_TABLE)), None)
    print_problems(
        manifest.failures,
        as_json=as_json,
        n_files=manifest.n_nights,
        listed_in=failures,
        in_one_table=in_one_table,
    )
    for problem in manifest.problems:
        print_error(problem)
    if manifest.failures or manifest.problems:
        raise Exit(PARTIAL_FAILURE if manifest.nights else 1)


def print_manifest(manifest: Manifest, out: Console, *, in_one_table: bool = False) -> None:
    """Print one night in full, or a table of several and what to look at."""
    if manifest.n_nights == 1 and not in_one_table:
        first = manifest.first[0] if manifest.first else None
        if first is not None and first.result.summary is not None:
            print_night(first, out)
        elif manifest.nights:
            done = "was decoded before, with the same profile and options: nothing to do."
            out.print(f"{manifest.nights[0].file} {done} --overwrite decodes it again.")
            if first is not None and first.result.posterior is not None:
                _print_posterior(first.result.posterior, out)
                out.list("Wrote", [", ".join(map(str, first.result.outputs.values()))])
        return
    if manifest.nights:
        _print_cohort(manifest, out)
    counts = {
        "done before": manifest.n_before,
        "decoded": manifest.n_decoded,
        "failed": len(manifest.failures),
    }
    words = ", ".join(f"{n:,} {what}" for what, n in counts.items() if n or what == "decoded")
    out.print(f"{count(manifest.n_nights, 'night')}: {words}.", style="bold")
    out.list("Wrote", manifest.written)


def print_night(outcome: Outcome[DecodedFile], out: Console, more: Sequence[Sequence[str]] = ()) -> None:
    """Print what changed on one night, what was assumed, and what was written."""
    night = outcome.result
    summary = night.summary
    assert summary is not None
    print_summary(outcome.file, summary, out, more)
    if night.changes:
        _print_changes(night, out)
    if night.posterior is not None:
        _print_posterior(night.posterior, out)
    print_read(outcome.notes, out)
    out.list("Assumed", [note for note in summary.assumptions if is_worth_saying(note)])
    out.list("Advice", summary.advice)
    out.list("Warning", outcome.warnings)
    out.list("Wrote", [", ".join(map(str, night.outputs.values()))])
    print_review(out)


def _next_steps(manifest: Manifest) -> list[str]:
    """Return what to type next: the review of one night, or the statistics of a cohort."""
    if manifest.n_nights == 1:
        outputs = [outcome.result.outputs for outcome in manifest.first]
        return [f"stageguard review {quote(str(each['tsv']))}" for each in outputs if "tsv" in each]
    tables = [path for path in manifest.written if path.name == COHORT_TABLE]
    return [f"stageguard stats {quote(str(path.parent))}" for path in tables] if manifest.nights else []


def print_summary(
    file: str, summary: DecodingSummary, out: Console, more: Sequence[Sequence[str]] = ()
) -> None:
    """Print what changed, the numbers to report with `more` rows, and what not to report."""
    print_headline(file, summary.facts, out, "·", summary.lights)
    print_verdict(summary.verdict, out, looks_like_experts=summary.joint.looks_like_experts)
    out.print(summary.strength)
    if summary.aside:
        out.print(summary.aside, style="bold red")
    measured = {row.key: row for row in summary.indicators}
    cells = [
        measured[key].cells(is_early_odd=summary.is_early_rem_odd) for key in HEADLINES if key in measured
    ]
    title = summary.interval_title
    rows = [(*row[:3], row[3] or ("n/a" if title else ""), (row[4], "bold")) for row in cells]
    out.table(("", ">stager", ">guarded", f">{title}", ""), [*rows, *more])
    reported = report_words(
        summary.joint.looks_like_experts,
        summary.n_changed,
        is_cautioned=summary.is_cautioned,
        has_intervals=bool(title),
    )
    for line in (reported, *steering_words(summary.steered), sentence(NO_CARD), *summary.remarks):
        out.print(line)
    if summary.is_early_rem_odd and summary.early_rem_removed:
        removed = first_few(summary.early_rem_removed, "bout", MOST_BOUTS)
        out.list("Early REM removed", removed)
    if summary.is_early_rem_odd and any(row.after_place == "early" for row in summary.indicators):
        out.print(EARLY_WORDS)


def _print_changes(night: DecodedFile, out: Console) -> None:
    """Print every change of a night, the rule that decided, and the cost of keeping the original."""
    from stageguard.guard.explain import in_bouts  # only changes need it

    rows = []
    for change in night.changes or ():
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
    out.heading(f"Changes ({len(rows):,}): what keeping the stager's choice would cost")
    columns = (">epoch", "time", "before", "after", "rule", ">p before", ">p after", ">cost (nats)")
    out.table(columns, rows)


def _print_posterior(posterior: Mapping[str, Any], out: Console) -> None:
    """Print what is told about the posterior of a night."""
    out.heading("Posterior")
    below = f"{posterior['unsure_below']:g}"
    out.print(
        f"{count(posterior['n_unsure'], 'epoch')} with every stage below {below}; mean entropy "
        f"{posterior['mean_entropy_bits']:.3f} bits; log-evidence {posterior['log_evidence']:,.1f} nats."
    )
    decoded = posterior["decoded_minutes"]
    minutes = [
        (name, f"{value:,.1f}", f"{decoded[name]:,.1f}")
        for name, value in posterior["expected_minutes"].items()
    ]
    out.table(("stage", ">expected min", ">decoded min"), minutes)
    if posterior["n_draws"] is not None:
        out.print(f"Drawn: {count(posterior['n_draws'], 'night')}, seed {posterior['seed']}.")
    out.print(POSTERIOR_MEANING)


def _print_cohort(manifest: Manifest, out: Console) -> None:
    """Print a row for each of a few nights, or percentiles over many, and the nights to look at."""
    rows = manifest.nights
    columns = (
        *(*words("night"), *numbers("epochs"), *numbers("changed (%)", digits=1)),
        *(*numbers("distance", digits=2), *numbers("fragmentation before", "after", digits=3)),
    )
    values = [
        (row.n_epochs, 100 * row.n_changed / row.n_epochs, row.joint_after, row.fi_before, row.fi_after)
        for row in rows
    ]
    cells: list[tuple[Cell, ...]]
    if len(rows) <= MOST_ROWS:
        cells = [(one_line(row.id), *each) for row, each in zip(rows, values, strict=True)]
    else:
        known = [column[~np.isnan(column)] for column in np.array(values).T]
        cells = [
            (title, *(float(np.percentile(each, share)) if len(each) else NAN for each in known))
            for title, share in PERCENTILES.items()
        ]
    show(Table(columns, cells), out)
    judged = [row.joint.looks_like_experts for row in rows]
    out.print(looking_like_experts(judged, [one_line(row.id) for row in rows]))
    early = [one_line(row.id) for row in rows if row.early_rem_removed]
    out.list("Early REM removed", [few(early)] if early else [])
    out.list("Look at", look_at({row.id: row.look_at for row in rows}))
    steps = Counter(DONE.get(row.step, "Not smoothed") for row in rows).most_common()
    out.print("; ".join(f"{done}: {count(n, 'night')}" for done, n in steps) + ".")
    out.list("Warning", _counted(manifest.warnings))
    out.list("Read", ["; ".join(texts)] if (texts := _counted(manifest.notes)) else [])
    print_review(out)


def _counted(texts: Counter[str]) -> list[str]:
    """Return the most frequent texts, each with its number of nights."""
    worth = Counter({text: n for text, n in texts.items() if is_worth_saying(text)}).most_common()
    lines = [f"{one_line(text)} ({count(n, 'night')})" for text, n in worth[:MOST_NOTES]]
    return lines + [f"and {len(worth) - MOST_NOTES} more"] * (len(worth) > MOST_NOTES)
