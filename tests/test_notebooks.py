"""Every notebook runs from a clean state."""

from __future__ import annotations

import pathlib

import pytest

FOLDER = pathlib.Path(__file__).parent.parent / "notebooks"


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda p: p.stem)
def test_notebook_runs(path: pathlib.Path) -> None:
    nbformat = pytest.importorskip(
        "nbformat", reason="notebooks are run with the packages of the notebooks extra"
    )
    nbclient = pytest.importorskip(
        "nbclient", reason="notebooks are run with the packages of the notebooks extra"
    )
    notebook = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": str(FOLDER)}}
    nbclient.NotebookClient(notebook, timeout=60, kernel_name="python3", resources=where).execute()
