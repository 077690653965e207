"""What a run does where its options are silent: as its network's training recipe says."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, cos, pi
from typing import Any

from stageguard.base.errors import InputError
from stageguard.nn.backbones.recipes import GENERIC, TrainingRecipe, training_recipe
from stageguard.nn.options import TrainingOptions

WARM_UP = 0.3  # share of the steps in which the learning rate of one cycle rises

# Options that a recipe answers by itself, with its names for them.
_OF_RECIPE = {
    "sequence_epochs": "sequence_epochs",
    "batch_size": "batch_size",
    "optimiser": "optimiser",
    "learning_rate": "learning_rate",
    "weight_decay": "weight_decay",
    "clip": "gradient_clip",
    "schedule": "schedule",
}


def recipe_of(options: TrainingOptions) -> TrainingRecipe:
    """Return the recipe of the network in its size; that of the small ones where another package made it."""
    try:
        return training_recipe(options.backbone, small=bool(options.network.get("small", False)))
    except InputError:
        return GENERIC


def filled(options: TrainingOptions, recipe: TrainingRecipe) -> TrainingOptions:
    """Return the options with what the recipe says, as far as that does not depend on the data."""
    options = _filled(options, {name: getattr(recipe, theirs) or 0.0 for name, theirs in _OF_RECIPE.items()})
    is_stepwise = options.schedule in ("decay", "drop")
    if options.optimiser == "sgd":
        options = _filled(options, {"momentum": recipe.momentum})
    elif options.momentum:
        raise _idle(options, "momentum", "optimiser", "'sgd'")
    for name in ("schedule_factor", "schedule_steps"):
        if getattr(options, name) is not None and not is_stepwise:
            raise _idle(options, name, "schedule", "'decay' or 'drop'")
    if is_stepwise and options.schedule_factor is None and recipe.schedule_factor == 1:
        raise InputError(
            f"schedule is {options.schedule!r}, expected schedule_factor with it. Say by how much."
        )
    return options


def _idle(options: TrainingOptions, name: str, other: str, wanted: str) -> InputError:
    return InputError(
        f"{name} is {getattr(options, name)}, but {other} {getattr(options, other)!r} has no place for it. "
        f"Leave it out, or choose {wanted}."
    )


def in_steps(options: TrainingOptions, recipe: TrainingRecipe, n_round: int) -> TrainingOptions:
    """Return filled options with everything the recipe counts in rounds as steps.

    Parameters
    ----------
    options, recipe : TrainingOptions, TrainingRecipe
        As in `filled`.
    n_round : int
        Steps of one pass over the training nights.
    """
    steps = options.steps or recipe.steps or (recipe.rounds or 1) * n_round
    every = options.evaluate_every or recipe.validate_every_steps or n_round
    counted: dict[str, Any] = {
        "steps": steps,
        "evaluate_every": every,
        "patience": recipe.early_stopping_rounds or ceil(steps / every),
    }
    if options.schedule in ("decay", "drop"):
        counted["schedule_factor"] = recipe.schedule_factor
        counted["schedule_steps"] = recipe.schedule_rounds * n_round
    return _filled(options, counted)


def _filled(options: TrainingOptions, values: dict[str, Any]) -> TrainingOptions:
    return replace(options, **{k: v for k, v in values.items() if getattr(options, k) is None})


def rate_at(step: int, options: TrainingOptions) -> float:
    """Return the learning rate of a step, for options that leave nothing open."""
    peak, factor, every = options.learning_rate, options.schedule_factor, options.schedule_steps
    assert peak is not None and options.steps is not None
    if options.schedule == "one-cycle":
        return one_cycle(step, options.steps, peak)
    if factor is None or every is None:  # constant
        return peak
    return peak * factor ** (step // every if options.schedule == "decay" else step >= every)


def one_cycle(step: int, n_steps: int, peak: float) -> float:
    """Learning rate: a cosine from peak/25 up to the peak, then down to almost nothing."""
    n_up = max(1.0, WARM_UP * n_steps)
    if step < n_up:
        low, share = peak / 25, 1 - step / n_up
    else:
        low, share = peak / 25e4, (step - n_up) / max(1.0, n_steps - n_up)
    return low + (peak - low) * (1 + cos(pi * share)) / 2
