"""The state of a training run, saved and restored, and its log."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from stageguard import checks, schema
from stageguard.errors import (
    OVERWRITE,
    FileFormatError,
    InputError,
    Message,
    OutputError,
    OutputExistsError,
)
from stageguard.files import local_file, parse_json, write_together
from stageguard.nn.checkpoint import CARD, WEIGHTS, codec, first_difference, plain_tensors, safetensors
from stageguard.nn.inference import ValidationScore
from stageguard.nn.options import TrainingOptions
from stageguard.nn.pytorch import Tensor, nn, torch
from stageguard.storage import local_only

STATE = "training.safetensors"
LOG = "log.jsonl"
METADATA = ("identity", "run", "tensors", "replaces")  # of the state's file
BEGIN_ANEW = Message(OVERWRITE, " to begin anew")


@dataclass(slots=True)
class RunNumbers:
    """The numbers that change during training."""

    step: int = schema.count(0, low=0)
    best_step: int = schema.count(0, low=0)
    best_kappa: float = schema.number(-2.0)
    n_stale: int = schema.count(0, low=0)  # evaluations since the best one
    # one entry per evaluation
    history: tuple[Mapping[str, Any], ...] = schema.declare((), partial(checks.items, check=checks.mapping))


@dataclass(slots=True)
class TrainingRun:
    """Everything that changes during training; `save` writes it and `resume` reads it."""

    network: nn.Module
    optimizer: torch.optim.Optimizer
    best: dict[str, Tensor]
    numbers: RunNumbers = field(default_factory=RunNumbers)


@dataclass(frozen=True, slots=True)
class Location:
    """Where a run is stored, and which run it is."""

    folder: Path  # for the state, the log and finally the network
    identity: Mapping[str, Any]  # options, data and profile in JSON types; only the same run is resumed
    replaces: bool = False  # whether to start again and replace the content of the folder


def check_output(folder: Path, *, overwrite: bool) -> None:
    """Refuse, before any work is done, a folder that has a network already or cannot be written to."""
    local_only(folder, "training")
    if (folder / CARD).exists() and not overwrite:
        raise OutputExistsError(
            Message(f"{folder} holds a network already. ", OVERWRITE, " to train it anew.")
        )
    missing = [level for level in (folder, *folder.parents) if not level.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        reason = "it is a file" if folder.is_file() else error.strerror or error
        raise OutputError(
            f"cannot write into {folder}: {reason}. Choose a folder you can write to."
        ) from None
    finally:
        for level in missing:  # innermost first; existing folders stay
            with contextlib.suppress(OSError):
                level.rmdir()


def start(network: nn.Module, options: TrainingOptions) -> TrainingRun:
    """Return a run at its first step."""
    groups, rate = _decay_groups(network, options), options.learning_rate
    assert rate is not None
    optimizer: torch.optim.Optimizer
    if options.optimiser == "sgd":
        optimizer = torch.optim.SGD(groups, lr=rate, momentum=options.momentum or 0.0)
    elif options.optimiser == "adamw":
        optimizer = torch.optim.AdamW(groups, lr=rate)
    else:
        optimizer = torch.optim.Adam(groups, lr=rate, amsgrad=options.optimiser == "adam-amsgrad")
    return TrainingRun(network, optimizer, plain_tensors(network.state_dict()))


def _decay_groups(network: nn.Module, options: TrainingOptions) -> list[dict[str, Any]]:
    """Return the parameters that decay and those that do not, without empty groups."""
    decay, patterns = options.weight_decay, options.decayed
    assert decay is not None and patterns is not None
    groups: dict[bool, list[nn.Parameter]] = {True: [], False: []}
    for name, parameter in network.named_parameters():
        if parameter.requires_grad:
            groups[any(fnmatchcase(name, pattern) for pattern in patterns)].append(parameter)
    if decay and not groups[True]:
        raise InputError(
            f"decayed is {list(patterns)}, which is none of the network's parameters, such as "
            f"{next(iter(dict(network.named_parameters())), 'none')!r}. Set weight_decay to 0 for none."
        )
    return [
        {"params": parameters, "weight_decay": decay if is_decayed else 0.0}
        for is_decayed, parameters in groups.items()
        if parameters
    ]


def remember(run: TrainingRun, score: ValidationScore) -> None:
    """Keep the weights if they are the best so far."""
    numbers = run.numbers
    if score.kappa > numbers.best_kappa:
        run.best = plain_tensors(run.network.state_dict())
        numbers.best_kappa, numbers.best_step, numbers.n_stale = score.kappa, numbers.step, 0
    else:
        numbers.n_stale += 1


def log(
    numbers: RunNumbers, means: Mapping[str, float], rate: float, score: ValidationScore, seconds: float
) -> None:
    """Add a line to the log."""
    validation = {name: round(value, 6) for name, value in asdict(score).items()}
    training = {name: round(value, 6) for name, value in means.items()}
    entry = {"step": numbers.step, "learning_rate": rate, "training": training, "validation": validation}
    entry |= {"is_best": numbers.best_step == numbers.step, "seconds": round(seconds, 2)}
    numbers.history += (entry,)


def save(run: TrainingRun, location: Location) -> None:
    """Write the state of the run and its log, both or neither; a network that it replaces is deleted."""
    tensors: dict[str, Tensor] = {}
    for prefix, named in (("network.", run.network.state_dict()), ("best.", run.best)):
        tensors |= {prefix + name: tensor for name, tensor in plain_tensors(named).items()}
    for index, state in run.optimizer.state_dict()["state"].items():
        moments = {name: tensor for name, tensor in state.items() if tensor is not None}
        tensors |= {f"optimizer.{index}.{name}": tensor for name, tensor in plain_tensors(moments).items()}
    about = (location.identity, asdict(run.numbers), sorted(tensors), location.replaces)
    metadata = {key: json.dumps(value) for key, value in zip(METADATA, about, strict=True)}
    lines = [{"options": location.identity["options"]}, *run.numbers.history]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    contents = {location.folder / STATE: codec.save(tensors, metadata=metadata), location.folder / LOG: text}
    write_together(contents, overwrite=True, make_folders=True)
    if location.replaces:
        for name in (CARD, WEIGHTS):
            (location.folder / name).unlink(missing_ok=True)


def resume(run: TrainingRun, location: Location) -> None:
    """Restore the state of an interrupted run, if there is one.

    With ``replaces``, it is restored only if it is the same run and was started with ``replaces`` as well.
    """
    path = location.folder / STATE
    if not path.exists():
        return
    try:
        with safetensors.safe_open(local_file(path, "weights"), "pt") as file:
            metadata = file.metadata()
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        stored, numbers, names, replaced = (parse_json(metadata[key]) for key in METADATA)
        difference = _difference(checks.mapping(stored, "identity"), location.identity)
        if location.replaces and (difference or replaced is not True):
            path.unlink()
            return
        if not difference:
            if odd := sorted({*names} ^ {*tensors}):
                raise InputError(f"{odd[0]!r} is missing or unknown")
            _restore(run, schema.read_table(RunNumbers, numbers, complete=True), tensors)
            return
    except (InputError, safetensors.SafetensorError, KeyError, TypeError, ValueError) as error:
        if not location.replaces:
            reason = str(error).rstrip(".")
            raise FileFormatError(
                f"{path.name}: is not a readable training state ({reason}). {BEGIN_ANEW}."
            ) from None
        path.unlink()
        return
    raise InputError(
        f"{location.folder} holds an unfinished run with other {difference}. {BEGIN_ANEW}, or choose "
        "another folder."
    )


def _difference(stored: Mapping[str, Any], identity: Mapping[str, Any]) -> str:
    """Return in what a stored run differs from this one ("options (seed)"), "" if in nothing."""
    for part, value in identity.items():
        plain, other = parse_json(json.dumps(value)), stored.get(part)
        if plain != other:
            stored_options = other if isinstance(other, Mapping) else {}
            changed = [key for key in stored_options if stored_options[key] != plain.get(key)]
            return f"{part} ({changed[0]})" if changed else part
    return ""


def _restore(run: TrainingRun, numbers: RunNumbers, tensors: Mapping[str, Tensor]) -> None:
    """Restore the whole run, or change nothing if the state does not fit."""

    def part(prefix: str) -> dict[str, Tensor]:
        return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}

    for prefix in ("network.", "best."):
        if difference := first_difference(run.network.state_dict(), part(prefix)):
            raise InputError(f"{prefix}*: {difference}")
    moments = _moments(run.optimizer, part("optimizer."))
    groups = run.optimizer.state_dict()["param_groups"]
    run.optimizer.load_state_dict({"state": moments, "param_groups": groups})
    run.network.load_state_dict(part("network."))
    run.best, run.numbers = part("best."), numbers


def _moments(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> dict[int, dict[str, Tensor]]:
    """Return the optimiser's state of each parameter by index: numbers, and tensors of its shape."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    moments: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        index, _, kind = name.partition(".")
        if not index.isdecimal() or int(index) >= len(parameters):
            raise InputError(f"'optimizer.{name}' belongs to no parameter")
        if tensor.ndim and tensor.shape != parameters[int(index)].shape:
            raise InputError(f"'optimizer.{name}' has another shape than its parameter")
        moments.setdefault(int(index), {})[kind] = tensor
    return moments
