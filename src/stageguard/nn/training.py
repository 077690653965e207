"""Train a staging network on feature tables, visibly and repeatably. Computes no features, decodes nothing.

The run is a function of its options and data: weights follow from the seed, the order of the sequences from
seed and round, dropout from seed and step. A killed run goes on from its last evaluation as if never stopped.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import cos, isfinite, pi
from pathlib import Path
from typing import Any

import torch

from stageguard.errors import InputError, OutputExistsError
from stageguard.nn.checkpoint import CARD, ModelCard, TrainedModel, save_model
from stageguard.nn.data import (
    FeatureTable,
    absolute_features,
    check_together,
    count_labels,
    fingerprint,
    split_subjects,
)
from stageguard.nn.evaluation import Score, Validation
from stageguard.nn.normalise import Normalisation
from stageguard.nn.objective import Objective
from stageguard.nn.options import TrainingOptions
from stageguard.nn.run_state import STATE, Run, log, remember, resume, save, start
from stageguard.nn.sequences import Stretch, make_batch, round_of_batches
from stageguard.profile import Profile

WARM_UP = 0.3  # share of the steps in which the learning rate rises


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run is: after every step its losses, after an evaluation the validation score too."""

    step: int
    n_steps: int
    parts: Mapping[str, float]
    score: Score | None = None


def train(
    tables: Sequence[FeatureTable],
    options: TrainingOptions,
    folder: str | Path,
    *,
    overwrite: bool = False,
    report: Callable[[Progress], None] | None = None,
) -> TrainedModel:
    """Train a network and write it, with its card and log, into a folder.

    Where the folder holds an interrupted run of the same options and data, that run goes on.

    Parameters
    ----------
    tables : sequence of FeatureTable
        Scored recordings of at least two subjects, all in the profile's scheme.
    options : TrainingOptions
        What to train, and how.
    folder : path-like
        For `model.safetensors`, `model.json`, `log.jsonl`, and during training `training.safetensors`.
    overwrite : bool
        Begin anew, whatever the folder holds; otherwise a finished network there is an error.
    report : callable, optional
        Called with a `Progress` after every step.

    Returns
    -------
    TrainedModel
        The network at its best validation kappa.
    """
    folder = Path(folder)
    profile = Profile.load(options.profile)
    check_together(tables)
    if (folder / CARD).exists() and not overwrite:
        raise OutputExistsError(f"{folder} holds a network already. Pass overwrite=True to train it anew.")
    training, validation = split_subjects(tables, options.validation_share, options.seed)
    _check_scheme(tables, profile)
    counts = count_labels(training, profile.scheme)
    device = pick_device(options.device)
    absolute = tuple(options.absolute) or absolute_features(tables[0])
    normalisation = Normalisation.fit(training, absolute)
    card = _card(options, profile, tables, training, normalisation)
    identity = {"options": options.to_dict(), "data": fingerprint(tables), "profile": profile.sha256}
    with _repeatable(options.seed, device):
        network = card.build().to(device)
        fixed = getattr(network, "training_length", None)
        length = options.sequence_epochs if fixed is None else int(fixed)
        stretches = normalisation.stretches(training)
        _check_lengths(stretches, length)
        objective = Objective(profile, options, counts).to(device)
        run = start(network, objective, options)
        if overwrite:
            (folder / STATE).unlink(missing_ok=True)
        resume(run, folder / STATE, identity)
        decoder = card.profile if options.loss == "semi-markov" else None
        judge = Validation(validation, normalisation, profile.scheme.n_stages, fixed, decoder)
        _loop(run, options, stretches, length, device, judge, folder, identity, report)
        network.load_state_dict(run.best)
        # the semi-Markov likelihood weighs evidence against transitions: a temperature would undo that
        temperature = 1.0 if decoder else judge.temperature(network.eval(), objective.stage_weights)
    results = {"best_step": run.best_step, "best_kappa": run.best_kappa, "stopped_at": run.step}
    card = replace(card, length=fixed, temperature=temperature, training=dict(card.training) | results)
    model = TrainedModel(network.eval(), card)
    save_model(model, folder, overwrite=True)
    (folder / STATE).unlink(missing_ok=True)
    return model


