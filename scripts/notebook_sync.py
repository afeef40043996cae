"""Makes a notebook from its script, or the script from an edited notebook, with jupytext.

    notebook_sync.py notebook NAME...   notebooks/NAME.ipynb from scripts/NAME/main.go; outputs of unchanged cells stay
    notebook_sync.py script NAME...     scripts/NAME/main.go from notebooks/NAME.ipynb, after an edit in JupyterLab

Run from the project's folder. Cell ids are the cells' positions, so that the same cells give the same bytes.
"""

import os
import sys

import jupytext
import nbformat

# What a script says of itself in its header, whatever JupyterLab added to the notebook's metadata.
HEADER = {
    "jupytext": {"text_representation": {"extension": ".go", "format_name": "percent"}},
    "kernelspec": {"display_name": "Go (gonb)", "language": "go", "name": "gonb"},
}


def write(path, text):
    with open(path + ".tmp", "w") as f:
        f.write(text)
    os.replace(path + ".tmp", path)


def to_notebook(name):
    nb = jupytext.read(f"scripts/{name}/main.go", fmt="go:percent")
    path = f"notebooks/{name}.ipynb"
    kept = {}
    if os.path.exists(path):
        old = nbformat.read(path, as_version=4)
        kept = {c.source: c for c in old.cells if c.cell_type == "code"}
    for i, cell in enumerate(nb.cells):
        cell["id"] = f"cell-{i + 1:02d}"
        before = kept.get(cell.source)
        if cell.cell_type == "code" and before is not None:
            cell.outputs, cell.execution_count = before.outputs, before.execution_count
    nb.metadata = nbformat.from_dict({"kernelspec": HEADER["kernelspec"]})
    write(path, nbformat.writes(nb) + "\n")
    print(f"{path}: {len(nb.cells)} cells from scripts/{name}/main.go")


def to_script(name):
    path = f"notebooks/{name}.ipynb"
    nb = nbformat.read(path, as_version=4)
    nb.metadata = nbformat.from_dict(HEADER)
    for cell in nb.cells:
        # What JupyterLab notes about a cell's looks is no part of the program.
        cell.metadata = nbformat.from_dict({"tags": cell.metadata["tags"]} if cell.metadata.get("tags") else {})
    text = jupytext.writes(nb, fmt="go:percent")
    head = "// ---\n// jupyter:\n//   jupytext:\n//     text_representation:\n//       extension: .go\n//       format_name: percent\n"
    body = text.split("// ---\n", 2)[2]  # jupytext adds its own version to the header, which would change with it
    head += "//   kernelspec:\n//     display_name: Go (gonb)\n//     language: go\n//     name: gonb\n// ---\n"
    os.makedirs(f"scripts/{name}", exist_ok=True)
    write(f"scripts/{name}/main.go", head + body)
    print(f"scripts/{name}/main.go: {len(nb.cells)} cells from {path}")


def main():
    ways = {"notebook": to_notebook, "script": to_script}
    if len(sys.argv) < 3 or sys.argv[1] not in ways:
        print(__doc__, file=sys.stderr)
        return 2
    for name in sys.argv[2:]:
        ways[sys.argv[1]](name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
