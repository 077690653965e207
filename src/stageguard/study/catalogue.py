"""All tables of a study by name, in the order of the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stageguard.study.groups import contrasts_table, populations_table, subgroup_table
from stageguard.study.rendering import Table
from stageguard.study.robustness import (
    agreement_table,
    f1_table,
    minimum_bouts_table,
    noise_table,
    penalty_table,
    rare_pairs_table,
    resampling_table,
    seeds_table,
    transitions_table,
)
from stageguard.study.store import Results
from stageguard.study.tables import (
    ablation_table,
    architecture_table,
    bland_altman_table,
    consolidated_table,
    cost_table,
    experts_table,
    guards_table,
    main_table,
    scorers_table,
)

TABLES: Mapping[str, Callable[[Results], Table]] = {
    "main": main_table,
    "architecture": architecture_table,
    "architecture-pairs": consolidated_table,
    "contrasts": contrasts_table,
    "subgroups": subgroup_table,
    "ablations": ablation_table,
    "guards": guards_table,
    "experts": experts_table,
    "scorers": scorers_table,
    "bland-altman": bland_altman_table,
    "rare-pairs": rare_pairs_table,
    "minimum-bouts": minimum_bouts_table,
    "penalty": penalty_table,
    "seeds": seeds_table,
    "resampling": resampling_table,
    "label-noise": noise_table,
    "populations": populations_table,
    "networks": agreement_table,
    "f1": f1_table,
    "transitions": transitions_table,
    "costs": cost_table,
}
