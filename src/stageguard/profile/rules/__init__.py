"""Strength rules, one per file: a file of this folder with a `StrengthRule` in it is a rule of profiles."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules

from stageguard.profile.rules.rule import StrengthRule

# imported by name, so that a new rule needs no line here
_MODULES = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
RULES: Mapping[str, type[StrengthRule]] = {rule.rule: rule for rule in StrengthRule.__subclasses__()}
