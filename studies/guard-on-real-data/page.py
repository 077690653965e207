"""Put the study's summary into the page on real nights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from layout import summary

PAGE = Path(__file__).parents[2] / "docs" / "real-nights.md"
BEGIN, END = "<!-- tasks -->\n", "<!-- end of tasks -->"
METHODS = ("paper", "clock + target", "clock + tune", "fit")
COLUMNS = (
    "κ, median (worst)",
    "by Holm",
    "errors (worst)",
    "to report",
    "nights in band",
    "not like experts",
)


def write_page(held: Mapping, path: Path = PAGE) -> None:
    """Replace the table between the page's marks."""
    before, rest = path.read_text("utf-8").split(BEGIN, 1)
    _, after = rest.split(END, 1)
    made = summary(held, ("good", "flickering", "neither"), METHODS, COLUMNS)
    path.write_text(f"{before}{BEGIN}{made}{END}{after}", "utf-8")
