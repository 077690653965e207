"""Turn ``results.json`` into the profiles that ship with the package.

Numbers of the fitted profiles come from the counts, those of the published ones from
``paper.toml``, those of the authors' released code and of the extension to five stages from
``released.toml``, words from all three and ``words.toml``.

Usage: ``python write_profiles.py [FOLDER]``; the default folder is the package's own.
"""

from __future__ import annotations

import json
import math
import sys
import tomllib
from pathlib import Path

from toml_text import line, section

HERE = Path(__file__).parent
POSTERIOR = HERE.parent / "posterior" / "results.json"
STREAMING = HERE.parent / "streaming" / "results.json"
# no stager of a radar is at hand: those of heart and breathing stand for it
MEASURED_AS = {"human-bioradar-3": "human-cardiorespiratory-3"}
LABEL_SHARES = HERE.parent / "label-shares" / "results.json"
FOLDER = HERE.parents[1] / "src" / "stageguard" / "profile" / "builtin"
SCRIPT = "studies/expert-scorings/count.py"
HEADER = "# Written by studies/expert-scorings/write_profiles.py: change it there, not here."

FLOOR, CAP = 0.5, 2.0  # of mice, our choice: as far as two experts are apart, see results.md
ACT_ABOVE, SOFT = 1.5, 0.6  # of people, chosen on nights of several stagers, see ../guard-on-real-data
ACT_ABOVE_OF = {"human-psg-3": 1.986}  # the end of its experts' range: labels and stagers of other data gain
TYPICAL = 1.75  # chosen with cohorts left out, see ../one-night
CLOCK_STAGE, CLOCK_WEIGHT, CLOCK_MINUTES = "R", 0.75, 40.0  # chosen there, too
CLOCK_SPARE_MINUTES = 8.0  # of early bouts under 8 min experts confirm 1 to 6 %, of 10 min and more 75 %
CLOCK_RESTART_MINUTES = 60.0  # after which experts score no REM at sleep onset, see results.md


def main() -> None:
    """Write all profiles."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    results = json.loads((HERE / "results.json").read_text(encoding="utf-8"))
    for name, text in all_profiles(results).items():
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")
        print(f"wrote {name}.toml")


def all_profiles(results: dict) -> dict[str, str]:
    """Return the text of every shipped profile by name."""
    words = tomllib.loads((HERE / "words.toml").read_text(encoding="utf-8"))
    paper = tomllib.loads((HERE / "paper.toml").read_text(encoding="utf-8"))
    fitted = {name: fitted_profile(name, results, words) for name in words["profiles"]}
    released = tomllib.loads((HERE / "released.toml").read_text(encoding="utf-8"))
    return (
        fitted
        | {name: paper_profile(name, results, paper, words) for name in paper["profiles"]}
        | {name: carried_profile(name, results, paper, released, words) for name in released["profiles"]}
    )


# Fitted profiles


def fitted_profile(name: str, results: dict, words: dict) -> str:
    """Return the text of one fitted profile."""
    numbers, own = results["profiles"][name], words["profiles"][name]
    own = own | {"act_above": ACT_ABOVE_OF.get(name, ACT_ABOVE)}
    strength = {"rule": "band", "fi_target": round(numbers["fi_target"], 4), "floor": FLOOR, "cap": CAP}
    if species_of(own) == "human":
        limits = {"floor": FLOOR, "act_above": own["act_above"], "soft": SOFT, "typical": TYPICAL}
        strength = {"rule": "target", "fi_target": strength["fi_target"], **limits}
    head = [
        HEADER,
        line("name", name),
        line("summary", own["summary"].strip()),
        line("intended_for", own["intended_for"].strip()),
        line("species", species_of(own)),
        line("scheme", numbers["scheme"]),
        line("epoch_seconds", numbers["epoch_seconds"]),
        line("stay", "self"),
        line("ends", "censored", "the recording, not the sleeper, cut the first and the last bout"),
        line("strength", strength, f"lower median of the mean FI of {fi_means(numbers)}"),
        line("rare", [], f"none supported: {rare_reason(numbers)}"),
        line("tvr_pairs", numbers["tvr_pairs"], "counted and reported, not discouraged"),
        f"# No minimum bouts, no flip-flop penalty: {minimum_reason(numbers)}.",
    ]
    origin = f"counted on {', '.join(numbers['sources'])}, equal weight each"
    return (
        "\n\n".join(
            [
                "\n".join(head),
                *(section("[[not_for]]", entry) for entry in fitted_cautions(own, numbers, words, results)),
                section("[transitions]", by_stage(numbers["stages"], numbers["transitions"]), origin),
                *labels_section(name, own),
                *clock_section(numbers, own, results),
                streaming_section(name),
                *posterior_section(name),
                section("[bands]", bands(numbers, results)),
                section("[joint]", joint(numbers)),
                *shares_section(numbers, own, results),
                *fitted_provenance(numbers, own, results),
            ]
        )
        + "\n"
    )


def clock_section(numbers: dict, own: dict, results: dict) -> list[str]:
    """REM's curve over the time since sleep onset, for people whose REM is scored."""
    if species_of(own) != "human" or CLOCK_STAGE not in numbers["stages"]:
        return []
    clock = results["clock"][numbers["scheme"]]
    n_steps = round(CLOCK_MINUTES / clock["step_minutes"])
    entries = {
        "weight": CLOCK_WEIGHT,
        "step_minutes": clock["step_minutes"],
        "spare_minutes": CLOCK_SPARE_MINUTES,
        "restart_wake_minutes": CLOCK_RESTART_MINUTES,
        "curves": {CLOCK_STAGE: clock["curves"][CLOCK_STAGE][: n_steps + 1]},
    }
    return [section("[clock]", entries, f"counted on {', '.join(clock['sources'])}, equal weight each")]


