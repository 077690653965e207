"""Count what experts score: transitions, bouts and fragmentation, per cohort and stage scheme.

Counts only. It fits nothing, and what it writes (``results.json``) are pooled figures from
which no recording can be rebuilt.

Usage: ``STAGEGUARD_DATA=/folder/of/real/data python count.py``; then ``python write_profiles.py``.

The rules, all of them:

* A pair is two adjacent scored epochs. No pair spans a gap, an artefact, a movement, an unscored epoch or the
  end of a recording. Every pair counts, self transitions included; the five scorers of a DOD-H night are
  counted separately and share one night's weight.
* A bout is complete when a scored epoch of another stage stands on either side. The others were cut by the
  recording, an artefact or a gap, and their length is unknown; shares and mean lengths leave them out.
* Figures per night are those of its sleep period (`stageguard.night.period`), from the first to the last
  lasting sleep, so that hours awake around it do not count; of mice, which sleep around the clock, of the
  recording. They need at least two scored hours in it. Transitions and bouts are counted on all that was
  scored. Percentiles are plain ones over nights, without bootstrap.
* A minimum bout of m epochs is *supported* when at most 10 % of the complete bouts are shorter than m for
  every scorer, laboratory and cohort with at least 30 complete bouts of that stage.
* A rare pair is *supported* when the probability it would be given (0.001 per epoch) is what experts show,
  within a factor of two, in every source. Where experts show more, it would discourage what they score.
  Where they show less, nothing is gained: the counted probability, used anyway, is the stricter one.
* A profile's transition matrix averages its sources with equal weight (shares of all pairs, then rows made
  to sum to one). Its target FI is the lower median of the sources' mean FI: of two the lower, of three the
  middle one. Its band for an indicator reaches from the lowest 5th to the highest 95th percentile of its
  sources.
* The clock is what experts score at each time since sleep onset, where the sleep period begins: the share of
  a stage among the scored epochs of that time, smoothed by a Gaussian of ten minutes, every cohort with equal
  weight, every night of a cohort too. A curve is the log of that share against the stage's share of all
  time, cut off at -4 and 2 nats.
* Shares of the stages are those of the sleep period, averaged over the scorers and nights of a person; mean
  and standard deviation over the people of each cohort. Of mice, recorded at any time of day, there are none.
* The joint score of a night is the root mean square of its standardised indicators, those with a band and
  those that exist on this night, each on the scale where nights are nearly normal: the log of rates and bout
  lengths, the arcsine of the root of shares (`stageguard.night.quantities` has the offsets for rates that can
  be 0). Stage changes per hour have a band but no part in it: they are FI in other units, and fragmentation
  would count twice. Of two-stage nights, flips and bouts of wake have no part either. Centre is the mean of
  the cohorts' means; the square of the scale is the mean variance within cohorts plus the variance between
  their means, both of samples. The threshold is the 90th percentile over expert nights, each scored by
  centres and scales of the other cohorts; scorers of a night share its weight.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import combinations
from pathlib import Path

import numpy as np
from cohorts import COHORTS, UNSCORED, Scoring, data_folder, main_sleep, read_all, read_sleep_edf

from stageguard.night.period import period_of
from stageguard.night.quantities import indicators_of

HERE = Path(__file__).parent

MINIMUM_HOURS_PER_NIGHT = 2.0
LONGEST_MINIMUM = 8  # epochs; longer minima are not looked for
SHORTER_ALLOWED_PERCENT = 10.0
FEWEST_BOUTS = 30
RARE_PROBABILITY = 0.001
RARE_FACTOR = 2.0

CLOCK_SOURCES = ("dod-h", "dod-o", "sleep-edf")
JOINT_SOURCES = CLOCK_SOURCES  # of people; of mice the laboratories
JOINT_PERCENT = 90.0
# The fragmentation index once more; with two stages also what tells flicker and experts apart poorly, see
# two_stage_score.md.
NOT_JOINT = {
    "aasm5": ("transitions_per_hour",),
    "wnr3": ("transitions_per_hour",),
    "ws2": ("transitions_per_hour", "flips_per_hour", "one_epoch_bouts_percent_W", "mean_bout_minutes_W"),
}
CLOCK_STEP_MINUTES, CLOCK_HORIZON_MINUTES = 5.0, 480.0
CLOCK_SMOOTHING_MINUTES = 10.0
CLOCK_NATS = (-4.0, 2.0)
EARLY_MINUTES = 15.0
RESTART_MINUTES = (30.0, 60.0)

# stage names, and for each of W N1 N2 N3 R its place among them
SCHEMES = {
    "aasm5": (("W", "N1", "N2", "N3", "R"), (0, 1, 2, 3, 4)),
    "wnr3": (("W", "N", "R"), (0, 1, 1, 1, 2)),
    "ws2": (("W", "S"), (0, 1, 1, 1, 1)),
}
# uncommon in human scorings, and so what a transition-violation rate may count
TVR_PAIRS = {
    "aasm5": (("W", "R"), ("W", "N3"), ("N1", "N3"), ("R", "N3"), ("N3", "R")),
    "wnr3": (("W", "R"),),
    "ws2": (),
}
# the published set, with NREM spelled out where the scheme divides it
PAPER_PAIRS = {
    "aasm5": (("W", "R"), ("R", "N1"), ("R", "N2"), ("R", "N3")),
    "wnr3": (("W", "R"), ("R", "N")),
    "ws2": (),
}
# which scorings each fitted profile stands on
PROFILES = {
    "human-psg-5": ("aasm5", ("dod-h", "sleep-edf")),
    "human-psg-3": ("wnr3", ("dod-h", "sleep-edf")),
    "human-cardiorespiratory-3": ("wnr3", ("sleep-accel", "slpdb")),
    "human-bioradar-3": ("wnr3", ("dod-h", "sleep-accel")),
    "human-actigraphy-2": ("ws2", ("sleep-accel", "sleep-edf")),
    "mouse-eeg-emg-3": ("wnr3", ("mouse/lab 1", "mouse/lab 2", "mouse/lab 3")),
}


def main() -> None:
    """Count everything and write the results beside this script."""
    results = count_all(read_all(folder := data_folder()))
    results["windows"] = sleep_edf_windows(folder)
    (HERE / "results.json").write_text(compact_json(results), encoding="utf-8")
    print(f"wrote {HERE / 'results.json'}; tables.py lays it out")


def count_all(scorings: Sequence[Scoring]) -> dict:
    """Every figure of the study, rounded, as plain JSON types."""
    cohorts = {name: count_cohort(name, select(scorings, name)) for name in COHORTS}
    profiles = {name: profile_numbers(scorings, cohorts, *spec) for name, spec in PROFILES.items()}
    between = {scheme: fi_ratio_between_scorers(select(scorings, "dod-h"), scheme) for scheme in SCHEMES}
    clock = {scheme: clock_numbers(scorings, scheme) for scheme in ("aasm5", "wnr3")}
    return tidy(
        {
            "cohorts": cohorts,
            "profiles": profiles,
            "between_scorers": between,
            "clock": clock,
            "shares": {scheme: stage_shares(scorings, scheme) for scheme in SCHEMES},
            "rules": rules(),
        }
    )


def count_cohort(name: str, scorings: Sequence[Scoring]) -> dict:
    """What is known about a cohort, its counts, and those of its scorers or laboratories."""
    cohort = COHORTS[name]

    def per_scheme(own: Sequence[Scoring]) -> dict:
        return {scheme: count(own, scheme, cohort.epoch_seconds) for scheme in cohort.schemes}

    return {
        **asdict(cohort),
        "n_subjects": len({scoring.subject for scoring in scorings}),
        "n_nights": len({scoring.night for scoring in scorings}),
        "n_scorers_per_night": round(1.0 / scorings[0].weight),
        "counts": per_scheme(scorings),
        "groups": {
            group: per_scheme(select(scorings, f"{name}/{group}"))
            for group in sorted({scoring.group for scoring in scorings} - {""})
        },
    }


def select(scorings: Iterable[Scoring], source: str) -> list[Scoring]:
    """Scorings of a cohort ("dod-h") or of one group of it ("mouse/lab 1")."""
    cohort, _, group = source.partition("/")
    return [s for s in scorings if s.cohort == cohort and group in ("", s.group)]


def in_scheme(scoring: Scoring, scheme: str) -> np.ndarray:
    """Labels as indices into the stages of a scheme."""
    if scoring.cohort == "mouse":  # scored as W N R already
        return scoring.labels
    merge = np.array([*SCHEMES[scheme][1], UNSCORED])  # index -1 stays unscored
    return merge[scoring.labels]


def pair_counts(labels: np.ndarray, n_stages: int) -> np.ndarray:
    """(from, to) counts of adjacent scored epochs."""
    before, after = labels[:-1], labels[1:]
    scored = (before != UNSCORED) & (after != UNSCORED)
    return np.bincount(before[scored] * n_stages + after[scored], minlength=n_stages * n_stages).reshape(
        n_stages, n_stages
    )


def complete_bouts(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Stage and length in epochs of the bouts that nothing but another stage ended, on either side."""
    edges = np.flatnonzero(np.diff(labels)) + 1
    starts = np.r_[0, edges]
    stages, lengths = labels[starts], np.diff(np.r_[starts, len(labels)])
    scored = stages != UNSCORED
    complete = np.zeros(len(stages), dtype=bool)
    complete[1:-1] = scored[:-2] & scored[1:-1] & scored[2:]
    return stages[complete], lengths[complete]


