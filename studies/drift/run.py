"""How often a batch of new nights alarms: on left-out people, and after something broke. Writes results.

Card and batch are always of different people, drawn again in every split.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from bars import HIGHEST_FALSE_RATE, LOWEST_FOUND, MUST_BE_FOUND
from changes import SAME, Stager, dod_h, sleep_accel, sleep_edf
from cohorts import PUBLISHED

from stageguard.measures.drift import BATCH_NIGHTS, by_person, compare, feature_rows
from stageguard.night.stages import AASM5
from stageguard.profile.fingerprint import Fingerprint

FOLDER = Path(__file__).parent
SIZES = (3, 5, BATCH_NIGHTS)
N_SPLITS, N_SPLITS_OF_LABELS = 500, 100
N_CARDS, N_BATCHES = 100, 100  # simulated
SEED = 42


def alarms(stager: Stager, n_splits: int) -> list[dict]:
    """Return a row per change: kappa, rate of alarms by nights in the batch, rate of foreign nights."""
    people = sorted(set(stager.subjects.values()))
    nights_of = {person: [n for n, s in stager.subjects.items() if s == person] for person in people}
    n_card = len(people) - BATCH_NIGHTS
    rng = np.random.default_rng(SEED)
    found = {change: dict.fromkeys(SIZES, 0) for change in stager.after}
    foreign = dict.fromkeys(stager.after, 0)
    for _ in range(n_splits):
        order = rng.permutation(people).tolist()
        graded = [night for person in order[:n_card] for night in nights_of[person]]
        new = [str(rng.choice(nights_of[person])) for person in order[n_card:]]
        graded_features = [stager.after[SAME].features[night] for night in graded]
        slept = [stager.subjects[night] for night in graded]
        card = by_person(feature_rows(graded_features), slept, most=1)  # as in the batch
        fingerprint = Fingerprint.of(graded_features, AASM5)
        for change, nights in stager.after.items():
            rows = feature_rows([nights.features[night] for night in new])
            for size in SIZES:
                found[change][size] += compare(card, rows[:size]).is_alarm
            foreign[change] += sum(fingerprint.is_foreign(nights.features[night]) for night in new)
    return [
        {
            "stager": stager.name,
            "n_card": n_card,
            "n_splits": n_splits,
            "change": change,
            "kappa": round(nights.kappa, 3),
            "alarms": {str(size): n / n_splits for size, n in found[change].items()},
            "foreign_nights": foreign[change] / (n_splits * BATCH_NIGHTS),
        }
        for change, nights in stager.after.items()
    ]


def one_card(stager: Stager, n_card: int) -> dict:
    """Return rates of false alarms by card, on normal features that correlate as the stager's do."""
    nights = list(stager.subjects)
    rows = feature_rows([stager.after[SAME].features[night] for night in nights])
    rows = by_person(rows, [stager.subjects[night] for night in nights])
    rows = np.where(np.isnan(rows), np.nanmean(rows, axis=0), rows)
    varies = rows.std(axis=0) > 1e-9
    correlation = np.corrcoef(rows[:, varies].T) + 0.05 * np.eye(int(varies.sum()))  # 26 people, 21 features
    root, rng = np.linalg.cholesky(correlation), np.random.default_rng(SEED)

    def draw(n: int) -> np.ndarray:
        return rng.standard_normal((n, len(root))) @ root.T

    rates = []
    for _ in range(N_CARDS):
        card = draw(n_card)
        rates.append(np.mean([compare(card, draw(BATCH_NIGHTS)).is_alarm for _ in range(N_BATCHES)]))
    low, middle, high = np.percentile(rates, (5, 50, 95))
    return {"n_card": n_card, "mean": float(np.mean(rates)), "p5": low, "p50": middle, "p95": high}


def table(rows: Sequence[dict]) -> str:
    """Return the rows as Markdown."""
    head = (
        "| what changed | κ | "
        + " | ".join(f"{size} nights" for size in SIZES)
        + " | fingerprint, by night |"
    )
    lines = [head, "|---" * (3 + len(SIZES)) + "|"]
    for row in rows:
        rates = " | ".join(f"{100 * row['alarms'][str(size)]:.0f} %" for size in SIZES)
        lines.append(
            f"| {row['change']} | {row['kappa']:.2f} | {rates} | {100 * row['foreign_nights']:.0f} % |"
        )
    return "\n".join(lines)


def goals(rows: Sequence[dict]) -> list[str]:
    """Return a line per bar."""
    same = [row for row in rows if row["change"] == SAME]
    lines = []
    for row in same:
        rate, n = row["alarms"][str(BATCH_NIGHTS)], row["n_splits"]
        bar = HIGHEST_FALSE_RATE + 2 * (HIGHEST_FALSE_RATE * (1 - HIGHEST_FALSE_RATE) / n) ** 0.5
        lines.append(f"{row['stager']}: {100 * rate:.1f} % false, bar {100 * bar:.1f} %: {_met(rate <= bar)}")
    for row in rows:
        if row["change"] in MUST_BE_FOUND:
            rate = row["alarms"][str(BATCH_NIGHTS)]
            met = _met(rate >= LOWEST_FOUND)
            lines.append(f"{row['change']}: {100 * rate:.0f} % found, bar {100 * LOWEST_FOUND:.0f} %: {met}")
    return lines


def _met(is_met: bool) -> str:
    return "met" if is_met else "**not met**"


def page(results: dict) -> str:
    """Return the results as Markdown."""
    rows, cards = results["alarms"], results["one_card"]
    parts = [
        "# Drift: how often a batch alarms",
        "",
        "Written by `run.py`. Alarms by nights in the batch.",
        "",
    ]
    for stager in dict.fromkeys(row["stager"] for row in rows):
        own = [row for row in rows if row["stager"] == stager]
        people = f"card of {own[0]['n_card']} people, {own[0]['n_splits']} splits"
        parts += [f"## {stager} ({people})", "", table(own), ""]
    parts += ["## Bars", "", *(f"- {line}" for line in goals(rows)), "", "## One card", ""]
    parts += [
        f"- {card['n_card']} people, simulated: {100 * card['mean']:.1f} % on average over {N_CARDS} cards, "
        f"{100 * card['p5']:.1f} to {100 * card['p95']:.1f} % of one card's batches (5th to 95th percentile)"
        for card in cards
    ]
    return "\n".join(parts) + "\n"


def main() -> None:
    """Run all of it."""
    edf = sleep_edf()
    rows = alarms(edf, N_SPLITS) + alarms(sleep_accel(), N_SPLITS)
    for network in PUBLISHED:
        rows += alarms(dod_h(network), N_SPLITS_OF_LABELS)
    results = {"alarms": rows, "one_card": [one_card(edf, n_card) for n_card in (25, 100)]}
    (FOLDER / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    (FOLDER / "results.md").write_text(page(results), encoding="utf-8")
    print(page(results))


if __name__ == "__main__":
    main()
