"""What the site needs beside its pages: results and examples of other folders, help, and the reference."""

from __future__ import annotations

import ast
import json
import re
import sys
from functools import cache
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
OUTSIDE = re.compile(r"\]\((?:\.\./)+((?:studies|bench|examples)/[^)#\s]+)")
ROOT_PAGES = re.compile(r"\]\((?:\.\./)+((?:CHANGELOG|CONTRIBUTING|README|SECURITY)\.md)")
BACK = re.compile(r"\]\((?:\.\./)+docs/")
NO_ALT = "No description has been provided for this image"  # nbconvert's words
NOTEBOOK_LINK = re.compile(r'href="(\.\./[\w/-]+)\.md')

# The reference, a page each: what people do, and the public names for it.
TASKS = {
    "Read a night": """read_density read_hypnogram Hypnodensity Hypnogram StageScheme UNSCORED
        read_recording Recording Signal""",
    "Guard it": "decode Decoding decode_cohort DecodedCohort explain Change Profile profiles",
    "Stage a recording": "stage stagers",
    "Look at it": """night_report cohort_report methods_text plot_hypnogram plot_density plot_bouts
        plot_bland_altman""",
    "Measure": """sleep_statistics SleepStatistics validity Validity agreement Agreement intervals
        posterior Posterior sample find_sleeps""",
    "Several experts, or few scored nights": "consensus among_experts grade GradeCard",
    "Fit a profile to a stager": "tune fit fit_report FitReport SemiMarkovDecoder",
    "Convert, align, combine": "convert align combine",
    "Stream": "StreamingDecoder",
    "Signals to features": "signal_quality features Features",
    "Train a network": """Guarded StageGuardLoss LossParts TransitionPenalty build_backbone
        backbones load_model TrainedModel export_onnx load_onnx OnnxModel""",
    "Datasets": "dataset_names dataset Dataset entries Entry recordings",
    "Simulate": "simulate_night simulate_recording simulate_cohort Simulated Subject Plan SignalEvent",
    "Errors": "StageGuardError StageGuardWarning InputError ProfileError FileFormatError",
}


def outside_files(text: str) -> set[str]:
    """Return the files of the repository, outside docs/, that a page links to."""
    return set(OUTSIDE.findall(text)) | set(ROOT_PAGES.findall(text))


def _as_page(name: str, text: str) -> tuple[str, str]:
    """Return under which name a file stands in the site, and what it says there."""
    if name.endswith((".md", ".svg", ".png")):
        return name, text
    language = "python" if name.endswith(".py") else "text"
    return f"{name}.md", f"# {Path(name).name}\n\n```{language}\n{text}```\n"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what pages link to outside docs/, and the reference."""
    todo = set().union(*(outside_files(file.content_string) for file in files.documentation_pages()))
    done: set[str] = set()
    while todo:
        name = todo.pop()
        done.add(name)
        place, text = _as_page(name, (ROOT / name).read_text("utf-8"))
        files.append(File.generated(config, place, content=text))
        if name.endswith(".md"):
            links = re.findall(r"\]\(([^)#\s:]+)", text)
            near = {str(((ROOT / name).parent / link).resolve().relative_to(ROOT)) for link in links}
            todo |= {link for link in near if not link.startswith("docs/")} - done
    for place, text in reference().items():
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links that leave docs/ lead to the copies in the site, and links from there into docs/ back.

    In a search, measurements, results and examples come after other pages, and the glossary comes first.
    """
    if page.file.src_uri.startswith(("bench", "examples/", "studies/")):
        page.meta["search"] = {"boost": 0.3}
    elif page.file.src_uri == "glossary.md":
        page.meta["search"] = {"boost": 3}
    elif page.file.src_uri == "commands.md":
        markdown = markdown.replace("<!-- commands -->", helps())
    elif page.file.src_uri == "index.md":
        page.meta["hide"] = ["navigation"]  # it lists every page itself
    depth = "../" * page.file.src_uri.count("/")
    markdown = BACK.sub(rf"]({depth}", markdown)

    def inside(match: re.Match[str]) -> str:
        return f"]({depth}{_as_page(match[1], '')[0]}"

    return ROOT_PAGES.sub(inside, OUTSIDE.sub(inside, markdown))


def helps() -> str:
    """Return the help of every command, as the program prints it."""
    import click

    from stageguard.cli.app import SHORT_HELP, stageguard

    texts = []
    root = click.Context(stageguard, info_name="stageguard")
    for name in SHORT_HELP:
        command = stageguard.get_command(root, name)
        context = click.Context(command, info_name=name, parent=root, terminal_width=92, max_content_width=92)
        texts.append(f"## {name}\n\n```text\n{command.get_help(context)}\n```\n")
    return "\n".join(texts)


