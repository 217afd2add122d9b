"""The notebooks run from a clean state, and what is committed of them is what a reader on the web needs."""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import pytest

FOLDER = pathlib.Path(__file__).parent.parent / "notebooks"
PATHS = sorted(FOLDER.glob("*.ipynb"))
SECONDS = 60  # that a notebook may take on two cores

# All together take more than a minute, so the first stands for the rest where time is short.
RUNS = [pytest.param(p, id=p.stem, marks=() if p.stem.startswith("01") else pytest.mark.slow) for p in PATHS]


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("path", RUNS)
def test_notebook_runs(path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip(
        "nbformat", reason="notebooks are run with the packages of the notebooks extra"
    )
    nbclient = pytest.importorskip(
        "nbclient", reason="notebooks are run with the packages of the notebooks extra"
    )
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    notebook = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": str(FOLDER)}}
    client = nbclient.NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", resources=where)
    client.execute()
    printed = [
        o.get("text", "") for c in notebook.cells for o in c.get("outputs", []) if o.get("name") == "stderr"
    ]
    # No warning reaches the reader, but that kernels are compiled for the first time may be said.
    assert re.sub(r"tapegrad: compiling kernels for .*\n", "", "".join(printed)) == ""


def _cells(path: pathlib.Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text())["cells"]


@pytest.mark.parametrize("path", PATHS, ids=lambda p: p.stem)
def test_what_is_committed(path: pathlib.Path) -> None:
    cells = _cells(path)
    code = [c for c in cells if c["cell_type"] == "code"]
    assert [c["execution_count"] for c in code] == list(range(1, len(code) + 1)), "executed once, in order"
    prose = "".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    assert "**Question:**" in prose
    assert "## Exercises" in prose
    outputs = [o for c in code for o in c["outputs"]]
    assert any("image/svg+xml" in o.get("data", {}) for o in outputs), "a drawn tape"
    assert not [o for o in outputs if o["output_type"] == "error"]
    text = json.dumps(outputs)
    assert not re.search(r"/(?:tmp|root|home|work|Users)/", text), "paths of the machine that ran it"
    checked = "".join("".join(o.get("text", "")) for o in code[-1]["outputs"])
    assert checked.count(": right") >= 3, "the solutions pass the exercises' checks"
    asked = "".join("".join(o.get("text", "")) for o in code[-2]["outputs"])
    assert asked.count("not answered yet") == checked.count(": right"), "and without answers none does"


def test_every_claim_about_the_mechanism_has_its_place() -> None:
    prose = "".join("".join(c["source"]) for p in PATHS for c in _cells(p) if c["cell_type"] == "markdown")
    assert {int(n) for n in re.findall(r"claim (\d+)", prose)} == set(range(1, 32))


def test_the_list_of_notebooks_is_complete() -> None:
    listed = (FOLDER / "README.md").read_text()
    assert re.findall(r"\]\((\d\d_\w+\.ipynb)\)", listed) == [p.name for p in PATHS]
