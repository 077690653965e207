"""Any network with a profile, to train and to predict."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from stageguard import checks
from stageguard.arrays import SUM_TOLERANCE, Floats
from stageguard.errors import InputError
from stageguard.guard.decode import decode
from stageguard.guard.decoding import Decoding
from stageguard.nn.data import stage_windows
from stageguard.nn.losses import StageGuardLoss
from stageguard.nn.pytorch import Tensor, nn, run_network, torch
from stageguard.profile.profile import Profile, as_profile
from stageguard.profile.stagers import Training

Nights = Tensor | npt.NDArray[Any] | Sequence[Tensor | npt.NDArray[Any]]


class Guarded(nn.Module):
    """Your own network, trained and decoded under a profile.

    Parameters
    ----------
    model : Module
        Any network that returns one number per epoch and stage, in the profile's order of stages. A network
        of sequences maps (batch, ...) to (batch, epochs, stages) or (batch, stages, epochs); a network of
        single epochs maps (n, ...) to (n, stages).
    profile : Profile or str
        A profile or its name.
    class_axis : {None, 1, -1}
        Axis of the stages in the output of a network of sequences. None finds it by the number of stages;
        it is an error if both axes have that length.
    outputs : {"logits", "probabilities"}
        The kind of output of the network. Log-probabilities count as logits.
    per_epoch : bool
        Whether the network sees one epoch at a time: batch and epochs are then joined to one axis.
    trained : {"natural", "balanced"}, optional
        Whether it was trained on natural stage frequencies; `predict` passes this to the decoder.
    criterion : Module, optional
        The loss, called with logits (batch, epochs, stages), targets and mask, and with segment_ids if the
        caller passes them. Default: ``StageGuardLoss(profile)``.

    Examples
    --------
    >>> guarded = Guarded(my_network, "kdd2026-psg-5")
    >>> guarded.loss(features, targets, mask).backward()
    >>> guarded.predict(features)[0].hypnogram
    """

    def __init__(
        self,
        model: nn.Module,
        profile: Profile | str,
        *,
        class_axis: Literal[1, -1] | None = None,
        outputs: Literal["logits", "probabilities"] = "logits",
        per_epoch: bool = False,
        trained: Training | None = None,
        criterion: nn.Module | None = None,
    ) -> None:
        super().__init__()
        if class_axis not in (None, 1, -1):
            raise InputError(f"class_axis is {checks.shown(class_axis)}, expected 1, -1 or None.")
        self.model = model
        self.profile = as_profile(profile)
        self.class_axis = class_axis
        self.outputs = checks.choice(outputs, "outputs", ("logits", "probabilities"))
        self.per_epoch = checks.flag(per_epoch, "per_epoch")
        self.trained = trained
        if trained is not None:
            checks.choice(trained, "trained", ("natural", "balanced"))
        self.criterion = criterion
        self._knows_outputs = False  # whether a batch has shown the outputs to be of the kind that was named

    def forward(self, x: Tensor, **inputs: Any) -> Tensor:
        """Return logits (batch, epochs, stages) of a batch, whatever the layout of the network's output.

        Other `inputs`, such as a padding mask, go to the network by name.
        """
        if x.ndim < 2 or 0 in x.shape:
            raise InputError(f"the input has shape {tuple(x.shape)}, expected (batch, ...) and an epoch.")
        rows = self._arrange(self.model(x.flatten(0, 1) if self.per_epoch else x, **inputs), x)
        if not self._knows_outputs and not torch.compiler.is_compiling():
            self._check_outputs(rows.detach())
        return rows if self.outputs == "logits" else rows.clamp(min=torch.finfo(rows.dtype).tiny).log()

    def loss(
        self,
        x: Tensor,
        targets: Tensor,
        mask: Tensor | None = None,
        segment_ids: Tensor | None = None,
        **inputs: Any,
    ) -> Tensor:
        """Return the criterion's loss of a batch.

        `x` is the network's input (batch, ...), or (batch, epochs, ...) for a network of single epochs; other
        `inputs` are as in `forward`. Targets, mask and segment_ids are those of `StageGuardLoss`.
        """
        logits = self(x, **inputs)
        if self.criterion is None:
            self.criterion = StageGuardLoss(self.profile).to(logits.device)
        more = {} if segment_ids is None else {"segment_ids": segment_ids}
        value: Tensor = self.criterion(logits, targets, mask, **more)
        return value

    def predict(self, x: Nights, **options: Any) -> list[Decoding]:
        """Decode the recordings of a batch.

        Parameters
        ----------
        x : Tensor, array, or a list of these
            A batch as the network takes it, or a list of recordings without the batch axis, whose lengths
            may differ.
        **options
            Of `stageguard.decode`, such as ``epoch_seconds``, or ``quality`` with an entry per recording.

        Returns
        -------
        list of Decoding
            For each recording the hypnogram, its score, the network's argmax, and the changes.
        """
        return decode(self.probabilities(x), self.profile, trained=self.trained, **options)

    def probabilities(self, x: Nights) -> list[Floats]:
        """Return stage probabilities (epochs, stages) of each recording of a batch, in evaluation mode.

        A network of sequences with an attribute ``training_length`` sees windows of that many epochs. They
        overlap by half and are averaged; a shorter recording is padded with zeros.
        """
        length = None if self.per_epoch else getattr(self.model, "training_length", None)
        nights: list[Floats] = []
        for night in x:
            array = night.detach().cpu().numpy() if isinstance(night, Tensor) else np.asarray(night)
            rows = stage_windows(array, length, partial(run_network, self))
            if np.isnan(rows).any():
                epoch = int(np.isnan(rows).any(axis=1).argmax())
                found = f"the network gave NaN at epoch {epoch} of recording {len(nights)}"
                raise InputError(f"{found}, expected numbers for {', '.join(self.profile.scheme.names)}.")
            nights.append(rows)
        return nights

    def _arrange(self, output: Any, x: Tensor) -> Tensor:
        """Return the network's output as (batch, epochs, stages)."""
        names, axis, n_sequences = self.profile.scheme.names, self.class_axis, x.shape[0]
        n = len(names)
        is_tensor = isinstance(output, Tensor) and output.is_floating_point()
        shape = tuple(output.shape) if is_tensor else ()
        if len(shape) == 3 and not self.per_epoch:
            axes = [a for a in (1, -1) if shape[a] == n] if axis is None else [axis]
            if len(axes) == 1 and shape[axes[0]] == n:
                arranged: Tensor = output if axes[0] == -1 else output.transpose(1, 2)
                return arranged
        n_rows = n_sequences * x.shape[1] if self.per_epoch else shape[0] if shape else 0
        if len(shape) == 2 and shape[1] == n and shape[0] == n_rows and n_rows % n_sequences == 0:
            joined: Tensor = output.view(n_sequences, -1, n)  # one row per epoch
            return joined
        got = f"shape {shape}" if is_tensor else type(output).__name__
        wanted = f"({n_rows}, {n})" if self.per_epoch else f"(batch, epochs, {n}) or (batch, {n}, epochs)"
        raise InputError(
            f"the network returned {got} for an input of shape {tuple(x.shape)}, expected {n} stages "
            f"({', '.join(names)}) as {wanted}. Give class_axis where both axes have {n}."
        )

    def _check_outputs(self, rows: Tensor) -> None:
        """Check the kind of outputs, by the first batch without NaN; this waits for the device."""
        is_unit = (rows >= 0).all(-1) & ((rows.sum(-1) - 1.0).abs() <= SUM_TOLERANCE)  # (batch, epochs)
        is_zero = (rows == 0).all(-1)  # networks may set padding to 0
        if rows.isnan().any():
            return
        are_probabilities = bool((is_unit | is_zero).all() and is_unit.any())
        if are_probabilities != (self.outputs == "probabilities"):
            kind = "are probabilities" if are_probabilities else "are no probabilities: they do not sum to 1"
            raise InputError(f"the network's rows {kind}, but outputs is {self.outputs!r}.")
        self._knows_outputs = True
