"""Every stager of DOD-H in units of an expert's error: its own stages, and guarded.

    STAGEGUARD_DATA=/folder/with/the/data python studies/expert-units/run.py

A network's label becomes what experts say where the *other* networks give it on the *other* nights; the clock
is counted without DOD-H. The guard is the default for 25 unscored nights: `tune` on them, then decode.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from panels import NETWORKS, panels

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "guard-on-real-data"))

import cohorts  # noqa: E402
from label_nights import people  # noqa: E402
from simulate import STATISTICS  # noqa: E402

import stageguard as sg  # noqa: E402
from stageguard.night.quantities import quantity_of  # noqa: E402
from stageguard.night.stages import AASM5  # noqa: E402

VOTES = "votes of 20 networks trained elsewhere"
EXPERTS = HERE.parent / "expert-scorings" / "results.json"
GOOD_KAPPA, GOAL = 0.75, 1.1
WAYS = ("argmax", "guarded")


@dataclass(frozen=True)
class Graded:
    """The cards of one stager by its own stages and guarded."""

    argmax: sg.GradeCard
    guarded: sg.GradeCard

    def ratio(self, key: str, way: str) -> float:
        """Return the error of a statistic over an expert's."""
        card: sg.GradeCard = getattr(self, way)
        return card[key].mean.value

    def cell(self, key: str) -> str:
        """Return the errors of a statistic, argmax → guarded, and the verdict on the guarded one."""
        before, after = (self.ratio(key, way) for way in WAYS)
        mark = {"as an expert": " ✓", "worse": " ✗"}.get(self.guarded[key].verdict or "", "")
        shown = f"{after:.2f}{mark}"
        return f"{before:.2f} → {f'**{shown}**' if self.is_good and after > GOAL else shown}"

    @property
    def is_good(self) -> bool:
        """Whether the stager's own stages agree with the experts."""
        return self.argmax.kappa > GOOD_KAPPA


def base_profile() -> sg.Profile:
    """Return the shipped profile with a clock that has not seen DOD-H."""
    shipped = sg.Profile.load("human-psg-5")
    clock = shipped.to_dict()["clock"]
    without = json.loads(EXPERTS.read_text())["clock"]["aasm5"]["curves_without"]["dod-h"]
    curves = {name: without[name][: len(own)] for name, own in clock["curves"].items()}
    return shipped.replace(clock=clock | {"curves": curves})


def grade(name: str, base: sg.Profile) -> Graded:
    """Grade one stager."""
    nights = {night.name: night for night in panels("DOD-H")}
    rows = list(cohorts.dod_h()) if name == VOTES else people(name, AASM5)
    kind = None if name == VOTES else "typical"
    densities = [sg.Hypnodensity(each.probabilities, AASM5, 30.0, from_labels=kind) for each in rows]
    experts = [nights[each.name].experts for each in rows]
    own = [sg.Hypnogram(density.argmax, AASM5, 30.0) for density in densities]
    tuned = sg.tune(densities, base, stager=name)
    decoded = sg.decode(densities, tuned, stager=name)
    ids = [each.name for each in rows]
    return Graded(*(sg.grade(experts, made, ids=ids, stager=name) for made in (own, decoded)))


def layout(found: dict[str, Graded]) -> str:
    """Return the table: a row per statistic, a column per stager, argmax → guarded."""
    lines = [
        "| statistic | " + " | ".join(found) + " |",
        "|---|" + "--:|" * len(found),
        "| κ: argmax → guarded (an expert "
        f"{next(iter(found.values())).argmax.expert_kappa:.3f}) | "
        + " | ".join(f"{each.argmax.kappa:.3f} → {each.guarded.kappa:.3f}" for each in found.values())
        + " |",
    ]
    return "\n".join([*lines, *rows(found)])


def rows(found: dict[str, Graded]) -> Iterator[str]:
    """Yield a row per statistic."""
    for key in STATISTICS:
        cells = " | ".join(graded.cell(key) for graded in found.values())
        yield f"| {quantity_of(key).title} | {cells} |"


def put(table: str, page: Path) -> None:
    """Replace the table between a page's marks."""
    begin, end = "<!-- expert units -->\n", "<!-- end of expert units -->"
    before, rest = page.read_text("utf-8").split(begin, 1)
    page.write_text(f"{before}{begin}{table}\n{end}{rest.split(end, 1)[1]}", "utf-8")


def main() -> None:
    warnings.simplefilter("ignore", sg.StageGuardWarning)
    base = base_profile()
    found = {name: grade(name, base) for name in (*NETWORKS, VOTES)}
    content = {
        name: {
            "kappa": {"argmax": each.argmax.kappa, "guarded": each.guarded.kappa},
            "expert_kappa": each.argmax.expert_kappa,
            "good": each.is_good,
            "profile": each.guarded.facts.profile,
            "ratios": {key: {way: round(each.ratio(key, way), 4) for way in WAYS} for key in STATISTICS},
            "verdicts": {key: each.guarded[key].verdict for key in STATISTICS},
        }
        for name, each in found.items()
    }
    text = json.dumps({"version": sg.__version__, "stagers": content}, indent=1, ensure_ascii=False)
    (HERE / "results.json").write_text(text + "\n", encoding="utf-8")
    good = [each for each in found.values() if each.is_good]
    reached = [each.ratio(key, "guarded") <= GOAL for each in good for key in STATISTICS]
    words = (
        "# Stagers of DOD-H in units of an expert's error\n\n"
        "Written by `run.py`. Error of the stager over that of one expert, each against the consensus of the "
        "other experts (R, by the means): the stager's own stages → guarded. 1 is "
        "an exchangeable expert. ✓ as an expert, ✗ worse, by both readings on 25 people; bold: a good stager "
        f"(κ above {GOOD_KAPPA}) beyond {GOAL}.\n\n"
        f"{layout(found)}\n\n"
        f"Goal: {GOAL} or less for every statistic of every good stager. Reached: {sum(reached)} of "
        f"{len(reached)}.\n\n"
        "The consensus flatters a network that learned from it, as the six may have: they come with this "
        "dataset (Guillot et al. 2020). The votes are of networks trained elsewhere.\n"
    )
    put(layout(found), ROOT / "docs" / "real-nights.md")
    print(words)


if __name__ == "__main__":
    main()