def streaming_section(name: str) -> str:
    """The transition weights of recordings in progress."""
    chosen = json.loads(STREAMING.read_text(encoding="utf-8"))
    measured_on = MEASURED_AS.get(name, name)
    found = chosen[measured_on]
    as_other = "" if measured_on == name else f" under {measured_on}"
    source = (
        f"steady stagers: {found['n_steady']}, flickering: {found['n_flickering']}, of "
        f"{', '.join(found['cohorts'])}{as_other}: studies/streaming"
    )
    weights = {key: found[key] for key in ("transition_weight", "flickering")}
    return section("[streaming]", {**weights, "source": source})


def posterior_section(name: str) -> list[str]:
    """How far stagers err alike all night, for people."""
    counted = json.loads(POSTERIOR.read_text(encoding="utf-8"))
    measured_on = MEASURED_AS.get(name, name)
    if measured_on not in counted:
        return []
    found = counted[measured_on]
    cohorts = ", ".join(found["rules_without"])
    source = (
        f"chosen on {len(found['usable'])} stagers of {cohorts}; coverage of 90 % intervals on each cohort "
        "by what was chosen on the others: studies/posterior"
    )
    keys = ("weight", "weight_sd", "floor", "presleep_stay", "sol_factor", "stage_sd")
    entries = {key: found["rules"][key] for key in keys}
    coverage = {
        kind: {statistic: round(share, 2) for statistic, share in row.items()}
        for kind, row in found["coverage"].items()
    }
    return [section("[posterior]", {**entries, "source": source, "coverage": coverage})]


def labels_section(name: str, own: dict) -> list[str]:
    """Return what experts say where a stager says each stage, or why labels alone are refused."""
    if "labels_refused" in own:
        return [section("[labels]", {"refused": own["labels_refused"].strip()})]
    shares = json.loads(LABEL_SHARES.read_text(encoding="utf-8"))[name]["shares"]
    return [section("[labels]", {"source": own["labels_source"].strip(), "shares": shares})]


