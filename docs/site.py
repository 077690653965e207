"""What the site needs beside its pages: results and examples of other folders, and the reference."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
OUTSIDE = re.compile(r"\]\((?:\.\./)+((?:studies|bench|examples)/[^)#\s]+)")
ROOT_PAGES = re.compile(r"\]\((?:\.\./)+((?:CHANGELOG|CONTRIBUTING|README|SECURITY)\.md)")
BACK = re.compile(r"\]\((?:\.\./)+docs/")


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
    """Let links that leave docs/ lead to the copies in the site, and links from there into docs/ back."""
    depth = "../" * page.file.src_uri.count("/")
    markdown = BACK.sub(rf"]({depth}", markdown)

    def inside(match: re.Match[str]) -> str:
        return f"]({depth}{_as_page(match[1], '')[0]}"

    return ROOT_PAGES.sub(inside, OUTSIDE.sub(inside, markdown))


def reference() -> dict[str, str]:
    """Return the pages of public names, one a module, in the order of the package's own table."""
    sys.path.insert(0, str(ROOT / "src"))
    import stageguard
    import stageguard.datasets
    import stageguard.nn.backbones  # torch is imported when a name is used
    import stageguard.synthetic

    public = stageguard.PUBLIC | stageguard.nn.PUBLIC
    for package in (stageguard.datasets, stageguard.synthetic, stageguard.nn.backbones):
        public[package.__name__.removeprefix("stageguard.")] = " ".join(package.__all__)
    pages = {}
    for module, names in public.items():
        blocks = "\n".join(f"::: stageguard.{module}.{name}" for name in names.split())
        pages[f"reference/{module}.md"] = f"# {module}\n\n{blocks}\n"
    index = "\n".join(
        f"- [{module}]({module}.md): {', '.join(f'`{name}`' for name in names.split())}"
        for module, names in public.items()
    )
    return pages | {"reference/index.md": f"# Reference\n\nEvery public name, by its module.\n\n{index}\n"}