def night_figures(labels: np.ndarray, scheme: str, epoch_seconds: float, *, mouse: bool) -> dict[str, float]:
    """The indicators of one night, NaN where a stage has no complete bout."""
    names = SCHEMES[scheme][0]
    pairs = pair_counts(labels, len(names))
    n_pairs = pairs.sum()
    hours = (labels != UNSCORED).sum() * epoch_seconds / 3600
    fi = 1.0 - np.trace(pairs) / n_pairs
    single = (labels[:-2] == labels[2:]) & (labels[1:-1] != labels[2:])
    flips = single & (labels[2:] != UNSCORED) & (labels[1:-1] != UNSCORED)
    figures = {
        "fragmentation_index": fi,
        "transitions_per_hour": fi * 3600 / epoch_seconds,
        "tvr_percent": 100 * share_of(pairs, names, tvr_pairs(scheme, mouse=mouse)),
        "tvr_paper_percent": 100 * share_of(pairs, names, PAPER_PAIRS[scheme]),
        "flips_per_hour": flips.sum() / hours,
    }
    stages, lengths = complete_bouts(labels)
    for index, name in enumerate(names):
        own = lengths[stages == index]
        figures[f"one_epoch_bouts_percent_{name}"] = 100 * np.mean(own == 1) if len(own) else np.nan
        figures[f"mean_bout_minutes_{name}"] = own.mean() * epoch_seconds / 60 if len(own) else np.nan
    return figures


