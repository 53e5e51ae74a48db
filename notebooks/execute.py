"""Runs the notebooks and stores their outputs: python notebooks/execute.py [--jobs N] [--check] [NOTEBOOK …].

Each runs in an empty folder with a fresh kernel. ``--jobs N`` puts N in place of the number in the line ``JOBS = …``;
``--check`` runs without storing. What depends on the machine (progress, times, ids) is taken out of what is stored.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SIZE = re.compile(r"^JOBS = [0-9_]+", re.MULTILINE)


def main() -> None:
    """Run what the command line names, or all."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0] if __doc__ else None)
    parser.add_argument("notebooks", nargs="*", type=Path, default=sorted(HERE.glob("*.ipynb")))
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    for path in given.notebooks:
        print(path.name, file=sys.stderr)
        run(path, jobs=given.jobs, store=not given.check)


def run(path: Path, *, jobs: int | None = None, store: bool = True) -> None:
    """Execute one notebook; an error in a cell is an error here."""
    import nbformat
    from jupyter_client.manager import KernelManager
    from nbclient import NotebookClient

    notebook: Any = nbformat.read(path, as_version=4)
    if jobs is not None:
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.source = SIZE.sub(f"JOBS = {jobs}", cell.source)
    kernel = KernelManager()
    kernel.kernel_spec.argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(notebook, km=kernel, timeout=1200, resources={"metadata": {"path": folder}})
        try:
            client.execute()
        finally:
            kernel.shutdown_kernel(now=True)
    if store:
        tidy(notebook)
        nbformat.write(notebook, path)


def tidy(notebook: Any) -> None:
    """Take out what would differ from run to run and from machine to machine."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:02d}"
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = joined([out for out in cell.outputs if out.get("name") != "stderr"])


def joined(outputs: list[Any]) -> list[Any]:
    """Return outputs in which what was printed in one breath is one piece, however the kernel cut it."""
    made: list[Any] = []
    for out in outputs:
        if out.output_type == "stream" and made and made[-1].output_type == "stream":
            made[-1].text += out.text
            continue
        if out.output_type in ("display_data", "execute_result"):
            out.metadata = {}
        made.append(out)
    return made


if __name__ == "__main__":
    main()
