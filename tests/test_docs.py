"""The generated pages say what the library is."""

from __future__ import annotations

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]


def test_the_table_of_operations_is_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "docs" / "operations.py"), "--check"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"run: python docs/operations.py\n{done.stderr}"
