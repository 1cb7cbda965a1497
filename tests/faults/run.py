"""`make faults`: every fault at its full number of tries, with the tests elsewhere; prints the table.

With RMIXUP_FAULTS_TABLE=docs/_data/faults.csv the table is written there too, for the page "What rmixup survives".
"""

import os
import sys

import pytest
from table import NUMBERS


def main() -> int:
    """Run pytest on this folder and on the tests that the table names."""
    os.environ["RMIXUP_FAULTS"] = "full"
    return int(pytest.main(["-q", "--no-header", "-p", "no:cacheprovider", "tests/faults", *NUMBERS, *sys.argv[1:]]))


if __name__ == "__main__":
    sys.exit(main())