def shares_section(numbers: dict, own: dict, results: dict) -> list[str]:
    """Return the shares of the stages over people, in every cohort whose scorings are at hand.

    Not of two stages, where the repair of a stager's shares gained nothing (../share-repair).
    """
    if species_of(own) != "human" or len(numbers["stages"]) < 3:
        return []
    counted = results["shares"][numbers["scheme"]]
    named = ", ".join(f"{cohort} ({entry['n_people']})" for cohort, entry in counted.items())
    source = f"mean and standard deviation over people of the stages' shares of the sleep period: {named}"
    cohorts = {
        cohort: {stage: [round(value, 4) for value in pair] for stage, pair in entry["mean_and_sd"].items()}
        for cohort, entry in counted.items()
    }
    return [section("[shares]", {"source": source, "cohorts": cohorts})]


def by_stage(stages: list[str], matrix: list[list[float]]) -> dict[str, dict[str, float]]:
    """A matrix as nested tables."""
    return {a: dict(zip(stages, row, strict=True)) for a, row in zip(stages, matrix, strict=True)}


def fitted_cautions(own: dict, numbers: dict, words: dict, results: dict) -> list[dict]:
    """``not_for`` of a fitted profile, its figures filled in."""
    species, fragments = species_of(own), words["fragments"]
    above = own["act_above"] if species == "human" else CAP
    limit = f"{above * round(numbers['fi_target'], 4):.4g}"
    fill = {
        "epoch": f"{numbers['epoch_seconds']:g}",
        "smoothed": fragments[f"smoothed_{species}"].format(limit=limit, whom=fragments["whom"][species]),
    }
    if "slpdb" in numbers["fit"]:
        share = numbers["fit"]["slpdb"]["above_twice_target_percent"]
        fill["apnoea"] = fragments["apnoea"].format(share=f"{share:.0f}")
    has_clock = bool(clock_section(numbers, own, results))
    return [
        caution(entry, entry[species].format(**fill), species, words, has_clock=has_clock)
        for entry in words["cautions"]
        if species in entry and (has_clock or entry.get("stops_clock") != "alone")
    ]


def caution(entry: dict, reason: str, species: str, words: dict, *, has_clock: bool = False) -> dict:
    """One entry of ``not_for``."""
    cohort = entry["cohort"]
    aliases = words["aliases"].get(cohort, []) + words[f"aliases_{species}"].get(cohort, [])
    made = {"cohort": cohort, "aliases": aliases, "action": entry["action"], "reason": reason}
    return made | {"clock": False} if has_clock and entry.get("stops_clock") else made


def species_of(own: dict) -> str:
    """Whose profile it is."""
    return own.get("species", "human")


def fi_means(numbers: dict) -> str:
    """Mean FI by source, in words."""
    return ", ".join(f"{source} {mean:.4f}" for source, mean in numbers["fi_means"].items())


def rare_reason(numbers: dict) -> str:
    """Why no pair is rare, from the counts."""
    if not numbers["rare"]:
        return "with two stages there is one way to go only"
    if any(entry["supported"] for entry in numbers["rare"].values()):
        raise ValueError(f"the counts support a rare pair, decide anew: {numbers['rare']}")
    shares = []
    for pair, entry in numbers["rare"].items():
        low, high = entry["percent_of_exits"]
        shares.append(f"{pair} {low:.1f}-{high:.1f} %")
    return f"of a stage's exits experts score {', '.join(shares)}, which the transitions hold already"


def minimum_reason(numbers: dict) -> str:
    """Which minima experts support, and why none is imposed."""
    listed = ", ".join(f"{stage} {seconds:g} s" for stage, seconds in supported_minima(numbers).items())
    if not listed:
        return "in no stage do experts keep to a minimum"
    why = "a hard minimum would change nights the rule leaves alone"
    return f"experts keep to {listed} in nine bouts of ten, but {why}"


def supported_minima(numbers: dict) -> dict[str, float]:
    """Supported minimum bouts in seconds, only where there is one."""
    epochs = numbers["supported_minimum_epochs"]
    return {stage: n * numbers["epoch_seconds"] for stage, n in epochs.items() if n > 1}


