#!/usr/bin/env python3
"""Holds the built book against itself: every page is there, and no link of a page leads nowhere.

    tests/browser/book.py FOLDER      what `mdbook build docs -d FOLDER` has made

The tidy tests hold the sources of the pages; this looks at what a reader gets.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

SOURCES = Path(__file__).resolve().parents[2] / "docs" / "src"


class Page(HTMLParser):
    """The anchors and the links of one page."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.links, self.headings = set(), [], 0
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.headings += tag == "h1"
        if attributes.get("id"):
            self.anchors.add(attributes["id"])
        # A page's relations to its styles and neighbours are links too.
        self.links += [attributes[name] for name in ("href", "src") if attributes.get(name)]


def dead(path, pages):
    """The links of one page that lead nowhere."""
    for link in pages[path].links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        goal = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        if not goal.is_file() or (parts.fragment and goal in pages and parts.fragment not in pages[goal].anchors):
            yield link


def main():
    book = Path(sys.argv[1]).resolve()
    pages = {path: Page(path) for path in book.rglob("*.html")}
    expected = {book / source.relative_to(SOURCES).with_suffix(".html")
                for source in SOURCES.rglob("*.md") if source.name != "SUMMARY.md"}
    wrong = [f"{path.relative_to(book)} was not built" for path in expected - set(pages)]
    wrong += [f"{path.relative_to(book)} has no title" for path in expected & set(pages) if not pages[path].headings]
    # What mdBook adds of itself (all pages in one, the page for what is not found) repeats their links.
    wrong += [f"{path.relative_to(book)} links to {link}, which is not there"
              for path in expected & set(pages) for link in dead(path, pages)]
    print("\n".join(sorted(wrong)) or f"{len(expected)} pages, {sum(len(pages[path].links) for path in expected)} links")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
