"""A strict reader of HTML pages for the report's tests: a tree, its tables and its text, or an error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "br", "hr", "img", "link", "input"}


@dataclass
class Node:
    tag: str
    attributes: dict[str, str | None] = field(default_factory=dict)
    children: list[Node | str] = field(default_factory=list)

    def all(self, tag: str | None = None) -> Iterator[Node]:
        """This element and those inside it, in order; only those of one kind if a tag is given."""
        if tag is None or self.tag == tag:
            yield self
        for child in self.children:
            if isinstance(child, Node):
                yield from child.all(tag)

    def one(self, tag: str) -> Node:
        (found,) = self.all(tag)
        return found

    @property
    def text(self) -> str:
        parts = (child if isinstance(child, str) else child.text for child in self.children)
        return "".join(parts)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Node("page")
        self.open = [self.root]

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> repeats an attribute: {names}"
        node = Node(tag, dict(attrs))
        self.open[-1].children.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_startendtag(self, tag, attrs):
        self.open[-1].children.append(Node(tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}> at {self.getpos()}"
        self.open.pop()

    def handle_data(self, data):
        self.open[-1].children.append(data)


def read(page: str) -> Node:
    """The page as a tree; every element must be closed where it was opened."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert len(reader.open) == 1, f"left open: {[node.tag for node in reader.open]}"
    return reader.root


def cells(row: Node) -> list[str]:
    return [node.text.strip() for node in row.children if isinstance(node, Node)]


def table(page: Node, heading: str) -> tuple[list[str], list[list[str]]]:
    """Column titles and rows of the first table below a heading; rows of one cell are left out."""
    wanted = False
    for node in page.all():
        if node.tag in ("h2", "h3", "summary"):
            wanted = wanted or node.text == heading
        if wanted and node.tag == "table":
            head, *rows = [cells(row) for row in node.all("tr")]
            return head, [row for row in rows if len(row) > 1]
    raise AssertionError(f"no table below {heading!r}")
