"""How stages are drawn everywhere: their order from top to bottom, and the one table of colours."""

from __future__ import annotations

from typing import NamedTuple

from stageguard.night.stages import StageScheme, canonical_name


class Shade(NamedTuple):
    """One colour on white paper and on a dark screen."""

    light: str
    dark: str


# Tol's high-contrast set (ochre, rose, blue) with lighter blues for lighter sleep: told apart by
# colour-blind readers and in grey, where depth of sleep reads as darkness.
STAGES = {
    "W": Shade("#DDAA33", "#E5B94A"),
    "R": Shade("#BB5566", "#E4788A"),
    "S": Shade("#2F76B0", "#5B9FDC"),
    "N": Shade("#2F76B0", "#5B9FDC"),
    "Light": Shade("#4A90C2", "#78B4E3"),
    "Deep": Shade("#004488", "#3F7FCF"),
    "N1": Shade("#9CCBEA", "#C3E2F6"),
    "N2": Shade("#4A90C2", "#78B4E3"),
    "N3": Shade("#004488", "#3F7FCF"),
}
SPARE_STAGES = (
    Shade("#66A182", "#7DBE9C"),
    Shade("#8A6FB0", "#AD93D3"),
    Shade("#7F7F7F", "#A3A3A3"),
    Shade("#B07AA1", "#CD98BE"),
    Shade("#59A14F", "#78C06E"),
    Shade("#9C755F", "#BF9880"),
    Shade("#3D8F8F", "#5CB8B8"),
    Shade("#B5B04A", "#CFCA6B"),
)

# Text is ink or grey, on paper or on panel, at 4.5 : 1 or better in either.
PAGE = {
    "paper": Shade("#FFFFFF", "#15181C"),
    "panel": Shade("#F6F7F8", "#1F2429"),
    "ink": Shade("#22262B", "#E8EAED"),
    "grey": Shade("#5D646D", "#A8B0B9"),
    "line": Shade("#DFE3E7", "#3A4149"),
    "riser": Shade("#9AA1A9", "#6B737C"),  # between two bouts
    "gap": Shade("#E9EBEE", "#2C3238"),  # no evidence
    "accent": Shade("#1B5A99", "#8ABBEC"),
    "note": Shade("#FBF3DC", "#352D18"),  # behind a warning
    "tint": Shade("#FBF0D2", "#453A1B"),  # behind changed epochs
    "lit": Shade("#FFF1C2", "#E8D48A"),  # the light phase of a cycle
    "unlit": Shade("#3F4650", "#2B3442"),
    "band": Shade("#CFE0D4", "#34523F"),  # what expert nights show
    "wash": Shade("#F1F6F2", "#1B251F"),
}


def top_down(scheme: StageScheme) -> list[int]:
    """Return stages from top to bottom: wake, REM, deeper and deeper sleep, then unknown names in order."""
    rank_of = {name: rank for rank, name in enumerate(STAGES)}
    return sorted(
        range(scheme.n_stages),
        key=lambda i: rank_of.get(canonical_name(scheme.names[i]) or "", len(rank_of) + i),
    )


def stage_shade(scheme: StageScheme, stage: int) -> Shade:
    """Return the colour of a stage; a stage without a known name gets a spare colour."""
    known = STAGES.get(canonical_name(scheme.names[stage]) or "")
    return known or SPARE_STAGES[stage % len(SPARE_STAGES)]


def css_variables() -> str:
    """Return the colours as CSS properties such as ``--stage-N2``, dark on screens that ask for it."""
    shades = PAGE | {f"stage-{name}": shade for name, shade in STAGES.items()}
    light, dark = ("".join(f"--{name}:{shade[which]};" for name, shade in shades.items()) for which in (0, 1))
    return f":root{{{light}}}\n@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n"
