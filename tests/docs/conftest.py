"""Tests of the documentation share the module that turns pages into programs."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
