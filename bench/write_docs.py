"""Write the rows that docs/bench.md shows. Measures nothing.

On the page, `<!-- rows: NAME: PART; PART -->` stands for the rows of one result whose name has one of the
parts, or for all of them, and `<!-- rows: missed -->` for the goals that were missed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _common import RESULTS, Row, cells_of

PAGE = Path(__file__).parents[1] / "docs" / "bench.md"
MARKS = re.compile(r"(<!-- rows: (\w+)(?:: ([^>]+))? -->\n).*?(<!-- end -->)", re.DOTALL)


def documents() -> dict[str, dict[str, Any]]:
    """Return every result by its name."""
    return {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(RESULTS.glob("*.json"))}


def lines(header: str, alignment: str, rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    body = (f"| {' | '.join(cells)} |".replace("  ", " ") for cells in rows)
    return "\n".join([header, alignment, *body]) + "\n"


def chosen(document: dict[str, Any], parts: Sequence[str]) -> str:
    """Return the rows whose name has one of the parts, or all rows."""
    names = [row["what"] for row in document["rows"]]
    if lost := [part for part in parts if not any(part in name for name in names)]:
        raise SystemExit(f"docs/bench.md: no row of {document['title']!r} has {lost}")
    rows = [Row(**row) for row in document["rows"] if any(part in row["what"] for part in parts or [""])]
    return lines("| | value | unit |", "|---|--:|---|", [cells_of(row)[:3] for row in rows])


def missed(results: dict[str, dict[str, Any]]) -> str:
    """Return the goals that were missed, of all results."""
    rows = [cells_of(Row(**row)) for document in results.values() for row in document["rows"]]
    found = [cells for cells in rows if cells[-1].startswith("missed")]
    return lines("| | value | unit | goal | |", "|---|--:|---|--:|---|", found)


def main() -> None:
    results = documents()

    def table(match: re.Match[str]) -> str:
        if match[2] == "missed":
            return f"{match[1]}{missed(results)}{match[4]}"
        parts = match[3].split("; ") if match[3] else []
        return f"{match[1]}{chosen(results[match[2]], parts)}{match[4]}"

    PAGE.write_text(MARKS.sub(table, PAGE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
