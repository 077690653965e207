"""The site builds: strictly, without a network, with every public name in its reference."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest

import stageguard as sg
from stageguard import nn
from stageguard.formats.objects import OBJECTS
from stageguard.formats.registry import formats

pytest.importorskip("mkdocs", reason="the site is built by the extra docs")
ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "site"
    ran = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return folder


def test_every_public_name_is_in_the_reference(site):
    text = "".join(page.read_text("utf-8") for page in (site / "reference").glob("*.html"))
    anchors = set(re.findall(r'id="(stageguard\.[\w.]+)"', text))
    names = {anchor.rpartition(".")[2] for anchor in anchors}
    assert {*sg.__all__, *nn.__all__} - {"__version__"} <= names


def test_every_format_is_in_the_reference(site):
    text = (site / "reference" / "formats.html").read_text("utf-8")
    assert [form.name for form in formats() if f"<code>{form.name}</code>" not in text] == []
    assert [kind.title for kind in OBJECTS if kind.title not in unescape(text)] == []


def test_pages_fetch_nothing(site):
    fetched = r'(?:<script[^>]*src|<link[^>]*rel="stylesheet"[^>]*href|<img[^>]*src)="https?://'
    assert [page.name for page in site.rglob("*.html") if re.search(fetched, page.read_text("utf-8"))] == []


def test_links_inside_the_site_lead_somewhere(site):
    """Those of notebooks too, which the strict build does not check."""
    texts = {page: page.read_text("utf-8") for page in site.rglob("*.html") if page.name != "404.html"}
    anchors = {page: set(re.findall(r' id="([^"]+)"', text)) for page, text in texts.items()}
    lost = []
    for page, text in texts.items():
        for link in re.findall(r'(?:href|src)="(?!https?:|data:|mailto:)([^"]+)"', text):
            file, _, anchor = link.partition("#")
            target = (page.parent / file).resolve() if file else page
            if not target.exists() or (anchor and anchor not in anchors.get(target, {anchor})):
                lost.append((page.name, link))
    assert lost == []
