"""Let links to the Markdown files beside docs/ lead to the pages of the site that include them."""

from __future__ import annotations

import re

from sphinx.application import Sphinx

PAGES = {
    "CHANGELOG": "changelog",
    "CONTRIBUTING": "contributing",
    "README": "index",
    "SECURITY": "security",
    "THIRD_PARTY": "third-party",
}
LINK = re.compile(rf"\]\((?:\.\./)+({'|'.join(PAGES)})\.md")


def replace_links(_app: Sphinx, _name: str, source: list[str]) -> None:
    source[0] = LINK.sub(lambda link: f"](/{PAGES[link[1]]}.md", source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", replace_links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
