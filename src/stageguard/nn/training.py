"""The training loop: from feature tables to a staging network, repeatably.

The result depends only on options and data: weights follow from the seed, the order of sequences from seed
and round, dropout from seed and step. A killed run continues from its last evaluation with the same result.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count, islice
from math import isfinite
from pathlib import Path

import numpy as np

from stageguard.arrays import Ints
from stageguard.errors import InputError
from stageguard.nn.card import FeatureSet, ModelCard
from stageguard.nn.checkpoint import TrainedModel, save_model
from stageguard.nn.inference import Validation, ValidationScore
from stageguard.nn.losses import StageGuardLoss
from stageguard.nn.options import TrainingOptions, count_in_steps, fill_from_recipe, rate_at, recipe_of
from stageguard.nn.pytorch import Tensor, nn, torch
from stageguard.nn.run_state import (
    STATE,
    Location,
    TrainingRun,
    check_output,
    log,
    remember,
    resume,
    save,
    start,
)
from stageguard.nn.semi_markov import SemiMarkovLoss
from stageguard.nn.tables import (
    Normalisation,
    Stretch,
    check_together,
    count_labels,
    epoch_length,
    fingerprint,
    make_batch,
    round_of_batches,
    split_subjects,
    take_subjects,
)
from stageguard.profile.profile import Profile, as_profile
from stageguard.signals.features import Features


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """Progress of a run: losses after every step; after an evaluation also their means and the score."""

    step: int
    n_steps: int
    parts: Mapping[str, float]
    score: ValidationScore | None = None
    means: Mapping[str, float] | None = None  # of the parts since the last evaluation


Report = Callable[[TrainingProgress], None]


@dataclass(frozen=True, slots=True)
class _Plan:
    """Everything that a run needs and does not change."""

    options: TrainingOptions  # complete
    stretches: Sequence[Stretch]
    length: int
    objective: Objective
    judge: Validation
    location: Location
    device: torch.device

    @property
    def n_steps(self) -> int:
        assert self.options.steps is not None
        return self.options.steps

    def before_penalty(self, folder: Path) -> Location:
        """Return the location of the state that runs of every penalty weight share."""
        options = {k: v for k, v in self.options.to_dict().items() if k != "penalty_weight"}
        return Location(folder, {**self.location.identity, "options": options})

    def batches(self, first: int) -> Iterator[tuple[int, list[tuple[int, int]]]]:
        """Return (step, windows) from the step ``first`` on, round after round."""
        size, seed = self.options.batch_size, self.options.seed
        assert size is not None
        rounds = (round_of_batches(self.stretches, self.length, size, (seed, number)) for number in count())
        return islice(enumerate(chain.from_iterable(rounds)), first, self.n_steps)


class Objective(nn.Module):
    """The loss of a run; `counts` (n_stages,) are the training epochs per stage, for balanced weights."""

    stage_weights: Tensor

    def __init__(
        self, profile: Profile, options: TrainingOptions, counts: Ints, epoch_seconds: float | None = None
    ) -> None:
        super().__init__()
        weights = counts.sum() / (len(counts) * counts) if options.balanced else np.ones(len(counts))
        self.register_buffer("stage_weights", torch.tensor(weights, dtype=torch.float32), persistent=False)
        self.criterion: StageGuardLoss | SemiMarkovLoss
        if options.loss == "semi-markov":
            # sequences are cut out of nights, so their first bout may have begun earlier
            cut = profile if profile.ends == "censored" else profile.replace(ends="censored")
            self.criterion = SemiMarkovLoss(cut, epoch_seconds=epoch_seconds)
        else:
            assert options.penalty_weight is not None
            balance = self.stage_weights if options.balanced else None
            self.criterion = StageGuardLoss(profile, options.penalty_weight, balance, options.label_smoothing)

    def forward(self, logits: Tensor, targets: Tensor, mask: Tensor) -> dict[str, Tensor]:
        """Return the loss and its parts for logits (batch, epochs, stages); masked epochs do not count."""
        if isinstance(self.criterion, SemiMarkovLoss):
            return {"loss": self.criterion(logits, targets, mask)}
        total, cross_entropy, penalty = self.criterion.parts(logits, targets, mask)
        return {"loss": total, "cross_entropy": cross_entropy, "penalty": penalty}


def train(
    tables: Sequence[Features],
    options: TrainingOptions,
    folder: str | Path,
    *,
    overwrite: bool = False,
    report: Report | None = None,
    shared: Path | None = None,
) -> TrainedModel:
    """Train a network, write it with its card and log into a folder, and return it at its best kappa.

    An interrupted run with the same options and data is resumed; with `overwrite`, only if it was started
    with `overwrite` too. A finished network in the folder is an error without `overwrite`. `report` is called
    after every step. `shared` is a folder for the state after `penalty_after` steps, from which runs that
    differ in the penalty's weight alone go on: the first writes it, and the others give the same networks as
    without it.
    """
    folder = Path(folder)
    check_together(tables)
    check_output(folder, overwrite=overwrite)
    device = pick_device(options.device)
    with _repeatable(options.seed, device):
        card, run, plan = _set_up(tables, options, device, folder, overwrite)
        resume(run, plan.location)
        if shared is not None and not run.numbers.step:
            resume(run, plan.before_penalty(shared))
        _loop(run, plan, report, shared)
        run.network.load_state_dict(run.best)
        network, judge = run.network.eval(), plan.judge
        weights = plan.objective.stage_weights
        temperature = judge.temperature(network, weights) if plan.options.temperature else 1.0
    found = run.numbers
    results = {"best_step": found.best_step, "best_kappa": found.best_kappa, "stopped_at": found.step}
    about = {**card.training, "options": plan.options.to_dict(), **results}
    model = TrainedModel(network, replace(card, length=judge.length, temperature=temperature, training=about))
    save_model(model, folder, overwrite=True)
    (folder / STATE).unlink(missing_ok=True)
    return model


def _set_up(
    tables: Sequence[Features],
    options: TrainingOptions,
    device: torch.device,
    folder: Path,
    overwrite: bool,
) -> tuple[ModelCard, TrainingRun, _Plan]:
    """Return the network's card, the run at its first step, and the plan."""
    profile = as_profile(options.profile)
    tables, _ = take_subjects(tables, options.held_out_subjects, "held_out_subjects")
    training, validation = take_subjects(tables, options.validation_subjects, "validation_subjects")
    if not validation:
        training, validation = split_subjects(tables, options.validation_share, options.seed)
    scheme = tables[0].scheme
    if scheme is not None and scheme != profile.scheme:
        raise InputError(
            f"the tables have the stages {', '.join(scheme.names)}, profile {profile.name!r} has "
            f"{', '.join(profile.scheme.names)}. Read the tables in the profile's scheme."
        )
    counts = count_labels(training, profile.scheme)
    normalisation = Normalisation.fit(training, tuple(options.absolute) or tables[0].absolute)
    recipe = recipe_of(options)
    options = fill_from_recipe(options, recipe)
    if options.temperature is None:
        # training with the semi-Markov likelihood balances evidence and transitions; a temperature would undo
        # that
        is_wanted = options.loss == "penalty" and not profile.reproduces_paper
        options = replace(options, temperature=is_wanted)
    card = _card(options, profile, tables, training, normalisation)
    network = card.build().to(device)
    fixed = getattr(network, "training_length", None)
    length = options.sequence_epochs if fixed is None else int(fixed)
    assert length is not None and options.batch_size is not None
    stretches = normalisation.stretches(training)
    longest = max(len(stretch.labels) for stretch in stretches)
    if longest < length:
        raise InputError(
            f"the longest unbroken stretch has {longest} epoch{'s' * (longest != 1)}, "
            f"fewer than the {length} of a training sequence. Set sequence_epochs "
            f"(or the network's training_length) to at most {longest}."
        )
    n_round = len(round_of_batches(stretches, length, options.batch_size, (options.seed, 0)))
    options = count_in_steps(options, recipe, n_round)
    seconds = card.epoch_seconds
    decoder = card.profile if options.loss == "semi-markov" else None
    judge = Validation(validation, normalisation, profile.scheme.n_stages, fixed, decoder, seconds)
    objective = Objective(profile, options, counts, seconds).to(device)
    identity = {"data": fingerprint(tables), "profile": profile.sha256, "options": options.to_dict()}
    location = Location(folder, identity, overwrite)
    run = start(network, options)
    return card, run, _Plan(options, stretches, length, objective, judge, location, device)