def on_page_content(html: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links of notebooks lead to pages of the site, and describe their pictures."""
    if not page.file.src_uri.endswith(".ipynb"):
        return html
    for cell in json.loads(page.file.content_string)["cells"]:
        if "alt" in cell["metadata"]:
            html = html.replace(NO_ALT, cell["metadata"]["alt"], 1)
    return NOTEBOOK_LINK.sub(r'href="\1.html', html)


def modules() -> dict[str, str]:
    """Return the module of every public name."""
    sys.path.insert(0, str(ROOT / "src"))
    import stageguard
    import stageguard.datasets
    import stageguard.nn.backbones  # torch is imported when a name is used
    import stageguard.synthetic

    public = {**stageguard.PUBLIC, **stageguard.nn.PUBLIC}
    for package in (stageguard.datasets, stageguard.synthetic, stageguard.nn.backbones):
        public[package.__name__.removeprefix("stageguard.")] = " ".join(package.__all__)
    return {name: module for module, names in public.items() for name in names.split()}


def reference() -> dict[str, str]:
    """Return the pages of public names, one for each thing that people do, and their index."""
    found = modules()
    listed = [name for names in TASKS.values() for name in names.split()]
    if sorted(listed) != sorted(found):
        apart = set(listed) ^ set(found) or {name for name in listed if listed.count(name) > 1}
        raise PluginError(f"docs/site.py: TASKS must have every public name once: {', '.join(sorted(apart))}")
    pages, index = {}, ["# Reference", "", "Every public name, by what you do with it."]
    for task, names in TASKS.items():
        page = task.partition(" ")[0].lower().strip(",") + ".md"
        blocks = "\n".join(f"::: stageguard.{found[name]}.{name}" for name in names.split())
        pages[f"reference/{page}"] = f"# {task}\n\n{blocks}\n"
        index += ["", f"## [{task}]({page})", ""]
        for name in names.split():
            summary = _summaries(found[name]).get(name, "")
            index.append(f"- [`{name}`][stageguard.{found[name]}.{name}]{summary}")
    index += ["", "## [Formats](formats.md)", "", "Files and objects that can be read and written."]
    return pages | {"reference/formats.md": formats_page(), "reference/index.md": "\n".join(index) + "\n"}


FORMATS = """# Formats

P: read as probabilities. H: read as a hypnogram. W: written. *Without*: what the format cannot store, or, if
it is only read, what you may have to give. *All but the stages*: without probabilities, start time, epoch
length, part of an epoch before the first, scorer and other annotations. [Formats](../formats.md) says
how files are recognised and what is assumed.
"""


def formats_page() -> str:
    """Return a line for every file format, then one for every kind of object."""
    from stageguard.formats.file_format import EPOCH_LENGTH, NAMES, OTHER_PROBABILITIES, STAGES_ALONE
    from stageguard.formats.objects import OBJECTS
    from stageguard.formats.registry import formats

    needed = (NAMES, EPOCH_LENGTH, OTHER_PROBABILITIES)  # to read a night, if the file lacks them
    rows = [
        (f"`{form.name}`", f"{form.title}, {' '.join(f'`{s}`' for s in form.suffixes)}", form)
        for form in formats()
    ]
    rows += [("in memory", kind.title, kind) for kind in OBJECTS]
    lines = []
    for name, title, entry in rows:
        kinds = {"density": "P", "hypnogram": "H", "write": "W"}
        letters = "".join(letter for kind, letter in kinds.items() if entry.does(kind))
        lost = [loss for loss in entry.loses if entry.does("write") or loss in needed]
        missing = "all but the stages" if tuple(lost) == STAGES_ALONE else ", ".join(lost)
        lines.append(f"- {name} ({letters}): {title}" + (f"; without {missing}" if missing else ""))
    return "\n".join([FORMATS, *lines]) + "\n"


@cache
def _summaries(module: str) -> dict[str, str]:
    """Return the first paragraph of every docstring of a module, without importing it."""
    path = ROOT / "src" / "stageguard" / module.replace(".", "/")
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    found: dict[str, str] = {}
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
            found[node.name] = ": " + text.partition("\n\n")[0].replace("\n", " ")
        elif isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(f"stageguard.{module}."):
            origin = _summaries(str(node.module).removeprefix("stageguard."))
            found |= {name.name: origin[name.name] for name in node.names if name.name in origin}
    return found