def tvr_pairs(scheme: str, *, mouse: bool) -> tuple[tuple[str, str], ...]:
    """Which pairs TVR counts: for mice the published ones."""
    return PAPER_PAIRS[scheme] if mouse else TVR_PAIRS[scheme]


def share_of(pairs: np.ndarray, names: Sequence[str], chosen: Iterable[tuple[str, str]]) -> float:
    """Share of all pairs that are among the chosen ones."""
    return float(sum(pairs[names.index(a), names.index(b)] for a, b in chosen) / pairs.sum())


def nightly(scorings: Sequence[Scoring], scheme: str, epoch_seconds: float) -> dict[str, np.ndarray]:
    """Each indicator over all nights that are long enough."""
    rows = [
        night_figures(in_period(scoring, scheme), scheme, epoch_seconds, mouse=scoring.cohort == "mouse")
        for scoring in scorings
        if is_long_enough(scoring, epoch_seconds)
    ]
    return {key: np.array([row[key] for row in rows]) for key in rows[0]}


def is_long_enough(scoring: Scoring, epoch_seconds: float) -> bool:
    """Whether figures of this night count."""
    scored = slice(*period_in(scoring))
    return (scoring.labels[scored] != UNSCORED).sum() * epoch_seconds >= MINIMUM_HOURS_PER_NIGHT * 3600


