"""Settings of the docs site: `make docs` builds it without network access."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
sys.path.insert(0, str(HERE.parent / "src"))

from fivestar import __version__  # noqa: E402

project = "fivestar"
copyright = "the fivestar maintainers, Apache-2.0"  # noqa: A001  (its name in Sphinx)
release = version = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "mathml",
    "generated_pages",
    "outside_links",
]
exclude_patterns = ["_build", "reference/generated/*"]
# References to our own classes must lead somewhere. Not those to other libraries, whose sites are
# not read (no network), nor arguments and code, which docstrings have in single backticks.
nitpicky = True
nitpick_ignore_regex = [
    (r"py:.*", r"(collections|datetime|os|pathlib|types|typing)\..*"),
    (r"py:.*", r"(np|npt|numpy|pa|pyarrow|pandas|torch)\..*"),
    (r"py:obj", r"(?!fivestar\.)[^A-Z].*"),
    # Groups of entry points, and a module.
    (r"py:obj", r"fivestar\.(cancellation|models|objectives|readers|regularizers|trackers)"),
    # Annotations: internal classes, and names of types.
    (r"py:class", r"fivestar\.graph\.folded_texts\.FoldedTexts"),
    (r"py:class", r"fivestar\.graph\.known_answers\.KnownAnswers"),
    (r"py:class", r"fivestar\.models\.registry\.M"),
    (r"py:class", r"fivestar\.runs\.run\.Run"),
    (r"py:class", r"fivestar\.training\.objectives\.(BatchSize|Weights)"),
    # The same where a signature is written by hand or a module is imported for annotations only.
    (r"py:class", r"PathLike|Pruner|Sampler|SearchResult|SettingsLike"),
    (r"py:class", r"Fact|Similarity|Slots|Space|Tried|Watcher"),
]
smartquotes = False  # quotes in docstrings are code

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # notebooks are stored with their outputs, which a test compares
html_math_renderer = "mathml"

autodoc_typehints = "description"
autodoc_type_aliases = {"npt.ArrayLike": "numpy.typing.ArrayLike"}
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
default_role = "py:obj"  # names in docstrings are in single backticks
napoleon_numpy_docstring = False

html_theme = "furo"
html_title = f"fivestar {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_show_sphinx = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"
html_theme_options = {
    "source_repository": "",
    "top_of_page_buttons": [],
}