def bands(numbers: dict, results: dict) -> dict[str, dict]:
    """Expert ranges with source and unit."""
    n_scorings = sum(counts_of(results, source, numbers)["n_scorings"] for source in numbers["sources"])
    named = ", ".join(numbers["sources"])
    source = f"5th to 95th percentile over expert nights, widest of {named} ({n_scorings} scorings)"
    return {
        key: {"low": float(f"{low:.4g}"), "high": float(f"{high:.4g}"), "source": source, "unit": unit(key)}
        for key, (low, high) in numbers["bands"].items()
    }


def joint(numbers: dict) -> dict[str, object]:
    """The joint score of the indicators counted in it, and what experts stay under."""
    counted = numbers["joint"]
    named = f"{', '.join(counted['sources'])} ({counted['n_scorings']} scorings)"
    scales = {
        key: {"centre": float(f"{centre:.4g}"), "scale": float(f"{scale:.4g}")}
        for key, (centre, scale) in counted["indicators"].items()
    }
    source = f"90th percentile over expert nights, each scored by the other cohorts of {named}"
    return {"threshold": float(f"{counted['threshold']:.4g}"), "source": source, "indicators": scales}


def unit(key: str) -> str:
    """Unit of an indicator, from its name."""
    if "percent" in key:
        return "% of adjacent scored pairs" if key.startswith("tvr") else "% of complete bouts"
    if key.endswith("per_hour"):
        return "per hour"
    return "min" if key.startswith("mean_bout") else "per adjacent scored pair"


def counts_of(results: dict, source: str, numbers: dict) -> dict:
    """Counts of a cohort, or of one of its groups."""
    cohort, _, group = source.partition("/")
    entry = results["cohorts"][cohort]
    return (entry["groups"][group] if group else entry["counts"])[numbers["scheme"]]


def fitted_provenance(numbers: dict, own: dict, results: dict) -> list[str]:
    """Who was scored, how many, by whom; and what was decided on that ground."""
    counts = {source: counts_of(results, source, numbers) for source in numbers["sources"]}
    total = {key: sum(c[key] for c in counts.values()) for key in ("n_nights", "n_subjects", "n_scorings")}
    entries = {
        "source": "Counted on expert scorings: " + ", ".join(numbers["sources"]),
        **total,
        "script": SCRIPT,
        "results": "studies/expert-scorings/results.md",
        "choice_of_cohorts": own["choice"].strip(),
        "modality": own["modality"].strip(),
        "fi_target": f"lower median of the sources' mean FI over nights: {fi_means(numbers)}",
        **strength_provenance(own),
        "rare": f"none: {rare_reason(numbers)}",
        "minimum_bouts": f"none: {minimum_reason(numbers)}",
        **clock_provenance(numbers, own, results),
        "supported_minimum_bout_seconds": supported_minima(numbers),
    }
    sections = [section("[provenance]", entries)]
    for source, c in counts.items():
        cohort = results["cohorts"][source.partition("/")[0]]
        entries = {
            **{key: cohort[key] for key in ("title", "people", "rules", "citation", "n_scorers_per_night")},
            **{key: c[key] for key in ("n_nights", "n_subjects")},
            "mean_fragmentation_index": round(numbers["fi_means"][source], 4),
        }
        sections.append(section(f"[provenance.cohorts.{table_name(source)}]", entries))
    above = {table_name(s): round(fit["above_twice_target_percent"]) for s, fit in numbers["fit"].items()}
    return [*sections, section("[provenance.expert_nights_above_twice_the_target_percent]", above)]


def strength_provenance(own: dict) -> dict[str, str]:
    """What the values of the rule for people stand on, in words."""
    if species_of(own) != "human":
        return {}
    typical = (
        f"typical {TYPICAL:g}, of none and 1.5 to 2.5: least errors and distance of fragmentation from the "
        "experts', also where the cohort or the stager did not choose it"
    )
    trigger = (
        f"act_above {ACT_ABOVE:g}: others, up to 2.5, were no better on cohorts left out, in 5, 3 or 2 "
        "stages (studies/one-night)"
    )
    if own["act_above"] != ACT_ABOVE:
        trigger = (
            f"act_above {own['act_above']:g}: the end of the experts' range of nights; on nights of other "
            f"laboratories errors .849 -> .848 of argmax's against {ACT_ABOVE:g}, kappa worse nowhere"
        )
    return {"strength": f"{typical}; {trigger}"}


