"""The registry of networks: names, entry points of other packages, sizes, options and training recipes."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from messages import mentions, naming
from stageguard.errors import InputError

torch = pytest.importorskip("torch")
import stageguard.nn.backbones as registry  # noqa: E402
from stageguard.nn.backbones import PUBLISHED, SMALL, backbones, build_backbone, training_recipe  # noqa: E402  # noqa: E402

torch.set_num_threads(1)

NAMES = tuple(registry.BUILT_IN)
SIZES = {"n_frames": 1, "n_features": 7, "n_stages": 3}


def features(*shape, seed=2):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", ["U-Sleep", "usleep", "USleep", "u sleep", "u_sleep"])
def test_names_are_found_however_they_are_spelt(name):
    assert type(build_backbone(name, n_frames=1, n_features=2, n_stages=2)).__name__ == "USleep"


def test_the_six_are_known():
    six = {"accusleep", "attnsleep", "deepsleepnet", "seqsleepnet", "sleeptransformer", "usleep"}
    assert six <= set(NAMES) <= set(backbones())


def provide(monkeypatch, tmp_path, source, name="tiny-net"):
    """Install a package's entry point for the length of a test."""
    module = f"backbone_of_{tmp_path.name}"
    (tmp_path / f"{module}.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    entry = EntryPoint(name=name, value=f"{module}:build", group="stageguard.backbones")
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry] if group == entry.group else [])


TINY = """
import torch

class build(torch.nn.Linear):
    def __init__(self, *, n_frames, n_features, n_stages, gain=1.0):
        super().__init__(n_frames * n_features, n_stages)
        self.n_frames, self.n_features, self.n_stages = n_frames, n_features, n_stages
        self.training_length, self.gain = None, gain

    def forward(self, x):
        return self.gain * super().forward(x.flatten(2))
"""


def test_another_package_adds_a_network(monkeypatch, tmp_path):
    provide(monkeypatch, tmp_path, TINY)
    assert "tinynet" in backbones()
    network = build_backbone("Tiny-Net", n_frames=2, n_features=3, n_stages=4, gain=0.0)
    assert network(features(2, 5, 2, 3)).shape == (2, 5, 4)
    assert not network(features(2, 5, 2, 3)).any()


def test_a_network_of_another_package_need_not_have_sizes(monkeypatch, tmp_path):
    provide(monkeypatch, tmp_path, TINY)
    with pytest.raises(InputError, match=r"^backbone 'tinynet' has no option 'small'. Its options: gain.$"):
        build_backbone("tiny-net", n_frames=2, n_features=3, n_stages=4, small=True)


def test_a_network_that_breaks_the_contract_is_refused(monkeypatch, tmp_path):
    provide(monkeypatch, tmp_path, "import torch\ndef build(**sizes): return torch.nn.Identity()\n")
    with pytest.raises(
        InputError, match=r"^backbone 'tinynet' has no attribute 'n_frames', expected n_frames, "
    ):
        build_backbone("tinynet", n_frames=2, n_features=3, n_stages=4)


def test_a_name_of_ours_stays_ours(monkeypatch, tmp_path):
    provide(monkeypatch, tmp_path, TINY, name="usleep")
    assert type(build_backbone("usleep", n_frames=1, n_features=2, n_stages=2)).__name__ == "USleep"


# ---- recipes -------------------------------------------------------------------------------------


def test_every_network_has_both_recipes():
    assert set(PUBLISHED) == set(SMALL) == set(NAMES)
    for recipe in [*PUBLISHED.values(), *SMALL.values()]:
        assert (recipe.rounds is None) != (recipe.steps is None)
        assert recipe.source.endswith(".")


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_fits_the_length_its_network_takes(name):
    for is_small in (False, True):
        network = build_backbone(name, n_frames=1, n_features=2, n_stages=2, small=is_small)
        recipe = training_recipe(name, small=is_small)
        assert network.training_length in (None, recipe.sequence_epochs)


def test_recipes_are_found_as_networks_are():
    assert training_recipe("U-Sleep").learning_rate == 1e-7
    assert training_recipe("usleep", small=True).optimiser == "adamw"
    with pytest.raises(InputError, match=naming("'sleepnet'")):
        training_recipe("sleepnet")


def test_the_page_gives_the_numbers_of_every_recipe():
    page = (Path(__file__).parents[2] / "docs" / "backbones.md").read_text("utf-8")
    for recipes, prefix in ((PUBLISHED, ""), (SMALL, "small: ")):
        rows = [line for line in page.splitlines() if line.startswith(f"| {prefix}") and "batch" not in line]
        for name, recipe in recipes.items():
            title = registry.BUILT_IN[name].replace("USleep", "U-Sleep")
            row = next(
                row for row in rows if title in row.split("|")[1] and " × " in row and recipe.optimiser in row
            )
            assert f"| {recipe.learning_rate:g} |" in row, (name, row)
            assert f"| {recipe.batch_size} × {recipe.sequence_epochs} |" in row, (name, row)
            ends = f"{recipe.steps} steps" if recipe.steps else f"{recipe.rounds:,} rounds"
            assert ends in row, (name, row)


