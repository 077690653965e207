"""Any network with a profile, to train and to predict."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from stageguard import checks
from stageguard.arrays import Floats
from stageguard.errors import InputError
from stageguard.guard.decode import decode
from stageguard.guard.decoding import Decoding
from stageguard.guard.options import Pins, Segments
from stageguard.nn.inference import evaluating, window_probabilities
from stageguard.nn.losses import StageGuardLoss, at_least_single
from stageguard.nn.pytorch import Tensor, nn, torch
from stageguard.profile.known_stagers import Training
from stageguard.profile.profile import Profile, as_profile

ONE_RECORDING = "of one recording, or a list of them"


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
    >>> guarded = Guarded(my_network, "human-psg-5", criterion=SemiMarkovLoss("human-psg-5"))
    >>> guarded.loss(features, targets, mask).backward()
    >>> guarded.predict(night).hypnogram
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
        if not isinstance(model, nn.Module):
            raise InputError(
                f"model is a {type(model).__name__}, expected a torch.nn.Module. For anything else, give its "
                "probabilities to stageguard.decode."
            )
        axis: object = class_axis
        if axis is not None and not (isinstance(axis, int) and axis in (1, -1)):
            raise InputError(f"class_axis is {checks.shown(class_axis)}, expected 1, -1 or None.")
        self.model = model
        self.profile = as_profile(profile)
        self.class_axis = class_axis
        self.outputs = checks.choice(outputs, "outputs", ("logits", "probabilities"))
        self.per_epoch = checks.flag(per_epoch, "per_epoch")
        self.trained = trained
        if trained is not None:
            checks.choice(trained, "trained", ("natural", "balanced"))
        if criterion is not None:
            _check_criterion(criterion)
        self.criterion = criterion
        self._knows_outputs = False  # whether a batch has shown the outputs to be of the kind that was named

    def forward(self, x: Tensor, *inputs: Any, **named_inputs: Any) -> Tensor:
        """Return logits (batch, epochs, stages) of a batch, whatever the layout of the network's output.

        All other arguments, such as a padding mask, go to the network as they are; with `per_epoch`, tensors
        (batch, epochs, ...) are joined to one row per epoch as `x` is.
        """
        _check_input(x, 2, "with a batch axis and at least one more")
        n_sequences = x.shape[0]
        rows = self._run(x, inputs, named_inputs)
        if not (isinstance(rows, Tensor) and rows.is_floating_point()):
            got = rows.dtype if isinstance(rows, Tensor) else type(rows).__name__
            raise InputError(
                f"the network returned {got}, expected one floating point torch.Tensor. "
                "Wrap it in a Module that returns only the stages' numbers."
            )
        if self.per_epoch and rows.shape[0] != n_sequences * x.shape[1]:
            raise InputError(
                f"the network returned shape {tuple(rows.shape)} for {n_sequences * x.shape[1]} epochs, "
                "expected one row per epoch. Leave out per_epoch for a network that sees sequences."
            )
        return self._as_logits(self._arrange(rows, n_sequences))

    def _run(self, x: Tensor, inputs: tuple[Any, ...], named_inputs: dict[str, Any]) -> Any:
        """Return the network's own output; its errors keep their type and get a note that names it."""

        def joined(value: Any) -> Any:
            is_per_epoch = self.per_epoch and isinstance(value, Tensor) and value.shape[:2] == x.shape[:2]
            return value.flatten(0, 1) if is_per_epoch else value

        seen = joined(x)
        try:
            return self.model(seen, *map(joined, inputs), **{k: joined(v) for k, v in named_inputs.items()})
        except Exception as error:
            name, shape = type(self.model).__name__, tuple(seen.shape)
            error.add_note(f"The network {name} raised this for an input of shape {shape}.")
            raise

    def loss(
        self,
        x: Tensor,
        targets: Tensor,
        mask: Tensor | None = None,
        *,
        segment_ids: Tensor | None = None,
        inputs: Mapping[str, Any] | None = None,
    ) -> Tensor:
        """Return the criterion's loss of a batch.

        `x` is the network's input (batch, ...), or (batch, epochs, ...) for a network of single epochs, and
        `inputs` are its other inputs by name. Targets, mask and segment_ids are those of `StageGuardLoss`.
        """
        if inputs is not None and not isinstance(inputs, Mapping):
            raise InputError(f"inputs is {checks.shown(inputs)}, expected a mapping of names to inputs.")
        logits = self(x, **(inputs or {}))
        self._check_targets(targets, logits)
        if self.criterion is None:
            self.criterion = StageGuardLoss(self.profile).to(logits.device)
        more = {} if segment_ids is None else {"segment_ids": segment_ids}
        _check_criterion(self.criterion, *more)
        value: Tensor = self.criterion(logits, targets, mask, **more)
        return value

    @overload
    def predict(
        self,
        x: Tensor,
        *,
        epoch_seconds: float | None = None,
        quality: npt.ArrayLike | None = None,
        pins: Pins | None = None,
        segments: Segments | None = None,
        cohort: str | None = None,
    ) -> Decoding: ...

    @overload
    def predict(
        self,
        x: Sequence[Tensor],
        *,
        epoch_seconds: float | None = None,
        quality: Sequence[npt.ArrayLike | None] | None = None,
        pins: Sequence[Pins | None] | None = None,
        segments: Sequence[Segments | None] | None = None,
        cohort: str | None = None,
    ) -> list[Decoding]: ...

    def predict(
        self,
        x: Tensor | Sequence[Tensor],
        *,
        epoch_seconds: float | None = None,
        quality: Any = None,
        pins: Any = None,
        segments: Any = None,
        cohort: str | None = None,
    ) -> Decoding | list[Decoding]:
        """Decode one recording, or a list of them.

        Parameters
        ----------
        x : Tensor or list of Tensor
            One recording in the network's input format, without a batch axis; lengths may differ within a
            list. Pass a batch as ``list(batch)``.
        epoch_seconds, quality, pins, segments, cohort
            As in `stageguard.decode`; for a list of recordings, options of a recording are lists.

        Returns
        -------
        Decoding or list of Decoding
            Hypnogram, score, the network's argmax, and the changes.
        """
        if not isinstance(x, list | tuple):
            _check_input(x, 1, ONE_RECORDING)
        return decode(
            self.probabilities(x) if isinstance(x, Tensor) else [self.probabilities(night) for night in x],
            self.profile,
            epoch_seconds=epoch_seconds,
            quality=quality,
            pins=pins,
            segments=segments,
            cohort=cohort,
            trained=self.trained,
        )

    def probabilities(self, x: Tensor) -> Floats:
        """Return stage probabilities (epochs, stages) of one recording, in evaluation mode.

        A network of sequences with an attribute ``training_length`` sees windows of that many epochs. They
        overlap by half and are averaged; a shorter recording is padded with zeros.
        """
        _check_input(x, 1, ONE_RECORDING)
        x = x.to(next((p.device for p in self.model.parameters()), x.device))
        length = None if self.per_epoch else getattr(self.model, "training_length", None)
        with evaluating(self):
            rows = window_probabilities(self, x, length=None if length is None else int(length))
        wrong = np.isnan(rows).any(axis=1)
        if wrong.any():
            raise InputError(
                f"the network gave NaN at epoch {int(wrong.argmax())} ({wrong.sum()} of {len(rows)} in all), "
                f"expected numbers for {', '.join(self.profile.scheme.names)}. Look for NaN in the features."
            )
        return rows

    def _check_targets(self, targets: Any, logits: Tensor) -> None:
        expected = tuple(logits.shape[:2])
        if not isinstance(targets, Tensor) or tuple(targets.shape) == expected:
            return  # the criterion checks the rest
        hint = ""
        if not self.per_epoch and targets.ndim == 1 and logits.shape[1] == 1:
            hint = " For a network that sees one epoch at a time, say per_epoch=True."
        raise InputError(
            f"targets have shape {tuple(targets.shape)}, but the network gave {expected[1]} epochs for each "
            f"of {expected[0]} sequences: expected {expected}.{hint}"
        )

    def _arrange(self, output: Tensor, n_sequences: int) -> Tensor:
        """Return the network's output as (batch, epochs, stages)."""
        names = self.profile.scheme.names
        n_stages, shape, axis = len(names), tuple(output.shape), self.class_axis
        # first, and alone, so that a network can be exported for any number of epochs
        if output.ndim == 3 and axis is not None and shape[axis] == n_stages:
            return output if axis == -1 else output.transpose(1, 2)
        if output.ndim == 2 and shape[1] == n_stages and shape[0] % n_sequences == 0:
            return output.view(n_sequences, -1, n_stages)  # one row per epoch
        if output.ndim != 3 or n_stages not in shape[1:]:
            raise InputError(
                f"the network returned shape {shape}, expected {n_stages} stages ({', '.join(names)}) as "
                f"(batch, epochs, {n_stages}), (batch, {n_stages}, epochs) or (batch * epochs, {n_stages})."
            )
        if axis is not None:
            raise InputError(
                f"the network returned shape {shape}, expected {n_stages} stages on axis {axis}: "
                f"class_axis is {axis}."
            )
        if shape[1] == shape[2]:
            raise InputError(
                f"the network returned shape {shape}, where stages and epochs cannot be told apart. "
                "Say class_axis=1 or class_axis=-1."
            )
        return output.transpose(1, 2) if shape[1] == n_stages else output

    def _as_logits(self, rows: Tensor) -> Tensor:
        is_coarse = rows.dtype.itemsize < 4
        tolerance = max(1e-3, torch.finfo(rows.dtype).eps)  # a sum in bfloat16 is 1 only to two digits
        rows = at_least_single(rows)
        # a compiled or exported network cannot stop at values
        if not self._knows_outputs and not torch.compiler.is_compiling():
            self._check_outputs(rows.detach(), tolerance)
        if self.outputs == "logits":
            return rows
        tiny = torch.finfo(rows.dtype).tiny
        if is_coarse:
            rows = rows / rows.sum(-1, keepdim=True).clamp(min=tiny)  # 0 where a network zeroed padding
        return rows.clamp(min=tiny).log()

    def _check_outputs(self, rows: Tensor, tolerance: float) -> None:
        """Check the kind of outputs, by the first batch without NaN; this waits for the device."""
        is_unit = (rows >= 0).all(-1) & ((rows.sum(-1) - 1.0).abs() <= tolerance)  # (batch, epochs)
        is_wrong = ~is_unit & (rows != 0).any(-1)  # networks may set padding to 0
        try:
            has_nan, has_units, has_wrong = torch.stack(
                (rows.isnan().any(), is_unit.any(), is_wrong.any())
            ).tolist()
        except RuntimeError:  # inside of torch.func.vmap, and on the meta device, there are no values
            return
        if has_nan:
            return
        is_distribution = has_units and not has_wrong
        if self.outputs == "logits" and is_distribution:
            raise InputError(
                "the network's rows all sum to 1: these look like probabilities, not logits. "
                "Say outputs='probabilities', or remove its softmax."
            )
        if self.outputs == "probabilities" and not is_distribution:
            first = rows[is_wrong if has_wrong else ~is_unit][0].tolist()
            raise InputError(
                f"the network's rows do not all sum to 1 (the first that does not is {first}), expected "
                "probabilities. Say outputs='logits' if it has no softmax."
            )
        self._knows_outputs = True

    def extra_repr(self) -> str:
        """Return profile and options, for `repr`."""
        options = f"outputs={self.outputs!r}, per_epoch={self.per_epoch}, trained={self.trained!r}"
        return f"{self.profile.name!r}, {options}"


def _check_input(x: Any, n_axes: int, meaning: str) -> None:
    if not isinstance(x, Tensor) or x.ndim < n_axes:
        got = f"shape {tuple(x.shape)}" if isinstance(x, Tensor) else f"a {type(x).__name__}"
        raise InputError(f"input: got {got}, expected a torch.Tensor {meaning}.")
    if 0 in x.shape:
        raise InputError(f"input: got shape {tuple(x.shape)}, expected at least one epoch.")


def _check_criterion(criterion: Any, *more: str) -> None:
    if not isinstance(criterion, nn.Module):
        raise InputError(
            f"criterion is a {type(criterion).__name__}, expected a torch.nn.Module such as StageGuardLoss."
        )
    try:
        inspect.signature(criterion.forward).bind(None, None, None, **dict.fromkeys(more))
    except TypeError:
        listed = ", ".join(("logits", "targets", "mask", *more))
        raise InputError(
            f"criterion {type(criterion).__name__} does not take ({listed}). Give a StageGuardLoss or a "
            "SemiMarkovLoss, or wrap it in a Module that does."
        ) from None
