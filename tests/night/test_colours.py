"""The colours of stages and pages: told apart, legible, and one dark shade for each light one."""

from __future__ import annotations

from itertools import product

import pytest

from stageguard.night.colours import PAGE, SPARE_STAGES, STAGES, css_variables, stage_shade, top_down
from stageguard.night.stages import StageScheme


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted(map(luminance, (one, other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("which", ["light", "dark"])
def test_text_is_legible_and_stages_stand_out(which):
    shade = {name: getattr(each, which) for name, each in PAGE.items()}
    for text, ground in product(("ink", "grey", "accent"), ("paper", "panel", "wash")):
        assert contrast(shade[text], shade[ground]) >= 4.5, (text, ground)
    for ground in ("note", "tint", "band", "gap"):
        assert contrast(shade["ink"], shade[ground]) >= 4.5, ground
    for stage in (*STAGES.values(), *SPARE_STAGES):
        assert contrast(getattr(stage, which), shade["paper"]) >= (1.7 if which == "light" else 3.0)


@pytest.mark.parametrize("name", ["aasm5", "wldr4", "wnr3", "ws2"])
def test_stages_of_a_scheme_differ_and_sleep_deepens_downwards(name):
    scheme = StageScheme.named(name)
    shades = [stage_shade(scheme, stage) for stage in top_down(scheme)]
    assert len(set(shades)) == len({shade.dark for shade in shades}) == scheme.n_stages
    for which in ("light", "dark"):
        asleep = [luminance(getattr(shade, which)) for shade in shades[2:]]
        assert asleep == sorted(asleep, reverse=True)


def test_the_style_sheet_has_every_colour_twice():
    light, dark = css_variables().split("@media screen and (prefers-color-scheme:dark)")
    for name, shade in (PAGE | {f"stage-{stage}": shade for stage, shade in STAGES.items()}).items():
        assert f"--{name}:{shade.light};" in light
        assert f"--{name}:{shade.dark};" in dark
