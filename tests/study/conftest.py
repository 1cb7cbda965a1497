"""The small study of `small_study.py` for every test here."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # worker processes import `sgd_work` by name

from small_study import data_file, make_study

__all__ = ["data_file", "make_study"]
