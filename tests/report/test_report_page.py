"""The report as a file: well-formed, alone, safe, light, and the same every time."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest

import pages
import stageguard as sg
from nights import decode
from report_samples import ALL, EVIL, SEEN, full, full_night, report_with
from stageguard.report import night_report


@pytest.fixture(params=ALL, ids=lambda make: make.__name__)
def any_html(request):
    return request.param()


def test_page_is_well_formed_and_accessible(any_html):
    page = pages.read(any_html)
    assert page.one("html").attributes["lang"] == "en"
    ids = [node.attributes["id"] for node in page.all() if "id" in node.attributes]
    assert len(ids) == len(set(ids))
    pictures = list(page.all("svg"))
    assert pictures
    for picture in pictures:
        assert picture.attributes["role"] == "img"
        names = (picture.attributes["aria-labelledby"] or "").split()
        assert len(names) == 2
        assert set(names) <= set(ids)
        assert all(picture.one(tag).text.strip() for tag in ("title", "desc"))
    for table in page.all("table"):
        head, *rows = table.all("tr")
        assert {cell.attributes.get("scope") for cell in head.all("th")} == {"col"}
        assert all(next(row.all("th")).attributes["scope"] in ("row", "rowgroup") for row in rows)
        widths = {
            sum(int(cell.attributes.get("colspan") or 1) for cell in row.children) for row in (head, *rows)
        }
        assert len(widths) == 1
    assert len(list(page.all("h1"))) == 1


def test_pictures_are_xml(any_html):
    pictures = re.findall(r"<svg.*?</svg>", any_html, re.DOTALL)
    assert pictures
    for picture in pictures:
        ElementTree.fromstring(picture)
        assert "nan" not in re.sub(r"<(title|desc|text).*?</\1>", "", picture)


def test_page_needs_nothing_from_outside_and_runs_its_own_script_alone(any_html):
    page = pages.read(any_html)
    assert "://" not in any_html
    assert not re.search(r"url\(|@import|javascript:", any_html)
    tags = {node.tag for node in page.all()}
    assert not tags & {"link", "img", "image", "iframe", "object", "embed", "use", "form", "base"}
    attributes = {name for node in page.all() for name in node.attributes}
    assert not attributes & {"src", "xlink:href", "srcset", "action", "data", "poster", "background", "style"}
    assert not [name for name in attributes if name.startswith("on")]
    ids = {node.attributes.get("id") for node in page.all()}
    links = [node.attributes["href"] for node in page.all() if "href" in node.attributes]
    assert len(links) >= 9
    assert {link[:1] for link in links} == {"#"}
    assert {link[1:] for link in links} <= ids
    (policy,) = [node.attributes["content"] for node in page.all("meta") if "http-equiv" in node.attributes]
    data, script = page.all("script")
    assert data.attributes == {"type": "application/json", "id": "night-data"}
    json.loads(data.text)
    hashes = [
        base64.b64encode(hashlib.sha256(node.text.encode()).digest()).decode()
        for node in (page.one("style"), script)
    ]
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{hashes[0]}'; script-src 'sha256-{hashes[1]}'; "
        "base-uri 'none'; form-action 'none'; img-src data:"
    )


def test_text_from_outside_stays_text():
    evil = report_with(EVIL, ["<b>wake</b>", "'\"&<", "deep"])
    page, tame = pages.read(evil), pages.read(report_with("tame", ["wake", "light", "deep"]))
    assert [node.tag for node in page.all()] == [node.tag for node in tame.all()]
    assert [[*node.attributes] for node in page.all()] == [[*node.attributes] for node in tame.all()]
    assert page.one("h1").text.strip() == SEEN
    everything = " ".join(page.text.split())
    assert everything.count(SEEN) == " ".join(tame.text.split()).count("tame") >= 12
    assert not set(evil) & set("\x00\x07\u202e")
    shown = [text.text for picture in page.all("svg") for text in picture.all("text")]
    assert "<b>wake<…" in shown
    assert "'\"&<" in shown


def test_same_night_gives_the_same_bytes_in_any_process():
    night, decoding = full_night()
    assert night_report(decoding, expert=night.expert, title="Night 7") == full()
    code = (
        "import hashlib, stageguard as sg, warnings; from stageguard.report import night_report;"
        "from stageguard.synthetic.night import simulate_night; warnings.simplefilter('ignore');"
        "night = simulate_night('human-psg-3', hours=2, seed=3);"
        "page = night_report(sg.decode(night.density, 'human-psg-3'), expert=night.expert);"
        "print(hashlib.sha256(page.encode()).hexdigest())"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            capture_output=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
    assert len(found.pop().strip()) == 64


@pytest.mark.parametrize(
    ("profile", "n_epochs", "limit"), [("human-psg-5", 1000, 300e3), ("mouse-eeg-emg-3", 21600, 1.5e6)]
)
def test_the_noisiest_night_stays_light(profile, n_epochs, limit):
    rng = np.random.default_rng(0)
    scheme = sg.Profile.load(profile).scheme
    decoding = decode(rng.dirichlet(np.full(scheme.n_stages, 0.4), size=n_epochs), profile)
    expert = sg.Hypnogram(rng.integers(0, scheme.n_stages, n_epochs), scheme, decoding.epoch_seconds)
    size = len(night_report(decoding, expert=expert).encode())
    assert size < limit
    assert size > 0.2 * limit  # or the night was not noisy
