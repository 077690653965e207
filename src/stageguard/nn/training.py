"""The training loop: from feature tables to a staging network, repeatably.

The result depends only on options and data: weights follow from the seed, the order of sequences from seed
and round, dropout from seed and step. A killed run continues from its last evaluation with the same result.
"""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, count, islice
from math import cos, isfinite, pi
from pathlib import Path
from typing import Any

import numpy as np

from stageguard.arrays import CLIP, Floats, Floats32, Ints
from stageguard.documents import plain
from stageguard.errors import FileFormatError, InputError, OutputError, OutputExistsError, fault_text
from stageguard.files import read_file, write_together
from stageguard.measures.agreement import cohen_kappa
from stageguard.nn.data import (
    Normalisation,
    Stretch,
    check_together,
    count_labels,
    epoch_length,
    fingerprint,
    make_batch,
    round_of_batches,
    soften,
    split_subjects,
    take_subjects,
)
from stageguard.nn.losses import StageGuardLoss
from stageguard.nn.model import CARD, FeatureSet, ModelCard, TrainedModel, save_model
from stageguard.nn.options import TrainingOptions
from stageguard.nn.pytorch import Tensor, nn, torch
from stageguard.profile.profile import as_profile
from stageguard.signals.features import Features
from stageguard.storage import local_only

STATE, LOG = "training.pt", "log.jsonl"
WARM_UP = 0.3  # share of the steps in which the learning rate rises


@dataclass(frozen=True, slots=True)
class ValidationScore:
    """Agreement of a network with the expert, over all scored epochs of all recordings."""

    kappa: float
    accuracy: float
    log_loss: float


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """Progress of a run: losses after every step; after an evaluation also their means and the score."""

    step: int
    n_steps: int
    parts: Mapping[str, float]
    score: ValidationScore | None = None
    means: Mapping[str, float] | None = None  # of the parts since the last evaluation


