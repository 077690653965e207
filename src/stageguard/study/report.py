"""The report of a study as files: tables in three formats, figures, and one page with all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from stageguard import checks
from stageguard.errors import InputError, OutputExistsError
from stageguard.files import write_together
from stageguard.runner.run import check_folder
from stageguard.study import comparison, groups, robustness
from stageguard.study.derived import derived_text
from stageguard.study.figures import FIGURES, image
from stageguard.study.store import (
    DERIVED,
    FIGURES_FOLDER,
    JOBS,
    PAGE,
    RESULTS,
    STUDY,
    TABLES_FOLDER,
    Results,
    read_results,
    results_text,
    study_text,
)
from stageguard.study.table import FORMATS, Table

TABLES: Mapping[str, Callable[[Results], Table]] = {
    "main": comparison.main_table,
    "architecture": comparison.architecture_table,
    "architecture-pairs": comparison.consolidated_table,
    "contrasts": groups.contrasts_table,
    "subgroups": groups.subgroup_table,
    "ablations": comparison.ablation_table,
    "guards": comparison.guards_table,
    "experts": comparison.experts_table,
    "scorers": comparison.scorers_table,
    "bland-altman": comparison.bland_altman_table,
    "rare-pairs": robustness.rare_pairs_table,
    "minimum-bouts": robustness.minimum_bouts_table,
    "penalty": robustness.penalty_table,
    "seeds": robustness.seeds_table,
    "resampling": robustness.resampling_table,
    "label-noise": robustness.noise_table,
    "populations": groups.populations_table,
    "networks": robustness.agreement_table,
    "f1": robustness.f1_table,
    "transitions": robustness.transitions_table,
    "costs": comparison.cost_table,
}


FIGURE_FORMATS = ("png", "pdf", "svg")
NIGHT = "night"  # figure of one night's stages


def check_results(results: Results) -> None:
    """Refuse a study without results of the main comparison."""
    if not results.records or not results.backbones:
        why = f" The first error: {results.failures[0]['error']}" if results.failures else ""
        raise InputError(f"{results.folder}: no job of the main comparison is done.{why}")


def write_tables(tables: Mapping[str, Table], folder: Path, forms: Iterable[str] = FORMATS) -> list[Path]:
    """Write tables in several formats; return their files."""
    contents: dict[Path, str | bytes] = {
        folder / f"{name}.{form}": table.text(form) for name, table in tables.items() for form in forms
    }
    write_together(contents, overwrite=True, make_folders=True)
    return list(contents)


def write_figures(
    results: Results,
    names: Sequence[str] = (),
    forms: Iterable[str] = ("png", "pdf"),
    night: str | None = None,
    folder: Path | None = None,
) -> list[Path]:
    """Write figures, by default all; return their files."""
    check_results(results)
    contents: dict[Path, str | bytes] = {}
    for name in names or FIGURES:
        figure = FIGURES[checks.choice(name, "figure", FIGURES)](results, night)
        for form in forms:
            path = (folder or results.folder / FIGURES_FOLDER) / f"{name}.{form}"
            contents[path] = image(figure, checks.choice(form, "format", FIGURE_FORMATS))
    write_together(contents, overwrite=True, make_folders=True)
    return list(contents)


def write_report(results: Results, night: str | None = None) -> Path:
    """Write all tables and figures, and a page that shows them."""
    check_results(results)
    tables = {name: make(results) for name, make in TABLES.items()}
    write_tables(tables, results.folder / TABLES_FOLDER)
    write_figures(results, night=night)
    return _write_page(results, tables, FIGURES, results.folder, "png")


def publish(results: Results, folder: Path, night: str | None = None) -> Path:
    """Write everything that can be published without the nights, and return the page.

    These are records, tables, figures and a page. `stageguard study table` works in that folder as well.
    Figures are drawn now, because they need the predictions. The hypnogram of a night is drawn only if one
    is named: it shows the stages of every epoch.
    """
    check_results(results)
    check_folder(folder)
    if folder.absolute() == results.folder.absolute():
        raise InputError(f"{folder}: is the study's own folder. Name another one to publish to.")
    _check_publishable(results, folder)
    contents: dict[Path, str | bytes] = {
        folder / STUDY: study_text(results),
        folder / RESULTS: results_text(results.folder),
        folder / DERIVED: derived_text(results),
    }
    write_together(contents, overwrite=True, make_folders=True)
    tables = {name: make(results) for name, make in TABLES.items()}
    write_tables(tables, folder / TABLES_FOLDER, ("md", "csv"))
    figures = [name for name in FIGURES if name != NIGHT or night is not None]
    write_figures(results, figures, forms=("svg",), night=night, folder=folder / FIGURES_FOLDER)
    return _write_page(results, tables, figures, folder, "svg")


def _check_publishable(results: Results, folder: Path) -> None:
    """Refuse a folder with anything but the same study, published before."""
    if not folder.exists() or not any(folder.iterdir()):
        return
    is_published = (folder / STUDY).is_file() and not (folder / JOBS).exists()
    if not is_published or read_results(folder).study["name"] != results.study["name"]:
        raise OutputExistsError(f"{folder} holds other files. Choose a new or empty folder to publish to.")


def _write_page(
    results: Results, tables: Mapping[str, Table], figures: Iterable[str], folder: Path, form: str
) -> Path:
    parts = [f"# {results.study['title']}\n", _words(results)]
    parts += [table.text("md") for table in tables.values() if table.rows]
    parts.append("## Figures\n")
    parts += [f"![{name}](figures/{name}.{form})\n" for name in figures]
    path = folder / PAGE
    write_together({path: "\n".join(parts)}, overwrite=True)
    return path


def _words(results: Results) -> str:
    about, study = results.about, results.study
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    seconds = sum(record["costs"]["training_seconds"] for record in results.records)
    lines = list(results.warnings)
    lines.append(
        f"Study `{study['name']}`, {study['split']['kind']}, seed {study['seed']}: {results.progress} "
        f"done, trained in {seconds / 60:.1f} min of one thread. Begun {about['begun']}, commit "
        f"{about['commit'] or 'unknown'}; {versions}. Every number follows from jobs/*.json or results.jsonl."
    )
    lines += [f"- failed: {failure['error']}" for failure in results.failures]
    return "\n\n".join(lines) + "\n"
