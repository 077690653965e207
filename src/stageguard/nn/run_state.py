"""The state of a training run, saved and restored, and its log."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from stageguard.base import checks, schema
from stageguard.base.errors import (
    OVERWRITE,
    FileFormatError,
    InputError,
    Message,
    OutputError,
    OutputExistsError,
)
from stageguard.base.files import checked_file, parse_json, refuse_address, write_together
from stageguard.nn.checkpoint import CARD, WEIGHTS, codec, first_difference, plain_tensors, safetensors
from stageguard.nn.inference import ValidationScore
from stageguard.nn.options import TrainingOptions
from stageguard.nn.pytorch import Tensor, nn, torch

STATE = "training.safetensors"
LOG = "log.jsonl"
COUNTED = ("step", "best_step", "best_kappa", "n_stale", "history")  # of a run, besides its tensors
BEGIN_ANEW = Message(OVERWRITE, " to begin anew")


@dataclass(slots=True)
class TrainingRun:
    """Everything that changes during training; `save` writes it and `resume` reads it."""

    network: nn.Module
    optimizer: torch.optim.Optimizer
    best: dict[str, Tensor]
    step: int = 0
    best_step: int = 0
    best_kappa: float = -2.0
    n_stale: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Location:
    """Where a run is stored, and which run it is."""

    folder: Path  # for the state, the log and finally the network
    identity: Mapping[str, Any]  # options, data and profile in JSON types; only the same run is resumed
    replaces: bool = False  # whether to start again and replace the content of the folder


@dataclass(frozen=True, slots=True)
class _Numbers:
    """The numbers of a state."""

    step: int = schema.count(low=0)
    best_step: int = schema.count(low=0)
    best_kappa: float = schema.number()
    n_stale: int = schema.count(low=0)
    history: list[dict[str, Any]] = schema.declare(
        schema.REQUIRED, lambda value, where: list(checks.items(value, where, checks.mapping))
    )
    tensors: tuple[str, ...] = schema.declare(schema.REQUIRED, schema.text_list)
    replaces: bool = schema.flag()


def check_output(folder: Path, *, overwrite: bool) -> None:
    """Refuse, before any work is done, a folder that has a network already or cannot be written to."""
    refuse_address(folder)
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
    if score.kappa > run.best_kappa:
        run.best = plain_tensors(run.network.state_dict())
        run.best_kappa, run.best_step, run.n_stale = score.kappa, run.step, 0
    else:
        run.n_stale += 1


def log(
    run: TrainingRun, means: Mapping[str, float], rate: float, score: ValidationScore, seconds: float
) -> None:
    """Add a line to the log."""
    validation = {name: round(value, 6) for name, value in asdict(score).items()}
    training = {name: round(value, 6) for name, value in means.items()}
    entry = {"step": run.step, "learning_rate": rate, "training": training, "validation": validation}
    run.history.append(entry | {"is_best": run.best_step == run.step, "seconds": round(seconds, 2)})


def save(run: TrainingRun, location: Location) -> None:
    """Write the state of the run and its log, both or neither; a network that it replaces is deleted."""
    tensors: dict[str, Tensor] = {}
    for prefix, named in (("network.", run.network.state_dict()), ("best.", run.best)):
        tensors |= {prefix + name: tensor for name, tensor in plain_tensors(named).items()}
    for index, known in run.optimizer.state_dict()["state"].items():
        moments = {name: tensor for name, tensor in known.items() if tensor is not None}
        tensors |= {f"optimizer.{index}.{name}": tensor for name, tensor in plain_tensors(moments).items()}
    numbers = {name: getattr(run, name) for name in COUNTED}
    numbers |= {"tensors": sorted(tensors), "replaces": location.replaces}
    metadata = {"identity": json.dumps(location.identity), "run": json.dumps(numbers)}
    state = codec.save(tensors, metadata=metadata)
    lines = [{"options": location.identity["options"]}, *run.history]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    folder = location.folder
    write_together({folder / STATE: state, folder / LOG: text}, overwrite=True, make_folders=True)
    if location.replaces:
        for name in (CARD, WEIGHTS):
            (folder / name).unlink(missing_ok=True)


def resume(run: TrainingRun, location: Location) -> None:
    """Restore the state of an interrupted run, if there is one.

    With ``replaces``, it is restored only if it is the same run and was started with ``replaces`` as well.
    """
    path = location.folder / STATE
    if not path.exists():
        return
    try:
        identity, numbers, tensors = _read(path)
        is_same = all(identity.get(what) == _plain(value) for what, value in location.identity.items())
        if location.replaces and not (is_same and numbers.replaces):
            path.unlink()
            return
        if not is_same:
            raise InputError(_other(location, identity))
        _restore(run, numbers, tensors)
    except FileFormatError:
        if not location.replaces:
            raise
        path.unlink()


def _read(path: Path) -> tuple[Mapping[str, Any], _Numbers, dict[str, Tensor]]:
    """Return identity, numbers and tensors of a state file."""
    try:
        with safetensors.safe_open(checked_file(path, "weights"), "pt") as file:
            metadata = file.metadata()
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        identity, numbers = (parse_json(metadata[key]) for key in ("identity", "run"))
        return checks.mapping(identity, "identity"), schema.read_table(_Numbers, numbers), tensors
    except (InputError, safetensors.SafetensorError, KeyError, TypeError, ValueError) as error:
        raise _unreadable(path.name, error) from None


def _restore(run: TrainingRun, numbers: _Numbers, tensors: dict[str, Tensor]) -> None:
    """Restore the whole run, or change nothing if the state does not fit."""

    def part(prefix: str) -> dict[str, Tensor]:
        return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}

    try:
        odd = sorted({*numbers.tensors} ^ {*tensors})
        if odd:
            raise InputError(f"{odd[0]!r} is missing or unknown")
        for prefix in ("network.", "best."):
            if difference := first_difference(run.network.state_dict(), part(prefix)):
                raise InputError(f"{prefix}*: {difference}")
        moments = _moments(run.optimizer, part("optimizer."))
    except (InputError, ValueError) as error:
        raise _unreadable(STATE, error) from None
    groups = run.optimizer.state_dict()["param_groups"]
    run.optimizer.load_state_dict({"state": moments, "param_groups": groups})
    run.network.load_state_dict(part("network."))
    run.best = part("best.")
    for name in COUNTED:
        setattr(run, name, getattr(numbers, name))


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


def _unreadable(name: str, error: Exception) -> FileFormatError:
    reason = str(error).rstrip(".")
    return FileFormatError(f"{name}: is not a readable training state ({reason}). {BEGIN_ANEW}.")


def _other(location: Location, said: Mapping[str, Any]) -> str:
    """Return the message on how the stored run differs from this one."""
    what = next(what for what, value in location.identity.items() if said.get(what) != _plain(value))
    detail, theirs = "", said.get(what)
    if what == "options" and isinstance(theirs, Mapping):
        changed = [k for k, v in _plain(location.identity[what]).items() if theirs.get(k) != v]
        detail = f" ({changed[0]})" if changed else ""
    return (
        f"{location.folder} holds an unfinished run with other {what}{detail}. {BEGIN_ANEW}, or choose "
        "another folder."
    )


def _plain(value: Any) -> Any:
    """Return a value as JSON restores it."""
    return parse_json(json.dumps(value))