Report = Callable[[TrainingProgress], None]


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

    An interrupted run with the same options and data is resumed; another one is an error without `overwrite`,
    as is a finished network in the folder. `report` is called after every step. `shared` is a folder for the
    state after `penalty_after` steps, from which runs that differ in the penalty's weight alone go on: the
    first writes it, and the others give the same networks as without it.
    """
    folder = Path(folder)
    check_together(tables)
    check_output(folder, overwrite=overwrite)
    device = pick_device(options.device)
    with _repeatable(options.seed, device):
        run = _set_up(tables, options, device)
        run.resume(folder, overwrite=overwrite)
        if shared is not None and not run.step:
            run.resume(shared, any_weight=True)
        _loop(run, folder, report, shared)
        run.model.network.load_state_dict(run.best)
        temperature = 1.0
        if run.options.temperature:
            temperature = best_temperature(*_validate(run), run.stage_weights)
    results = {"best_step": run.best_step, "best_kappa": run.best_kappa, "stopped_at": run.step}
    card = run.model.card
    about = {"options": run.identity["options"], **card.training, **results}
    model = TrainedModel(run.model.network.eval(), replace(card, temperature=temperature, training=about))
    save_model(model, folder, overwrite=True)
    (folder / STATE).unlink(missing_ok=True)
    return model


def check_output(folder: Path, *, overwrite: bool) -> None:
    """Refuse, before any work is done, a folder that has a network already or cannot hold one."""
    local_only(folder, "training")
    if (folder / CARD).exists() and not overwrite:
        raise OutputExistsError(f"{folder} holds a network already. Use overwrite=True to train it anew.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise OutputError(f"cannot write into {folder}: {error.strerror or error}.") from None


def pick_device(name: str) -> torch.device:
    """Return the device by name; "auto" is a GPU if there is one."""
    has_gpu = torch.cuda.is_available()
    if name == "cuda" and not has_gpu:
        raise InputError("device is 'cuda', but torch finds no CUDA device here. Use 'cpu' or 'auto'.")
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


_CHANGING = ("best", "best_step", "best_kappa", "step", "n_stale", "history")


@dataclass(slots=True)
class _Run:
    """A training run: what it needs, and what changes on the way and is stored to go on from."""

    options: TrainingOptions  # complete
    model: TrainedModel
    stretches: Sequence[Stretch]
    length: int  # epochs of a sequence
    loss: StageGuardLoss
    stage_weights: Floats32
    validation: Sequence[Features]
    identity: Mapping[str, Any]  # options, data and profile; only the same run is resumed
    optimizer: torch.optim.Optimizer
    best: Mapping[str, Tensor]  # weights
    best_step: int = 0
    best_kappa: float = -2.0
    step: int = 0
    n_stale: int = 0  # evaluations since the best one
    history: list[dict[str, Any]] = field(default_factory=list)  # one entry per evaluation

    def batches(self) -> Iterator[tuple[int, list[tuple[int, int]]]]:
        """Return (step, windows) of the steps to take, round after round."""
        size, seed = self.options.batch_size, self.options.seed
        rounds = (round_of_batches(self.stretches, self.length, size, (seed, number)) for number in count())
        return islice(enumerate(chain.from_iterable(rounds)), self.step, self.options.steps)

    def save(self, folder: Path) -> None:
        """Write the state and the log, both or neither."""
        state: dict[str, Any] = {name: getattr(self, name) for name in _CHANGING}
        state |= {"identity": self.identity, "network": self.model.network.state_dict()}
        stream = io.BytesIO()
        torch.save(state | {"optimizer": self.optimizer.state_dict()}, stream)
        lines = [{"options": self.identity["options"]}, *self.history]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        contents: dict[Path, str | bytes] = {folder / STATE: stream.getvalue(), folder / LOG: text}
        write_together(contents, overwrite=True, make_folders=True)

    def resume(self, folder: Path, *, overwrite: bool = False, any_weight: bool = False) -> None:
        """Restore the state of an interrupted run, if there is one; with `overwrite`, leave another one.

        With `any_weight` the weight of the penalty may differ.
        """
        path, own = folder / STATE, self.identity
        if not path.exists():
            return
        try:
            state = torch.load(io.BytesIO(read_file(path)), weights_only=True)
            stored = state["identity"]
            if any_weight:
                stored["options"]["penalty_weight"] = own["options"]["penalty_weight"]
            if other := [key for key in own if stored[key] != own[key]]:
                if overwrite:
                    return
                found = f"{folder} holds an unfinished run with other {other[0]}"
                raise InputError(f"{found}. Use overwrite=True to begin anew.")
            self.model.network.load_state_dict(state["network"])
            self.optimizer.load_state_dict(state["optimizer"])
            for name in _CHANGING:
                setattr(self, name, state[name])
        except InputError:
            raise
        except Exception as error:  # of torch or pickle, for a file that is no state
            reason = f"is no state of a training run ({fault_text(error)})"
            raise FileFormatError(f"{path}: {reason}. Delete it to begin anew.") from None


def _copied(network: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().clone() for name, tensor in network.state_dict().items()}


def _set_up(tables: Sequence[Features], options: TrainingOptions, device: torch.device) -> _Run:
    """Return the run at its first step."""
    profile = as_profile(options.profile)
    options = options.filled(profile)
    tables, _ = take_subjects(tables, options.held_out_subjects, "held_out_subjects")
    training, validation = take_subjects(tables, options.validation_subjects, "validation_subjects")
    if not validation:
        training, validation = split_subjects(tables, options.validation_share, options.seed)
    first = tables[0]
    if first.scheme != profile.scheme:
        wanted = ", ".join(profile.scheme.names)
        raise InputError(f"the tables have other stages than profile {profile.name!r}, expected {wanted}.")
    counts = count_labels(training, profile.scheme)
    normalisation = Normalisation.fit(training, options.absolute or first.absolute)
    recipe = options.recipe if first.recipe is None else str(first.recipe["name"])
    card = ModelCard(
        backbone=options.backbone,
        network=options.network,
        epoch_seconds=epoch_length(tables, options.epoch_seconds) or profile.epoch_seconds,
        features=FeatureSet(recipe, first.recipe, first.names, first.values.shape[1]),
        normalisation=normalisation,
        length=None,
        temperature=1.0,
        trained="balanced" if options.balanced else "natural",
        profile=profile,
        training={
            "n_recordings": len(tables),
            "n_training_recordings": len(training),
            "n_subjects": len({table.subject for table in tables}),
            "n_training_subjects": len({table.subject for table in training}),
        },
    )
    network: Any = card.build().to(device)
    card = replace(card, length=network.training_length)
    length = card.length or options.sequence_epochs
    stretches = normalisation.stretches(training)
    longest = max(len(stretch.labels) for stretch in stretches)
    if longest < length:
        wanted = f"expected the {length} of sequence_epochs or the network's training_length"
        raise InputError(f"the longest unbroken stretch has {longest} epochs, {wanted}.")
    weights = counts.sum() / (len(counts) * counts) if options.balanced else np.ones(len(counts))
    stage_weights = weights.astype(np.float32)
    balance = stage_weights.tolist() if options.balanced else None
    parameters = [p for p in network.parameters() if p.requires_grad]
    assert options.learning_rate is not None
    return _Run(
        options,
        TrainedModel(network, card),
        stretches,
        length,
        StageGuardLoss(profile, options.penalty_weight, balance).to(device),
        stage_weights,
        validation,
        {"data": fingerprint(tables), "profile": profile.sha256, "options": plain(options, defaults=True)},
        torch.optim.AdamW(parameters, lr=options.learning_rate, weight_decay=options.weight_decay),
        _copied(network),
    )


def _loop(run: _Run, folder: Path, report: Report | None, shared: Path | None) -> None:
    """Optimise until steps or patience run out; evaluate, log and save on the way."""
    options, every = run.options, run.options.evaluate_every
    assert options.patience is not None and options.learning_rate is not None
    began, sums = time.perf_counter(), dict[str, float]()
    for step, windows in run.batches():
        if run.n_stale >= options.patience:
            break
        rate = one_cycle(step, options.steps, options.learning_rate)
        parts = _step(run, step, windows, rate)
        run.step = step + 1
        for name, value in parts.items():
            sums[name] = sums.get(name, 0.0) + value
        score = means = None
        if run.step % every == 0 or run.step == options.steps:
            score = score_probabilities(*_validate(run))
            # weights that have not seen the penalty are not chosen
            if run.step > options.penalty_after and score.kappa > run.best_kappa:
                run.best, run.best_kappa, run.best_step = _copied(run.model.network), score.kappa, run.step
                run.n_stale = 0
            elif run.step > options.penalty_after:
                run.n_stale += 1
            means = {name: value / ((run.step - 1) % every + 1) for name, value in sums.items()}
            sums = {}
            run.history.append(
                {
                    "step": run.step,
                    "learning_rate": rate,
                    "training": {name: round(value, 6) for name, value in means.items()},
                    "validation": {name: round(value, 6) for name, value in asdict(score).items()},
                    "is_best": run.best_step == run.step,
                    "seconds": round(time.perf_counter() - began, 2),
                }
            )
            run.save(folder)
        if shared is not None and run.step == options.penalty_after:
            run.save(shared)
        if report is not None:
            report(TrainingProgress(run.step, options.steps, parts, score, means))


def _step(run: _Run, step: int, windows: list[tuple[int, int]], rate: float) -> dict[str, float]:
    """Take one optimiser step; return the parts of the loss before the step."""
    network, options = run.model.network, run.options
    torch.manual_seed(options.seed * 1_000_003 + step)
    device = run.loss.penalty.rare.device
    batch = make_batch(run.stretches, windows, run.length)
    x, y, mask = (torch.from_numpy(array).to(device) for array in batch)
    network.train()
    is_mixed = device.type == "cuda" and torch.cuda.is_bf16_supported()
    with torch.autocast("cuda", torch.bfloat16, enabled=is_mixed):
        logits = network(x)
    total, cross_entropy, penalty = run.loss.parts(logits.float(), y, mask)
    if step < options.penalty_after:
        total = cross_entropy
    run.optimizer.param_groups[0]["lr"] = rate
    run.optimizer.zero_grad(set_to_none=True)
    total.backward()  # type: ignore[no-untyped-call]
    parameters = run.optimizer.param_groups[0]["params"]
    norm = torch.nn.utils.clip_grad_norm_(parameters, options.clip or float("inf"))
    parts = {"loss": total, "cross_entropy": cross_entropy, "penalty": penalty}
    numbers = {name: float(value.detach()) for name, value in parts.items()}
    if not (isfinite(numbers["loss"]) and isfinite(float(norm))):
        found = f"the loss became {numbers['loss']} in step {step}"
        raise InputError(f"{found}. Lower learning_rate (now {options.learning_rate:g}).")
    run.optimizer.step()
    return numbers


def one_cycle(step: int, n_steps: int, peak: float) -> float:
    """Return the learning rate: a cosine from peak/25 up to the peak, then down to almost 0."""
    n_up = max(1.0, WARM_UP * n_steps)
    if step < n_up:
        low, share = peak / 25, 1 - step / n_up
    else:
        low, share = peak / 25e4, (step - n_up) / max(1.0, n_steps - n_up)
    return low + (peak - low) * (1 + cos(pi * share)) / 2


# ---- validation


def _validate(run: _Run) -> tuple[Floats, Ints]:
    """Return probabilities and the expert's stages of the validation epochs that have both."""
    rows = np.concatenate([run.model.raw_probabilities(table) for table in run.validation])
    labels = np.concatenate([table.labels for table in run.validation if table.labels is not None])
    keep = (labels >= 0) & ~np.isnan(rows[:, 0])
    return rows[keep], labels[keep]


