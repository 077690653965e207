"""How stages look: their colours, and their order from top to bottom. Draws nothing."""

from __future__ import annotations

from stageguard.night.stages import StageScheme, canonical_name

# Tol's high-contrast set (ochre, rose, blue) with lighter blues for lighter sleep: told apart by
# colour-blind readers and in grey, where depth of sleep reads as darkness.
COLOURS = {"W": "#DDAA33", "R": "#BB5566", "N1": "#9CCBEA", "N2": "#4A90C2", "N3": "#004488", "N": "#2F76B0",
           "S": "#2F76B0"}  # fmt: skip
SPARE_COLOURS = ("#66A182", "#8A6FB0", "#7F7F7F", "#B07AA1", "#59A14F")
TOP_DOWN = ("W", "R", "S", "N", "N1", "N2", "N3")


def top_down(scheme: StageScheme) -> list[int]:
    """Stages from top to bottom: wake, REM, then ever deeper sleep; unknown names keep their order below."""
    place = {name: rank for rank, name in enumerate(TOP_DOWN)}
    return sorted(
        range(scheme.n_stages), key=lambda i: place.get(canonical_name(scheme.names[i]) or "", len(place) + i)
    )


def colour_of(scheme: StageScheme, stage: int) -> str:
    """Colour of a stage; stages without a known name get a spare one."""
    known = COLOURS.get(canonical_name(scheme.names[stage]) or "")
    return known or SPARE_COLOURS[stage % len(SPARE_COLOURS)]
