"""List the programs: ``python -m tapegrad.examples``."""

from __future__ import annotations

import ast
import pathlib


def main() -> None:
    """Print each program's name and what it does, without importing any."""
    programs = [p for p in sorted(pathlib.Path(__file__).parent.glob("[a-z]*.py")) if p.stem != "common"]
    width = max(len(p.stem) for p in programs)
    print("python -m tapegrad.examples.NAME --help")
    for path in programs:
        doc = ast.get_docstring(ast.parse(path.read_text())) or ""
        print(f"  {path.stem.ljust(width)}  {doc.splitlines()[0]}")


if __name__ == "__main__":
    main()