def score_probabilities(probabilities: Floats, labels: Ints) -> ValidationScore:
    """Score the epochs; if only one stage occurs on both sides, kappa is 0."""
    if not len(labels):
        return ValidationScore(-1.0, 0.0, float("inf"))
    confusion = np.zeros((probabilities.shape[1], probabilities.shape[1]), dtype=np.int64)
    np.add.at(confusion, (labels, probabilities.argmax(axis=1)), 1)
    kappa, at_truth = cohen_kappa(confusion), probabilities[np.arange(len(labels)), labels]
    loss = float(-np.log(np.maximum(at_truth, CLIP)).mean())
    accuracy = float(np.trace(confusion) / len(labels))
    return ValidationScore(0.0 if np.isnan(kappa) else float(kappa), accuracy, loss)


def best_temperature(probabilities: Floats, labels: Ints, weights: Floats32) -> float:
    """Return the temperature with the smallest weighted log-loss, between 1/4 and 4, by golden section."""
    if not len(labels):
        return 1.0
    weight = weights.astype(np.float64)[labels]

    def loss(log_temperature: float) -> float:
        p = soften(probabilities, float(np.exp(log_temperature)))[np.arange(len(labels)), labels]
        return float(-(weight * np.log(np.maximum(p, CLIP))).sum() / weight.sum())

    low, high, ratio = float(np.log(0.25)), float(np.log(4.0)), (5**0.5 - 1) / 2
    while high - low > 1e-3:
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, b) if loss(a) <= loss(b) else (a, high)
    return float(np.exp((low + high) / 2))
