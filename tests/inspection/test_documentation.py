"""The pictures in the documentation are what the library draws today, and its example prints what it says."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest

import tapegrad as tg

ROOT = pathlib.Path(tg.__file__).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
DOCS = pathlib.Path(__file__).parents[2] / "docs"


def test_pictures_are_up_to_date(tmp_path: pathlib.Path) -> None:
    program = [sys.executable, str(DOCS / "pictures.py"), str(tmp_path)]
    subprocess.run(program, env=ENVIRONMENT, check=True)
    made = sorted(path.name for path in tmp_path.iterdir() if path.is_file())
    assert made == ["gan.svg", "player.html", "program.svg", "tape.svg"]
    for name in made:
        assert (tmp_path / name).read_text() == (DOCS / "images" / name).read_text(), (
            f"run docs/pictures.py: {name}"
        )


@pytest.mark.parametrize("name", ["README.md", "docs/inspection.md"])
def test_the_printed_tape(name: str, tmp_path: pathlib.Path) -> None:
    text = (DOCS.parent / name).read_text()
    code = next(re.finditer(r"```python\n(.*?)```", text, re.DOTALL)).group(1)
    printed = next(re.finditer(r"```\n(#  op .*?)```", text, re.DOTALL)).group(1)
    start = "" if code.startswith("import") else "import tapegrad as tg\n\n"
    (tmp_path / "demo.py").write_text(start + code)
    done = subprocess.run(
        [sys.executable, "demo.py"], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(printed)