def _loop(
    run: Run,
    options: TrainingOptions,
    stretches: Sequence[Stretch],
    length: int,
    device: torch.device,
    judge: Validation,
    folder: Path,
    identity: Mapping[str, Any],
    report: Callable[[Progress], None] | None,
) -> None:
    """Optimise until the steps or the patience run out; evaluate, log and save on the way."""
    began, sums = time.perf_counter(), dict[str, float]()
    for step, windows in _batches(stretches, length, options, run.step):
        if run.n_stale >= options.patience:
            break
        torch.manual_seed(options.seed * 1_000_003 + step)
        batch = make_batch(stretches, windows, length)
        x, y, mask = (torch.from_numpy(a).to(device) for a in (batch.features, batch.labels, batch.mask))
        run.network.train()
        with torch.autocast("cuda", torch.bfloat16, enabled=_mixes(device)):
            logits = run.network(x)
        parts = run.objective(logits.float(), y, mask)
        rate = one_cycle(step, options.steps, options.learning_rate)
        for group in run.optimizer.param_groups:
            group["lr"] = rate
        run.optimizer.zero_grad(set_to_none=True)
        parts["loss"].backward()
        parameters = [p for group in run.optimizer.param_groups for p in group["params"]]
        norm = torch.nn.utils.clip_grad_norm_(parameters, options.clip)
        numbers = {name: float(value.detach()) for name, value in parts.items()}
        if not (isfinite(numbers["loss"]) and isfinite(float(norm))):
            raise InputError(
                f"the loss became {numbers['loss']} in step {step}. Lower learning_rate (now "
                f"{options.learning_rate:g}), or look for extreme features."
            )
        run.optimizer.step()
        run.step = step + 1
        for name, value in numbers.items():
            sums[name] = sums.get(name, 0.0) + value
        score = None
        if run.step % options.evaluate_every == 0 or run.step == options.steps:
            score = judge.score(run.network)
            remember(run, score)
            n = (run.step - 1) % options.evaluate_every + 1
            means = {name: round(value / n, 6) for name, value in sums.items()}
            log(run, means, rate, score, time.perf_counter() - began)
            sums = {}
            save(run, folder, identity)
        if report is not None:
            report(Progress(run.step, options.steps, numbers, score))


def _batches(
    stretches: Sequence[Stretch], length: int, options: TrainingOptions, first: int
) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """Yield (step, windows) from a step on, round after round."""
    step, round_ = 0, 0
    while step < options.steps:
        for windows in round_of_batches(stretches, length, options.batch_size, (options.seed, round_)):
            if first <= step < options.steps:
                yield step, windows
            step += 1
        round_ += 1


def one_cycle(step: int, n_steps: int, peak: float) -> float:
    """Learning rate: a cosine from peak/25 up to the peak, then down to almost nothing."""
    n_up = max(1.0, WARM_UP * n_steps)
    if step < n_up:
        low, share = peak / 25, 1 - step / n_up
    else:
        low, share = peak / 25e4, (step - n_up) / max(1.0, n_steps - n_up)
    return low + (peak - low) * (1 + cos(pi * share)) / 2


def pick_device(name: str) -> torch.device:
    """Return the device by name; "auto" is a GPU where there is one."""
    has_gpu = torch.cuda.is_available()
    if name == "cuda" and not has_gpu:
        raise InputError(
            f"device is 'cuda', but torch {torch.__version__} finds no CUDA device here. "
            "Use device 'cpu', or 'auto' to take what there is."
        )
    return torch.device("cuda" if name == "cuda" or (name == "auto" and has_gpu) else "cpu")


def _mixes(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.is_bf16_supported()


@contextlib.contextmanager
def _repeatable(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch, on the CPU allow deterministic algorithms only, and leave everything as it was."""
    before = torch.are_deterministic_algorithms_enabled()
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        if device.type == "cpu":
            torch.use_deterministic_algorithms(True)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(before)


def _check_scheme(tables: Sequence[FeatureTable], profile: Profile) -> None:
    scheme = tables[0].scheme
    if scheme is not None and scheme != profile.scheme:
        raise InputError(
            f"the tables have the stages {', '.join(scheme.names)}, profile {profile.name!r} has "
            f"{', '.join(profile.scheme.names)}. Read the tables in the profile's scheme."
        )


def _check_lengths(stretches: Sequence[Stretch], length: int) -> None:
    longest = max(len(stretch.labels) for stretch in stretches)
    if longest < length:
        raise InputError(
            f"the longest unbroken stretch has {longest} epoch{'s' * (longest != 1)}, "
            f"fewer than the {length} of a training sequence. Set sequence_epochs "
            f"(or the network's training_length) to at most {longest}."
        )


def _card(
    options: TrainingOptions,
    profile: Profile,
    tables: Sequence[FeatureTable],
    training: Sequence[FeatureTable],
    normalisation: Normalisation,
) -> ModelCard:
    first = tables[0]
    if options.loss == "semi-markov" and profile.transition_weight is None:
        profile = profile.replace(transition_weight=1.0)  # what the loss takes in place of a rule per night
    subjects = {table.subject for table in tables}, {table.subject for table in training}
    return ModelCard(
        backbone=options.backbone,
        network=options.network,
        scheme=profile.scheme,
        epoch_seconds=options.epoch_seconds or first.epoch_seconds or profile.epoch_seconds,
        recipe=options.recipe if first.recipe is None else str(first.recipe["name"]),
        recipe_document=first.recipe,
        features=first.names,
        n_frames=first.features.shape[1],
        normalisation=normalisation,
        length=None,
        temperature=1.0,
        trained="balanced" if options.balanced else "natural",
        profile=profile,
        training={
            "options": options.to_dict(),
            "n_recordings": len(tables),
            "n_subjects": len(subjects[0]),
            "n_training_subjects": len(subjects[1]),
        },
    )
