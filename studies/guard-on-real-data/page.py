"""Put the study's summary into the page on real nights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from layout import label_tasks, single_tasks, summary

PAGE = Path(__file__).parents[2] / "docs" / "real-nights.md"
METHODS = ("paper", "clock + target", "clock + tune", "fit")
COLUMNS = (
    "κ, median (worst)",
    "by Holm",
    "errors (worst)",
    "REM latency's",
    "nights > 30 min",
    "nights in band",
    "not like experts",
)


def write_page(held: Mapping, boxed: Mapping, labelled: Mapping, path: Path = PAGE) -> None:
    """Replace the tables between the page's marks."""
    tables = {
        "tasks": summary(held, ("good", "flickering", "neither"), METHODS, COLUMNS),
        "stagers in the box": single_tasks(boxed, ("clock + target",)),
        "labels alone": label_tasks(labelled, ("fit",)),
    }
    text = path.read_text("utf-8")
    for name, made in tables.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, rest = text.split(begin, 1)
        text = f"{before}{begin}{made}{end}{rest.split(end, 1)[1]}"
    path.write_text(text, "utf-8")
