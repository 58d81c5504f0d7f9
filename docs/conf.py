"""The manual: `sphinx-build -W docs docs/_build` (extra `docs`). Needs no network."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

import lgmdsl  # noqa: E402

project = "lgmdsl"
author = "The lgmdsl developers"
copyright = "2026, the lgmdsl developers"
version = release = lgmdsl.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "matplotlib.sphinxext.plot_directive",
    "sphinx_gallery.gen_gallery",
    "lgm_lexer",
    "model_pages",
    "reference_pages",
    "svg_math",
]
exclude_patterns = [
    "_build", "_ext", "examples", "packages", "README.md",
    "reference/generated/methods-table.md",  # a part of `choosing/methods`
]  # fmt: skip
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath", "fieldlist"]
myst_heading_anchors = 3
default_role = "code"
smartquotes = False  # would turn `--hyper` in help texts into a dash
nitpicky = True
# Types of signatures that are no page here: of other libraries (no inventory is fetched: the build
# is offline), and of results whose methods say what they are.
nitpick_ignore_regex = [("py:(class|obj|meth|attr|exc)", ".*")]
autodoc_typehints = "none"
autodoc_member_order = "bysource"

# Pictures are made by the build, from the code that stands next to them.
plot_html_show_source_link = False
plot_html_show_formats = False
plot_formats = [("png", 110)]
plot_rcparams = {"figure.figsize": (7.0, 3.0), "figure.constrained_layout.use": True}
plot_apply_rcparams = True
plot_basedir = str(HERE)

# Worked analyses: every script in examples/ is run.
sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "filename_pattern": "plot_",
    "within_subsection_order": "gallery_order.Order",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "remove_config_comments": True,
    "min_reported_time": 1e9,
}

html_math_renderer = "svg"  # no script from elsewhere: the manual is read without a network
html_theme = "pydata_sphinx_theme"
html_title = "lgmdsl"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["manual.css"]
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
}
