"""`stageguard export`: a trained network as one ONNX file."""

from __future__ import annotations

from pathlib import Path

import click

from stageguard.cli import options as opt
from stageguard.cli.command import command, option
from stageguard.cli.terminal import Console, print_json


@command
@click.argument("model", type=opt.PATH, help="The folder that `train` wrote.")
@option("--output", "-o", metavar="MODEL.onnx", type=opt.PATH, required=True, help="The file to write.")
@opt.overwrite
@opt.as_json
def export(model: Path, output: Path, overwrite: bool, as_json: bool) -> None:
    """Write a trained network as one ONNX file, with its card inside.

    The file stages without torch, here or wherever onnxruntime runs. Before it is written it is compared with
    the network on random features.

    Examples
    --------
    stageguard export model --output model.onnx
    """
    from stageguard.nn.model import load_model
    from stageguard.nn.onnx import export_onnx

    trained = load_model(model)
    written = export_onnx(trained, output, overwrite=overwrite)
    card, size = trained.card, written.stat().st_size
    if as_json:
        stages = list(card.scheme.names)
        print_json({"output": str(written), "bytes": size, "backbone": card.backbone, "stages": stages})
        return
    out = Console()
    out.print(
        f"Exported {card.backbone}: {len(card.features.names)} features of {card.epoch_seconds:g} s to "
        f"{' '.join(card.scheme.names)}, {size:,} bytes."
    )
    out.list("Wrote", [written])