def clock_provenance(numbers: dict, own: dict, results: dict) -> dict[str, str]:
    """What the clock stands on, in words."""
    if not clock_section(numbers, own, results):
        return {}
    clock = results["clock"][numbers["scheme"]]
    early = ", ".join(f"{name} {share:.1f} %" for name, share in clock["early_rem_percent"].items())
    after = clock["rem_after_wake"][f"{CLOCK_RESTART_MINUTES:g}"]
    return {
        "clock": "log of the experts' share of REM at each time since sleep onset against its share of all "
        f"time: {', '.join(clock['sources'])}",
        "clock_choice": f"weight {CLOCK_WEIGHT:g} for {CLOCK_MINUTES:g} min, of .5, .75 and 1, REM's curve "
        "or all, over 40, 60, 90 min or the night: least errors of good stagers, kappa kept, on curves of "
        "other cohorts (studies/guard-on-real-data). A bout of the stager of "
        f"{CLOCK_SPARE_MINUTES:g} min or more loses nothing: of shorter early bouts of good stagers experts "
        "confirm 1 to 6 %, of those of 10 min or more 75 % (other nights, counted once)",
        "clock_early_rem": f"nights with REM in the first 15 min of sleep: {early}",
        "clock_restart": f"after {CLOCK_RESTART_MINUTES:g} min of unbroken wake, sleep of the first 15 min "
        f"was {after['rem_percent']:.1f} % REM ({after['n_onsets']} times)",
    }


def table_name(source: str) -> str:
    """A source's name as a bare TOML key."""
    return source.replace("/", "-").replace(" ", "-")


# Published profiles


def paper_profile(name: str, results: dict, paper: dict, words: dict) -> str:
    """Return the text of one published profile."""
    own = paper["profiles"][name]
    printed = "transitions" in own
    counted = results["cohorts"]["sleep-accel"]["counts"]["ws2"]
    minima = {stage: n * own["epoch_seconds"] for stage, n in own["minimum_epochs"].items()}
    head = [
        HEADER,
        line("name", name),
        line("summary", own["summary"]),
        line("intended_for", own["intended_for"]),
        line("species", species_of(own)),
        line("reproduces_paper", True),
        line("scheme", "wnr3" if printed else "ws2"),
        line("epoch_seconds", own["epoch_seconds"], "section 'Datasets'"),
        line("stay", "free", "staying scores 0, section 'Semi-Markov Constrained Decoding'"),
        line("ends", "paper", "a night starts at d = 1, so its first bout has to reach the minimum"),
        line("transition_weight", paper["transition_weight"]),
        line("rare_probability", paper["rare_probability"], "epsilon, same section"),
        line(
            "rare", paper["rare"] if printed else [], "table 'Physiologically rare transitions by modality'"
        ),
        line("min_bout_seconds", minima, "d_min times the epoch length, section 'Duration Constraints'"),
        line("flip_flop", paper["flip_flop"], "gamma and k, same section; greedy, as published"),
    ]
    transitions = own["transitions"] if printed else by_stage(counted["stages"], counted["transitions"])
    origin = matrix_origin(own)
    return (
        "\n\n".join(
            [
                "\n".join(head),
                *(section("[[not_for]]", entry) for entry in paper_cautions(name, paper, words)),
                section("[transitions]", transitions, origin),
                section("[provenance]", paper_provenance(own, results, paper)),
            ]
        )
        + "\n"
    )


