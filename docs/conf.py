"""How the documentation is built: `make docs`; every warning is an error."""

import sys
from importlib.metadata import version as installed_version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "rmixup"
author = "The rmixup developers"
project_copyright = "The rmixup developers, BSD-3-Clause"
release = version = installed_version("rmixup")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx.ext.mathjax",
    "command_line",
    "plain_docstrings",
]
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "_data", "_ext"]

autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
# `epochs, batch_size : ...` stays one entry, and attributes are a list as parameters are.
napoleon_use_param = False
napoleon_custom_sections = [("Attributes", "params_style")]
# `name` in a docstring is code.
default_role = "code"

html_theme = "furo"
html_title = "rmixup"
html_static_path = ["_static"]
html_css_files = ["site.css"]