def test_the_page_has_the_costs_that_were_measured():
    root = Path(__file__).parents[2]
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in (root / "bench" / "results" / "cost_of_networks.md").read_text("utf-8").splitlines()
        if line.startswith("| ")
    ]
    page = (root / "docs" / "backbones.md").read_text("utf-8")
    for name, title in registry.BUILT_IN.items():
        (forward,) = (row for row in rows if row[0] == name and len(row) == 3)
        (training,) = (row for row in rows if row[0] == name and row[1] == "80" and len(row) == 6)
        row = next(
            line
            for line in page.splitlines()
            if line.startswith(f"| {title.replace('US', 'U-S')} |") and " ms |" in line
        )
        cells = f"| {forward[1]} ms | {forward[2]} ms | {training[2]} ms | {training[3]} s |"
        assert cells in row, (name, cells)
        assert float(training[4]) < 60  # a cohort of 30 nights, in less than a minute


# ---- what a network is told -----------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_the_length_of_an_epoch_reaches_the_networks_that_measure_in_seconds(name):
    sizes = {"n_frames": 400, "n_features": 1, "n_stages": 3, "small": True}
    torch.manual_seed(0)
    one = build_backbone(name, **sizes)
    torch.manual_seed(0)
    other = build_backbone(name, **sizes, epoch_seconds=4.0)
    shapes = [[tuple(p.shape) for p in network.parameters()] for network in (one, other)]
    assert (shapes[0] == shapes[1]) == (name == "usleep")


def test_a_network_of_another_package_is_told_the_epoch_length_if_it_asks(monkeypatch, tmp_path):
    asks = TINY.replace("gain=1.0", "gain=1.0, epoch_seconds=30.0")
    asks = asks.replace("None, gain", "None, epoch_seconds")
    provide(monkeypatch, tmp_path, asks)
    assert build_backbone("tinynet", **SIZES, epoch_seconds=4.0).gain == 4.0
    (tmp_path / "silent").mkdir()  # a module of another name: the first is in memory
    provide(monkeypatch, tmp_path / "silent", TINY)
    assert build_backbone("tinynet", **SIZES, epoch_seconds=4.0).gain == 1.0


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import no_such_module_anywhere\n", "No module named 'no_such_module_anywhere'"),
        ("x = 1\n", "has no attribute 'build'"),
    ],
)
def test_a_package_that_cannot_be_loaded_is_named(monkeypatch, tmp_path, source, reason):
    provide(monkeypatch, tmp_path, source)
    with pytest.raises(InputError) as caught:
        build_backbone("tiny-net", **SIZES)
    text = str(caught.value)
    package = f"backbone_of_{tmp_path.name}"
    assert text.startswith(f"backbone 'tinynet' of package {package!r} cannot be loaded (")
    assert reason in text
    assert mentions(text, "Install", package)


def test_a_package_that_is_gone_is_named(monkeypatch):
    entry = EntryPoint(name="gone", value="gone_package.networks:Net", group="stageguard.backbones")
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry])
    with pytest.raises(InputError, match=r"^backbone 'gone' of package 'gone_package' cannot be loaded"):
        build_backbone("gone", **SIZES)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("usleep", {"small": "yes"}, ("small", "'yes'")),
        ("accusleep", {"spectrum": "no"}, ("spectrum", "'no'")),
        ("seqsleepnet", {"spectrum": 1}, ("spectrum", 1, "false")),
        ("usleep", {"width": 1e9}, ("width", "1000000000.0", 100)),
        ("usleep", {"epoch_seconds": -1}, ("epoch_seconds", -1, "0.001", "86400")),
    ],
)
def test_wrong_options_are_one_line(name, options, message):
    with pytest.raises(InputError) as caught:
        build_backbone(name, **{**SIZES, **options})
    assert mentions(str(caught.value), *message)


def test_a_network_too_large_for_the_memory_is_one_line(monkeypatch, tmp_path):
    source = "import torch\ndef build(**sizes): return torch.nn.Linear(10**9, 10**6)\n"
    provide(monkeypatch, tmp_path, source)
    with pytest.raises(InputError, match=naming("'tinynet'")):
        build_backbone("tinynet", **SIZES)


def test_sizes_may_be_written_with_a_point():
    for name in NAMES:
        network = build_backbone(name, n_frames=4.0, n_features=6.0, n_stages=3.0, small=True)
        assert network.eval()(features(1, 5, 4, 6)).shape == (1, 5, 3)


@pytest.mark.parametrize("name", ["accusleep", "seqsleepnet", "sleeptransformer"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_spectra_of_raw_samples_are_made_in_any_precision(name, dtype):
    torch.manual_seed(0)
    network = build_backbone(name, n_frames=256, n_features=1, n_stages=3, small=True).eval()
    x = features(2, 5, 256, 1)
    expected = network(x)
    found = network.to(dtype)(x.to(dtype))
    assert found.dtype == dtype
    assert (found.float() - expected).abs().max() < (0.5 if dtype == torch.bfloat16 else 1e-4)