def carried_profile(name: str, results: dict, paper: dict, released: dict, words: dict) -> str:
    """Return the text of a profile with the released rules, or with printed rules for other stages."""
    own = released["profiles"][name]
    like = paper["profiles"][own["like"]]
    is_printed = own["rules"] == "printed"
    counted = results["profiles"]["human-psg-5"]
    stages = list(own["minimum_epochs"])
    source = f"{released['repository']} at commit {released['commit']}"
    uniform = [[1 / len(stages)] * len(stages)] * len(stages)
    epsilon = paper["rare_probability"] if is_printed else math.exp(-released["rare_nats"]) / len(stages)
    minima = {stage: n * like["epoch_seconds"] for stage, n in own["minimum_epochs"].items()}
    stay = "staying scores 0" if is_printed else "with equal probabilities, staying costs what a change costs"
    rare = "epsilon" if is_printed else f"{released['rare_nats']:g} nats less than any other change"
    head = [
        HEADER,
        line("name", name),
        line("summary", own["summary"]),
        line("intended_for", own["intended_for"]),
        line("species", species_of(like)),
        line("reproduces_paper", True),
        line("scheme", own["scheme"]),
        line("epoch_seconds", like["epoch_seconds"]),
        line("stay", "free" if is_printed else "self", stay),
        line("ends", "paper", "a night starts at d = 1, so its first bout has to reach the minimum"),
        line("transition_weight", paper["transition_weight"]),
        line("rare_probability", float(f"{epsilon:.12g}"), rare),
        line("rare", own["rare"], own["rare_source"]),
        line("min_bout_seconds", minima, own["minimum_source"]),
        line("flip_flop", paper["flip_flop"] if is_printed else released["flip_flop"], "gamma and k"),
    ]
    provenance = {
        "source": f"StageGuard paper, doi {paper['doi']}, for other stages" if is_printed else source,
        "doi": paper["doi"],
        "rare": own["rare_source"],
        "min_bout_seconds": own["minimum_source"],
        **(
            {"transitions": f"of human-psg-5, by {SCRIPT}"}
            if is_printed
            else {"differs": released["differs"]}
        ),
        "caution": paper["caution"],
    }
    matrix = by_stage(stages, counted["transitions"] if is_printed else uniform)
    parts = [
        "\n".join(head),
        *(section("[[not_for]]", entry) for entry in paper_cautions(own["like"], paper, words)),
        section("[transitions]", matrix, "of human-psg-5" if is_printed else "none counted: equal"),
        section("[provenance]", provenance),
    ]
    return "\n\n".join(parts) + "\n"


def paper_cautions(name: str, paper: dict, words: dict) -> list[dict]:
    """``not_for`` of a published profile."""
    own = paper["profiles"][name]
    species = species_of(own)
    wording = "three" if "transitions" in own else "two"
    fill = {"epoch": f"{own['epoch_seconds']:g}"}
    return [
        caution({**entry, "cohort": cohort}, entry[wording].format(**fill), species, words)
        for entry in paper["cautions"]
        for cohort in (entry["cohort"], *entry.get("also", ()))
        if not (species == "mouse" and entry["cohort"] == "children")
    ]


def matrix_origin(own: dict) -> str:
    """Where the transitions come from."""
    if "transitions" in own:
        return f"appendix table 'Empirical transition probabilities', {own['dataset']}"
    return f"not printed in the paper: counted on the expert scorings of {own['dataset']} by {SCRIPT}"


def paper_provenance(own: dict, results: dict, paper: dict) -> dict:
    """Name the paper and its tables, and what is not in it."""
    entries = {
        "source": f"StageGuard paper, doi {paper['doi']}",
        "doi": paper["doi"],
        "dataset": own["dataset"],
        "n_nights": own["n_nights"],
        "n_subjects": own["n_subjects"],
        "transitions": matrix_origin(own),
        "rare": "table 'Physiologically rare transitions by modality'",
        "min_bout_seconds": "section 'Duration Constraints', epochs times epoch length",
        "flip_flop": "section 'Duration Constraints'",
        "not_for": "checklist of section 'Scope and Applicability to Pathological Populations', reworded; "
        "fragmented sleep under its other names is ours",
        "caution": paper["caution"],
    }
    if "transitions" not in own:
        cohort = results["cohorts"]["sleep-accel"]
        entries["counted_on"] = f"{cohort['title']}: {cohort['people']}. {cohort['citation']}"
        entries["script"] = SCRIPT
    return entries


if __name__ == "__main__":
    main()