def _loop(run: TrainingRun, plan: _Plan, report: Report | None, shared: Path | None) -> None:
    """Optimise until steps or patience run out; evaluate, log and save on the way."""
    options, every = plan.options, plan.options.evaluate_every
    assert every is not None and options.patience is not None
    numbers, began, sums = run.numbers, time.perf_counter(), dict[str, float]()
    for step, windows in plan.batches(numbers.step):
        if numbers.n_stale >= options.patience:
            break
        rate = rate_at(step, options)
        parts = _step(run, plan, step, windows, rate)
        numbers.step = step + 1
        for name, value in parts.items():
            sums[name] = sums.get(name, 0.0) + value
        score = means = None
        if numbers.step % every == 0 or numbers.step == plan.n_steps:
            score = plan.judge.score(run.network)
            if numbers.step > options.penalty_after:  # weights that have not seen the penalty are not chosen
                remember(run, score)
            n_summed = (numbers.step - 1) % every + 1
            means = {name: value / n_summed for name, value in sums.items()}
            log(numbers, means, rate, score, time.perf_counter() - began)
            sums = {}
            save(run, plan.location)
        if shared is not None and numbers.step == options.penalty_after:
            save(run, plan.before_penalty(shared))
        if report is not None:
            report(TrainingProgress(numbers.step, plan.n_steps, parts, score, means))


