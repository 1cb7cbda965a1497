"""The modules of this folder are programs beside their tests: they are found by name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
