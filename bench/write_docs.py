"""Write the table of speed in docs/real-nights.md from the last results. Measures nothing."""

from __future__ import annotations

import json
from pathlib import Path

from _common import RESULTS, Row, cells_of

PAGE = Path(__file__).parents[1] / "docs" / "real-nights.md"
BEGIN, END = "<!-- speed -->\n", "<!-- end of speed -->"
NIGHT = "one night, T = 960, human-psg-5: "
SHOWN = {  # result -> names of its rows, in the order of the table
    "kernel": (
        "kernel, T = 1,000, K = 5, minimum bouts 2,2,3,3,2",
        "sg.decode, fixed, no minimum bouts",
        "import stageguard",
    ),
    "goals": (
        f"{NIGHT}hmmlearn's decode",
        f"{NIGHT}sg.decode, night that flickers",
        f"{NIGHT}sg.decode, night that does not",
        f"{NIGHT}sg.decode, fixed weight",
        f"{NIGHT}posterior at one setting, night that flickers",
        "24 h, T = 21,600, K = 3: fixed weight",
        "stageguard decode night.csv / import numpy",
    ),
    "peers": (
        "T = 1,000, K = 5: hmmlearn, 50 states",
        "T = 1,000, K = 5: hmmlearn, 12 states",
        "T = 1,000, K = 5: pytorch-crf at its fastest, 50 states",
    ),
    "cohort": ("3,000 nights, decoded and written", "a whole night, compared with pandas.read_csv"),
    "stage": ("sg.stage by YASA, T = 960: the whole call",),
}


def table() -> str:
    """Return the rows shown, each with its goal and whether it was met."""
    lines = ["| | value | unit | goal | |", "|---|--:|---|--:|---|"]
    for result, names in SHOWN.items():
        document = json.loads((RESULTS / f"{result}.json").read_text("utf-8"))
        rows = {row["what"]: row for row in document["rows"]}
        lines += [f"| {' | '.join(cells_of(Row(**rows[name])))} |" for name in names]
    return "\n".join(lines).replace("  ", " ") + "\n"


def main() -> None:
    before, rest = PAGE.read_text("utf-8").split(BEGIN, 1)
    PAGE.write_text(f"{before}{BEGIN}{table()}{END}{rest.split(END, 1)[1]}", "utf-8")


if __name__ == "__main__":
    main()