def _step(
    run: TrainingRun, plan: _Plan, step: int, windows: list[tuple[int, int]], rate: float
) -> dict[str, float]:
    """Take one optimiser step; return the parts of the loss before the step."""
    options, device = plan.options, plan.device
    torch.manual_seed(options.seed * 1_000_003 + step)
    batch = make_batch(plan.stretches, windows, plan.length)
    x, y, mask = (torch.from_numpy(array).to(device) for array in batch)
    run.network.train()
    is_mixed = device.type == "cuda" and torch.cuda.is_bf16_supported()
    with torch.autocast("cuda", torch.bfloat16, enabled=is_mixed):
        logits = run.network(x)
    parts = plan.objective(logits.float(), y, mask)
    if step < options.penalty_after:
        parts["loss"] = parts["cross_entropy"]
    for group in run.optimizer.param_groups:
        group["lr"] = rate
    run.optimizer.zero_grad(set_to_none=True)
    parts["loss"].backward()
    parameters = [p for group in run.optimizer.param_groups for p in group["params"]]
    norm = torch.nn.utils.clip_grad_norm_(parameters, options.clip or float("inf"))
    numbers = {name: float(value.detach()) for name, value in parts.items()}
    if not (isfinite(numbers["loss"]) and isfinite(float(norm))):
        raise InputError(
            f"the loss became {numbers['loss']} in step {step}. Lower learning_rate (now "
            f"{options.learning_rate:g}), or look for extreme features."
        )
    run.optimizer.step()
    return numbers


def pick_device(name: str) -> torch.device:
    """Return the device by name; "auto" is a GPU if there is one."""
    has_gpu = torch.cuda.is_available()
    if name == "cuda" and not has_gpu:
        raise InputError(
            f"device is 'cuda', but torch {torch.__version__} finds no CUDA device here. "
            "Use device 'cpu', or 'auto' to take what there is."
        )
    return torch.device("cuda" if name == "cuda" or (name == "auto" and has_gpu) else "cpu")


@contextlib.contextmanager
def _repeatable(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch, and on the CPU allow only deterministic algorithms; restore torch's state afterwards."""
    before = torch.are_deterministic_algorithms_enabled()
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        if device.type == "cpu":
            torch.use_deterministic_algorithms(True)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(before)


def _card(
    options: TrainingOptions,
    profile: Profile,
    tables: Sequence[Features],
    training: Sequence[Features],
    normalisation: Normalisation,
) -> ModelCard:
    first = tables[0]
    recipe = options.recipe if first.recipe is None else str(first.recipe["name"])
    seconds = epoch_length(tables, options.epoch_seconds) or profile.epoch_seconds
    if options.loss == "semi-markov":  # decode with the weights of the loss: no rule per night, no clock
        weight = 1.0 if profile.transition_weight is None else profile.transition_weight
        profile = profile.replace(transition_weight=weight, clock=None)
    subjects = {table.subject for table in tables}, {table.subject for table in training}
    return ModelCard(
        backbone=options.backbone,
        network=options.network,
        epoch_seconds=seconds,
        features=FeatureSet(recipe, first.recipe, first.names, first.values.shape[1]),
        normalisation=normalisation,
        length=None,
        temperature=1.0,
        trained="balanced" if options.balanced else "natural",
        profile=profile,
        training={
            "options": options.to_dict(),
            "n_recordings": len(tables),
            "n_training_recordings": len(training),
            "n_subjects": len(subjects[0]),
            "n_training_subjects": len(subjects[1]),
        },
    )
