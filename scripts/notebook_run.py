"""Executes notebooks through their kernel, one after the other, from the notebooks' own folder.

    notebook_run.py [--out FOLDER] [--timeout SECONDS] NOTEBOOK...

With --out the executed copies go there, otherwise the notebooks are rewritten in place. What the cells log is repeated on
the terminal while they run. The first failing cell ends the run with status 1, its number and its error; the outputs so
far are kept in the copy (--out), and the committed notebook is left as it was. Nothing that differs from one execution to
the next is stored: cell ids are their position, and there are no time stamps.
"""

import argparse
import os
import re
import sys
import time

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

ANSI = re.compile(r"\x1b\[[0-9;]*m")


def say(text):
    print(text, file=sys.stderr, flush=True)


class Client(NotebookClient):
    """A client that repeats the log of the running cell on the terminal."""

    last = None

    def process_message(self, msg, cell, cell_index):
        content = msg.get("content", {})
        if msg["msg_type"] == "stream":
            sys.stderr.write(content["text"])
            sys.stderr.flush()
        elif msg["msg_type"] in ("display_data", "update_display_data"):
            data = content.get("data", {})
            # The log of a cell is HTML whose plain text is its newest line; tables and pictures have no such text.
            line = data.get("text/plain", "") if "text/html" in data else ""
            if line and line != self.last:
                say("    " + line)
                self.last = line
        return super().process_message(msg, cell, cell_index)


def failure(nb, index):
    """The error of a failed cell as text: what it wrote to standard error, and the compiler's or runtime's message."""
    parts = []
    for out in nb.cells[index].get("outputs", []):
        if out.output_type == "error":
            parts += out.get("traceback") or [out.get("evalue", "")]
        elif out.output_type == "stream" and out.name == "stderr":
            parts.append(out.text)
    return ANSI.sub("", "\n".join(p.rstrip() for p in parts))


def execute(path, out, timeout):
    nb = nbformat.read(path, as_version=4)
    metadata = nb.metadata.copy()
    for i, cell in enumerate(nb.cells):
        cell["id"] = f"cell-{i + 1:02d}"
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    folder = os.path.dirname(os.path.abspath(path))
    started = {}

    def start(cell, cell_index):
        if cell.cell_type == "code":
            started[cell_index] = time.monotonic()
            code = [l for l in cell.source.splitlines() if l.strip() and not l.startswith(("//", "package"))]
            say(f"  cell {cell_index + 1}: {code[0] if code else cell.source.splitlines()[-1]}")

    def done(cell, cell_index, execute_reply):
        say(f"  cell {cell_index + 1}: {time.monotonic() - started[cell_index]:.1f} s")

    client = Client(nb, kernel_name=nb.metadata.kernelspec.name, timeout=timeout, record_timing=False, coalesce_streams=True,
                    resources={"metadata": {"path": folder}}, on_cell_start=start, on_cell_executed=done)
    say(path)
    began = time.monotonic()
    error = None
    try:
        client.execute()
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as e:
        index = max(started, default=0)
        error = f"{path}: cell {index + 1} failed:\n{failure(nb, index) or e}"
    finally:
        # The kernel notes what language it speaks; the committed file keeps the metadata that jupytext gave it.
        nb.metadata.clear()
        nb.metadata.update(metadata)
        work = os.path.join(folder, "go.work")  # made by the first cell when the kernel's folder is the notebook's
        if os.path.exists(work):
            os.remove(work)
    target = os.path.join(out, os.path.basename(path)) if out else path
    if out or error is None:
        temporary = target + ".tmp"
        nbformat.write(nb, temporary)
        os.replace(temporary, target)
    say(f"{path}: {'failed' if error else 'executed'} in {time.monotonic() - began:.1f} s")
    return error


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", help="folder of the executed copies (default: rewrite in place)")
    p.add_argument("--timeout", type=int, default=None, help="seconds that a cell may take (default: no limit)")
    p.add_argument("notebooks", nargs="+")
    args = p.parse_args()
    if args.out:
        os.makedirs(args.out, exist_ok=True)
    for path in args.notebooks:
        error = execute(path, args.out, args.timeout)
        if error:
            say(error)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
