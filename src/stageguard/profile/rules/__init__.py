"""Strength rules, one per file: a file of this folder with a `StrengthRule` in it is a rule of profiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from stageguard import checks, schema
from stageguard.errors import InputError
from stageguard.profile.rules.rule import StrengthRule

# imported by name, so that a new rule needs no line here
_MODULES = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
RULES: Mapping[str, type[StrengthRule]] = {rule.rule: rule for rule in StrengthRule.__subclasses__()}


def read_rule(value: object, where: str) -> StrengthRule:
    """Return the rule that sets the weight per recording, from its table in a profile's document."""
    keys = {rule: [item.name for item in fields(RULES[rule])] for rule in RULES}
    given = checks.mapping(
        value, where, dict.fromkeys(["rule", *(key for own in keys.values() for key in own)])
    )
    if "rule" not in given:
        raise InputError(f"key 'rule' is missing in {where}.")
    rule = checks.choice(given["rule"], f"{where}.rule", tuple(RULES))
    for name in given:
        having = [each for each in RULES if name in keys[each]]
        if name != "rule" and rule not in having:
            only = " or ".join(map(repr, having))
            raise InputError(f"{where}.{name} is given, but only rule = {only} has it. Drop it.")
    return schema.read_table(RULES[rule], {key: given[key] for key in given if key != "rule"}, where)


def write_rule(rule: StrengthRule) -> dict[str, Any]:
    """Return the table of a rule without defaults."""
    return {"rule": rule.rule, **schema.plain_table(rule, defaults=False)}
