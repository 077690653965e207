"""The state of a training run, on disk and back, and its log. Decides nothing about training."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor, nn

from stageguard._files import write_together
from stageguard.errors import FileFormatError, InputError
from stageguard.nn.checkpoint import plain_tensors
from stageguard.nn.evaluation import Score
from stageguard.nn.objective import Objective
from stageguard.nn.options import TrainingOptions

STATE = "training.safetensors"
LOG = "log.jsonl"


@dataclass(slots=True)
class Run:
    """Everything that changes during training; what `save` writes and `resume` reads."""

    network: nn.Module
    objective: Objective
    optimizer: torch.optim.AdamW
    best: dict[str, Tensor]
    step: int = 0
    best_step: int = 0
    best_kappa: float = -2.0
    n_stale: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)


def start(network: nn.Module, objective: Objective, options: TrainingOptions) -> Run:
    """Return a run at its first step."""
    learned = [p for module in (network, objective) for p in module.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(learned, lr=options.learning_rate, weight_decay=options.weight_decay)
    return Run(network, objective, optimizer, plain_tensors(network.state_dict()))


def remember(run: Run, score: Score) -> None:
    """Keep the weights if they are the best so far."""
    if score.kappa > run.best_kappa:
        run.best = plain_tensors(run.network.state_dict())
        run.best_kappa, run.best_step, run.n_stale = score.kappa, run.step, 0
    else:
        run.n_stale += 1


def log(run: Run, means: Mapping[str, float], rate: float, score: Score, seconds: float) -> None:
    """Add a line to the log."""
    validation = {name: round(value, 6) for name, value in score.to_dict().items()}
    entry = {"step": run.step, "learning_rate": rate, "training": dict(means), "validation": validation}
    run.history.append(entry | {"is_best": run.best_step == run.step, "seconds": round(seconds, 2)})


def save(run: Run, folder: Path, identity: Mapping[str, Any]) -> None:
    """Write the state of the run and its log, both or none."""
    tensors: dict[str, Tensor] = {}
    for prefix, named in (
        ("network.", run.network.state_dict()),
        ("objective.", run.objective.state_dict()),
        ("best.", run.best),
    ):
        tensors |= {prefix + name: tensor for name, tensor in plain_tensors(named).items()}
    for index, held in run.optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": tensor for name, tensor in plain_tensors(held).items()}
    numbers = {
        "step": run.step,
        "best_step": run.best_step,
        "best_kappa": run.best_kappa,
        "n_stale": run.n_stale,
        "history": run.history,
    }
    state = to_bytes(tensors, metadata={"identity": json.dumps(identity), "run": json.dumps(numbers)})
    lines = [{"options": identity["options"]}, *run.history]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    write_together({folder / STATE: state, folder / LOG: text}, overwrite=True, make_folders=True)


def resume(run: Run, path: Path, identity: Mapping[str, Any]) -> None:
    """Put a run where an interrupted one left off, if there is one."""
    if not path.exists():
        return
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata()
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        said, numbers = json.loads(metadata["identity"]), json.loads(metadata["run"])
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise FileFormatError(
            f"{path.name}: is not a readable training state ({error}). Pass overwrite=True to begin anew."
        ) from None
    for what in identity:
        if said.get(what) != json.loads(json.dumps(identity[what])):
            raise InputError(
                f"{path.parent} holds an unfinished run with other {what}"
                f"{_difference(said, identity, what)}. "
                "Pass overwrite=True to begin anew, or choose another folder."
            )

    def part(prefix: str) -> dict[str, Tensor]:
        return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}

    run.network.load_state_dict(part("network."))
    run.objective.load_state_dict(part("objective."))
    run.best = part("best.")
    moments: dict[int, dict[str, Tensor]] = {}
    for name, tensor in part("optimizer.").items():
        index, _, kind = name.partition(".")
        moments.setdefault(int(index), {})[kind] = tensor
    groups = run.optimizer.state_dict()["param_groups"]
    run.optimizer.load_state_dict({"state": moments, "param_groups": groups})
    for name, value in numbers.items():
        setattr(run, name, value)


def _difference(said: Mapping[str, Any], identity: Mapping[str, Any], what: str) -> str:
    if what != "options":
        return ""
    changed = [k for k, v in identity[what].items() if said.get(what, {}).get(k) != json.loads(json.dumps(v))]
    return f" ({changed[0]})" if changed else ""