def period_in(scoring: Scoring) -> tuple[int, int]:
    """First epoch of the sleep period and the epoch after it; the whole recording of a mouse."""
    if scoring.cohort == "mouse":
        return 0, len(scoring.labels)
    return period_of(scoring.labels, 0, COHORTS[scoring.cohort].epoch_seconds)


def in_period(scoring: Scoring, scheme: str) -> np.ndarray:
    """Labels of the sleep period as indices into the stages of a scheme."""
    return in_scheme(scoring, scheme)[slice(*period_in(scoring))]


def count(scorings: Sequence[Scoring], scheme: str, epoch_seconds: float) -> dict:
    """Pooled and nightly figures of one source in one scheme."""
    names = SCHEMES[scheme][0]
    n_stages = len(names)
    pairs = np.zeros((n_stages, n_stages))
    nights_with = np.zeros((n_stages, n_stages))
    n_bouts = np.zeros(n_stages)
    shorter = np.zeros((LONGEST_MINIMUM - 1, n_stages))  # row m - 2: bouts shorter than m epochs
    for scoring in scorings:
        labels = in_scheme(scoring, scheme)
        own = pair_counts(labels, n_stages)
        pairs += own * scoring.weight
        nights_with += (own > 0) * scoring.weight
        stages, lengths = complete_bouts(labels)
        n_bouts += np.bincount(stages, minlength=n_stages)
        for minimum in range(2, LONGEST_MINIMUM + 1):
            shorter[minimum - 2] += np.bincount(stages[lengths < minimum], minlength=n_stages)
    exits = pairs * (1 - np.eye(n_stages))
    n_nights = sum(scoring.weight for scoring in scorings)
    return {
        "stages": list(names),
        "n_subjects": len({scoring.subject for scoring in scorings}),
        "n_nights": len({scoring.night for scoring in scorings}),
        "n_scorings": len(scorings),
        "n_pairs": pairs.sum(),
        "pairs": pairs.tolist(),
        "transitions": (pairs / pairs.sum(1, keepdims=True)).tolist(),
        "exits_percent": (100 * exits / exits.sum(1, keepdims=True)).tolist(),
        "switches_percent": (100 * exits / exits.sum()).tolist(),
        "nights_with_percent": (100 * nights_with / n_nights * (1 - np.eye(n_stages))).tolist(),
        "n_complete_bouts": n_bouts.tolist(),
        "shorter_percent": {
            str(m): (100 * shorter[m - 2] / n_bouts).tolist() for m in range(2, LONGEST_MINIMUM + 1)
        },
        "nights": {key: summary(values) for key, values in nightly(scorings, scheme, epoch_seconds).items()},
    }


def summary(values: np.ndarray) -> dict[str, float]:
    """Mean and percentiles over the nights where the figure exists."""
    known = values[~np.isnan(values)]
    if not len(known):
        return {"n": 0}
    low, median, high = np.percentile(known, [5, 50, 95])
    return {"n": len(known), "mean": known.mean(), "p5": low, "median": median, "p95": high}


def found(cohorts: dict, source: str, scheme: str) -> dict:
    """Look a source's counts up."""
    cohort, _, group = source.partition("/")
    return (cohorts[cohort]["groups"][group] if group else cohorts[cohort]["counts"])[scheme]


