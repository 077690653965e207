"""Everything a study shows, as files: tables in three formats, figures, and one page with all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from stageguard.base import checks
from stageguard.base.errors import InputError
from stageguard.base.files import write_together
from stageguard.study.figures import FIGURES, image
from stageguard.study.rendering import FORMATS
from stageguard.study.robustness import TABLES
from stageguard.study.store import Results
from stageguard.study.tables import SYNTHETIC_NOTE, backbones_of

FIGURE_FORMATS = ("png", "pdf", "svg")
PAGE = "report.md"


def check_results(results: Results) -> None:
    """Refuse a study without anything to show."""
    if not results.records or not backbones_of(results):
        why = f" The first error: {results.failures[0]['error']}" if results.failures else ""
        raise InputError(f"{results.folder}: no job of the main comparison is done.{why}")


def write_tables(
    results: Results, names: Sequence[str] = (), forms: Iterable[str] = FORMATS, folder: Path | None = None
) -> list[Path]:
    """Write tables, by default all of them; returns their files."""
    check_results(results)
    contents: dict[Path, str | bytes] = {}
    for name in names or TABLES:
        table = TABLES[checks.choice(name, "table", TABLES)](results)
        for form in forms:
            path = (folder or results.folder / "tables") / f"{name}.{form}"
            contents[path] = table.text(checks.choice(form, "format", FORMATS))
    write_together(contents, overwrite=True, make_folders=True)
    return list(contents)


def write_figures(
    results: Results,
    names: Sequence[str] = (),
    forms: Iterable[str] = ("png", "pdf"),
    night: str | None = None,
    folder: Path | None = None,
) -> list[Path]:
    """Write figures, by default all of them; returns their files."""
    check_results(results)
    contents: dict[Path, str | bytes] = {}
    for name in names or FIGURES:
        figure = FIGURES[checks.choice(name, "figure", FIGURES)](results, night)
        for form in forms:
            path = (folder or results.folder / "figures") / f"{name}.{form}"
            contents[path] = image(figure, checks.choice(form, "format", FIGURE_FORMATS))
    write_together(contents, overwrite=True, make_folders=True)
    return list(contents)


def write_report(results: Results, night: str | None = None) -> Path:
    """Write all tables and figures, and a page that shows them."""
    write_tables(results)
    write_figures(results, night=night)
    parts = [f"# {results.study['title']}\n", _words(results)]
    parts += [TABLES[name](results).text("md") for name in TABLES]
    parts.append("## Figures\n")
    parts += [f"![{name}](figures/{name}.png)\n" for name in FIGURES]
    path = results.folder / PAGE
    write_together({path: "\n".join(parts)}, overwrite=True)
    return path


def _words(results: Results) -> str:
    about, study = results.about, results.study
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    seconds = sum(record["costs"]["training_seconds"] for record in results.records)
    lines = [SYNTHETIC_NOTE] if results.is_synthetic else []
    lines.append(
        f"Study `{study['name']}`, {study['split']['kind']}, seed {study['seed']}: {len(results.records)} "
        f"networks trained in {seconds / 60:.1f} min of one thread. Begun {about['begun']}, commit "
        f"{about['commit'] or 'unknown'}; {versions}. Every number follows from jobs/*.json or results.jsonl."
    )
    lines += [f"- failed: {failure['error']}" for failure in results.failures]
    return "\n\n".join(lines) + "\n"