def profile_numbers(scorings: Sequence[Scoring], cohorts: dict, scheme: str, sources: Sequence[str]) -> dict:
    """All a fitted profile needs, from its sources, and how well it suits every cohort with its stages."""
    counts = [found(cohorts, source, scheme) for source in sources]
    mouse = sources[0].startswith("mouse")
    joint = np.mean([np.array(c["pairs"]) / c["n_pairs"] for c in counts], axis=0)
    if not joint.all():
        raise ValueError(f"{scheme}, {sources}: a switch was never seen and would be forbidden; add a source")
    by_source = dict(zip(sources, counts, strict=True))
    means = {source: c["nights"]["fragmentation_index"]["mean"] for source, c in by_source.items()}
    fi_target = sorted(means.values())[(len(means) - 1) // 2]
    bands = expert_bands([c["nights"] for c in counts])
    names = SCHEMES[scheme][0]
    minima = supported_minimum(habits(cohorts, sources, scheme))
    return {
        "scheme": scheme,
        "stages": list(names),
        "sources": list(sources),
        "epoch_seconds": COHORTS[sources[0].partition("/")[0]].epoch_seconds,
        "transitions": (joint / joint.sum(1, keepdims=True)).tolist(),
        "fi_means": means,
        "fi_target": fi_target,
        "bands": bands,
        "joint": joint_numbers(scorings, scheme, sources if mouse else JOINT_SOURCES, bands),
        "tvr_pairs": [list(pair) for pair in tvr_pairs(scheme, mouse=mouse)],
        "supported_minimum_epochs": dict(zip(names, minima, strict=True)),
        "rare": rare_support(counts, names, PAPER_PAIRS[scheme]),
        "fit": {
            source: suitability(select(scorings, source), scheme, bands["fragmentation_index"], fi_target)
            for source in (sources if mouse else [c for c in COHORTS if c != "mouse"])
        },
    }


def expert_bands(nights: Sequence[dict]) -> dict[str, list[float]]:
    """Lowest 5th to highest 95th percentile of the sources; an indicator that never varies has no band."""
    keys = [key for key in nights[0] if key != "tvr_paper_percent"]
    bands = {key: [min(n[key]["p5"] for n in nights), max(n[key]["p95"] for n in nights)] for key in keys}
    return {key: band for key, band in bands.items() if band[0] < band[1]}


def joint_numbers(scorings: Sequence[Scoring], scheme: str, sources: Sequence[str], bands: dict) -> dict:
    """Centre and scale of the indicators with a band, the threshold, and how often it flags experts."""
    sources, mouse = list(sources), sources[0].startswith("mouse")
    keys = [key for key in bands if key not in NOT_JOINT[scheme]]
    others = [] if mouse else [name for name in COHORTS if name not in (*sources, "mouse")]
    nights = {name: joint_nights(select(scorings, name), scheme, keys) for name in (*sources, *others)}
    scales = joint_scales([nights[name][0] for name in sources])
    threshold = joint_threshold({name: nights[name] for name in sources})
    flagged = {}
    for name in sources:
        rest = {other: nights[other] for other in sources if other != name}
        scores = joint_scores(nights[name][0], joint_scales([figures for figures, _ in rest.values()]))
        flagged[name] = 100 * np.mean(scores > joint_threshold(rest))
    outside = {name: outside_a_band_percent(select(scorings, name), scheme, bands) for name in nights}
    elsewhere = {name: 100 * np.mean(joint_scores(nights[name][0], scales) > threshold) for name in others}
    return {
        "sources": sources,
        "n_scorings": sum(len(nights[name][1]) for name in sources),
        "threshold": threshold,
        "indicators": {key: list(scale) for key, scale in scales.items()},
        "flagged_if_left_out_percent": flagged,
        "flagged_never_counted_percent": elsewhere,
        "outside_a_band_percent": outside,
    }


def joint_nights(
    scorings: Sequence[Scoring], scheme: str, keys: Iterable[str]
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Indicators of a cohort's nights on the scales where they are nearly normal, and the nights' weights."""
    epoch_seconds = COHORTS[scorings[0].cohort].epoch_seconds
    figures, known = nightly(scorings, scheme, epoch_seconds), indicators_of(SCHEMES[scheme][0])
    weights = [scoring.weight for scoring in scorings if is_long_enough(scoring, epoch_seconds)]
    return {key: np.array([known[key].normal(x) for x in figures[key]]) for key in keys}, np.array(weights)


def joint_scales(cohorts: Sequence[dict[str, np.ndarray]]) -> dict[str, tuple[float, float]]:
    """Centre and scale of every indicator that varies."""
    scales = {}
    for key in cohorts[0]:
        means = [np.nanmean(figures[key]) for figures in cohorts]
        between = np.var(means, ddof=1) if len(means) > 1 else 0.0
        variance = np.mean([np.nanvar(figures[key], ddof=1) for figures in cohorts]) + between
        if variance > 0:
            scales[key] = float(np.mean(means)), float(np.sqrt(variance))
    return scales


def joint_scores(figures: dict[str, np.ndarray], scales: dict[str, tuple[float, float]]) -> np.ndarray:
    """Root mean square of the standardised indicators that exist, per night."""
    z = np.array([(figures[key] - centre) / scale for key, (centre, scale) in scales.items()])
    return np.sqrt(np.nanmean(z**2, axis=0))


def joint_threshold(nights: dict[str, tuple[dict[str, np.ndarray], np.ndarray]]) -> float:
    """Least score that nine of ten nights do not exceed, each scored by the other cohorts."""
    scores = [
        joint_scores(figures, joint_scales([nights[other][0] for other in nights if other != name]))
        for name, (figures, _) in nights.items()
    ]
    pooled, weights = np.concatenate(scores), np.concatenate([weights for _, weights in nights.values()])
    order = np.argsort(pooled)
    reached = np.cumsum(weights[order]) / weights.sum()
    return float(pooled[order][np.searchsorted(reached, JOINT_PERCENT / 100 - 1e-12)])


def outside_a_band_percent(scorings: Sequence[Scoring], scheme: str, bands: dict) -> float:
    """Percent of expert nights that leave at least one single band."""
    figures = nightly(scorings, scheme, COHORTS[scorings[0].cohort].epoch_seconds)
    outside = [(figures[key] < low) | (figures[key] > high) for key, (low, high) in bands.items()]
    return 100 * np.mean(np.any(outside, axis=0))


def habits(cohorts: dict, sources: Sequence[str], scheme: str) -> list[dict]:
    """Counts divided as finely as scoring habits go: by scorer or laboratory where known."""
    fine = []
    for source in sources:
        groups = {} if "/" in source else cohorts[source]["groups"]
        fine += [group[scheme] for group in groups.values()] or [found(cohorts, source, scheme)]
    return fine


def supported_minimum(counts: Sequence[dict]) -> list[int]:
    """Largest minimum per stage, in epochs, that the rule above supports; 1 means none."""
    supported = []
    for index in range(len(counts[0]["stages"])):
        minimum = 1
        for m in range(2, LONGEST_MINIMUM + 1):
            known = [c for c in counts if c["n_complete_bouts"][index] >= FEWEST_BOUTS]
            if not known or any(c["shorter_percent"][str(m)][index] > SHORTER_ALLOWED_PERCENT for c in known):
                break
            minimum = m
        supported.append(minimum)
    return supported


def rare_support(counts: Sequence[dict], names: Sequence[str], pairs: Iterable[tuple[str, str]]) -> dict:
    """For each published rare pair: its range over the sources, and whether 0.001 is what experts show."""
    support = {}
    for a, b in pairs:
        at = names.index(a), names.index(b)
        probabilities = [c["transitions"][at[0]][at[1]] for c in counts]
        exits = [c["exits_percent"][at[0]][at[1]] for c in counts]
        near = all(1 / RARE_FACTOR <= p / RARE_PROBABILITY <= RARE_FACTOR for p in probabilities)
        support[f"{a}->{b}"] = {
            "probability_per_epoch": [min(probabilities), max(probabilities)],
            "percent_of_exits": [min(exits), max(exits)],
            "supported": near,
        }
    return support


def suitability(scorings: Sequence[Scoring], scheme: str, band: Sequence[float], fi_target: float) -> dict:
    """Where the experts' own nights lie: in the expert band, and within half to twice the target FI."""
    epoch_seconds = COHORTS[scorings[0].cohort].epoch_seconds
    fi = nightly(scorings, scheme, epoch_seconds)["fragmentation_index"]
    return {
        "in_band_percent": 100 * np.mean((fi >= band[0]) & (fi <= band[1])),
        "below_half_target_percent": 100 * np.mean(fi < fi_target / 2),
        "above_twice_target_percent": 100 * np.mean(fi > 2 * fi_target),
    }


def fi_ratio_between_scorers(scorings: Sequence[Scoring], scheme: str) -> dict:
    """How many times more fragmented one expert scores a night than another: all pairs of scorers."""
    fi: dict[str, list[float]] = {}
    for scoring in scorings:
        own = nightly([scoring], scheme, COHORTS[scoring.cohort].epoch_seconds)["fragmentation_index"]
        fi.setdefault(scoring.night, []).append(float(own[0]))
    ratios = [max(a, b) / min(a, b) for night in fi.values() for a, b in combinations(night, 2)]
    return {"n_pairs": len(ratios), "median": np.median(ratios), "p90": np.percentile(ratios, 90)}


def sleep_edf_windows(folder: Path) -> dict:
    """Mean FI of Sleep-EDF for three ways to cut its day-long recordings."""
    whole = list(read_sleep_edf(folder, crop=False))
    cuts = {
        "as delivered": [s.labels for s in whole],
        "main sleep and 30 min on either side (used)": [main_sleep(s.labels) for s in whole],
        "main sleep only": [main_sleep(s.labels, margin=0) for s in whole],
    }
    return tidy(
        {
            cut: {
                scheme: nightly([Scoring("sleep-edf", "", "", "", y) for y in nights], scheme, 30.0)[
                    "fragmentation_index"
                ].mean()
                for scheme in SCHEMES
            }
            for cut, nights in cuts.items()
        }
    )


def clock_numbers(scorings: Sequence[Scoring], scheme: str) -> dict:
    """Curves of every stage over the time since sleep onset, early REM, and REM after a long wake."""
    by_cohort = {name: select(scorings, name) for name in COHORTS if name != "mouse"}
    return {
        "sources": list(CLOCK_SOURCES),
        "step_minutes": CLOCK_STEP_MINUTES,
        "curves": clock_curves([by_cohort[name] for name in CLOCK_SOURCES], scheme),
        "curves_without": {
            left_out: clock_curves([by_cohort[name] for name in CLOCK_SOURCES if name != left_out], scheme)
            for left_out in CLOCK_SOURCES
        },
        "early_rem_percent": {name: early_rem_percent(own, scheme) for name, own in by_cohort.items()},
        "rem_after_wake": {
            f"{minutes:g}": rem_after_wake(scorings, scheme, minutes) for minutes in RESTART_MINUTES
        },
    }


def clock_curves(cohorts: Sequence[Sequence[Scoring]], scheme: str) -> dict[str, list[float]]:
    """Nats per stage every five minutes since sleep onset."""
    names = SCHEMES[scheme][0]
    n_epochs = round(CLOCK_HORIZON_MINUTES * 2) + 1
    seen = np.zeros((n_epochs, len(names)))
    for own in cohorts:
        n_nights = sum(scoring.weight for scoring in own)
        for scoring in own:
            labels = since_onset(scoring, scheme)[:n_epochs]
            scored = np.flatnonzero(labels != UNSCORED)
            seen[scored, labels[scored]] += scoring.weight / n_nights
    width = 2 * CLOCK_SMOOTHING_MINUTES
    bell = np.exp(-0.5 * (np.arange(-4 * width, 4 * width + 1) / width) ** 2)
    smooth = np.stack([np.convolve(column, bell, "same") for column in seen.T], axis=1)
    shares = smooth / smooth.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        nats = np.clip(np.log(shares / (seen.sum(axis=0) / seen.sum())), *CLOCK_NATS)
    step = round(CLOCK_STEP_MINUTES * 2)
    return {name: np.round(nats[::step, stage], 3).tolist() for stage, name in enumerate(names)}


def since_onset(scoring: Scoring, scheme: str) -> np.ndarray:
    """The night from the beginning of its sleep period on; empty where nobody sleeps."""
    first, stop = period_in(scoring)
    return in_scheme(scoring, scheme)[first:] if first < stop else scoring.labels[:0]


def early_rem_percent(scorings: Sequence[Scoring], scheme: str) -> float:
    """Percent of nights with REM whose first REM comes within a quarter of an hour of sleep onset."""
    rem = len(SCHEMES[scheme][0]) - 1
    nights = [since_onset(scoring, scheme) for scoring in scorings]
    first = [np.argmax(night == rem) / 2 for night in nights if (night == rem).any()]
    return 100 * np.mean(np.array(first) < EARLY_MINUTES)


def rem_after_wake(scorings: Sequence[Scoring], scheme: str, minutes: float) -> dict:
    """Percent REM of the sleep in the first quarter of an hour after an unbroken wake within the night."""
    rem, shares = len(SCHEMES[scheme][0]) - 1, []
    for scoring in scorings:
        if scoring.cohort == "mouse":
            continue
        labels = since_onset(scoring, scheme)
        asleep = np.flatnonzero(labels > 0)
        for i in np.flatnonzero(np.diff(asleep) > 2 * minutes):
            again = labels[asleep[i + 1] : asleep[i + 1] + round(2 * EARLY_MINUTES)]
            if (labels[asleep[i] + 1 : asleep[i + 1]] == 0).all():
                shares.append(np.mean(again[again > 0] == rem))
    return {"n_onsets": len(shares), "rem_percent": 100 * np.mean(shares)}


def stage_shares(scorings: Sequence[Scoring], scheme: str) -> dict:
    """Mean and standard deviation over people of each stage's share, per cohort."""
    names, counted = SCHEMES[scheme][0], {}
    for cohort in COHORTS:
        people: dict[str, list[np.ndarray]] = {}
        for scoring in select(scorings, cohort):
            if cohort != "mouse" and is_long_enough(scoring, COHORTS[cohort].epoch_seconds):
                labels = in_period(scoring, scheme)
                seen = np.bincount(labels[labels != UNSCORED], minlength=len(names))
                people.setdefault(scoring.subject, []).append(seen / seen.sum())
        if people:
            shares = np.array([np.mean(own, axis=0) for own in people.values()])  # (n_people, n_stages)
            pairs = zip(shares.mean(axis=0).tolist(), shares.std(axis=0, ddof=1).tolist(), strict=True)
            by_stage = dict(zip(names, map(list, pairs), strict=True))
            counted[cohort] = {"n_people": len(shares), "mean_and_sd": by_stage}
    return counted


def rules() -> dict:
    """The numbers in the rules at the top of this file."""
    return {
        "minimum_hours_per_night": MINIMUM_HOURS_PER_NIGHT,
        "shorter_allowed_percent": SHORTER_ALLOWED_PERCENT,
        "fewest_bouts": FEWEST_BOUTS,
        "rare_probability": RARE_PROBABILITY,
        "rare_factor": RARE_FACTOR,
    }


def compact_json(results: dict) -> str:
    """Indented JSON whose innermost lists and tables take one line each."""
    text = json.dumps(results, indent=1)
    return re.sub(r"[\[{][^\[\]{}]*[\]}]", lambda inner: " ".join(inner[0].split()), text) + "\n"


def tidy(value: object) -> object:
    """Round to six digits and turn numpy into plain types, so that the file is the same on every machine."""
    if isinstance(value, dict):
        return {key: tidy(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [tidy(entry) for entry in value]
    if isinstance(value, (float, np.floating)):
        return None if np.isnan(value) else float(f"{value:.6g}")
    return value.item() if isinstance(value, np.generic) else value


if __name__ == "__main__":
    main()
