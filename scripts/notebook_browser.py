"""Runs notebooks in JupyterLab as a reader does: in a browser, with "run all cells".

    notebook_browser.py --work FOLDER --screenshots FOLDER NOTEBOOK...

Starts JupyterLab on copies of the notebooks and a headless Chromium, which is driven over its DevTools protocol. For each
notebook: every code cell is executed, none has an error or wrote to standard error, the log of a running cell is seen on the
page (where anything was logged), and every picture is drawn, with pixels that differ, inside the window when scrolled to.
Leaves screenshots. Without a Chromium (TOOLROUTE_CHROMIUM, or chromium, chromium-browser, google-chrome on PATH) it says so
and fails.
"""

import argparse
import base64
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import websocket  # websocket-client, which JupyterLab's own server depends on


def say(text):
    print("browser: " + text, file=sys.stderr, flush=True)


def chromium():
    for name in (os.environ.get("TOOLROUTE_CHROMIUM"), "chromium", "chromium-browser", "google-chrome"):
        path = name and shutil.which(name)
        if path:
            return path
    return None


def wait(what, seconds, probe, every=0.25, failed=lambda: None):
    """Calls probe until it gives something, and fails by name when it does not."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        got = probe()
        if got:
            return got
        time.sleep(every)
    failed()
    raise SystemExit(f"browser: {what}: nothing within {seconds} s")


class Page:
    """One tab, driven over a web socket."""

    def __init__(self, url):
        self.ws = websocket.create_connection(url, timeout=120, suppress_origin=True)
        self.id = 0
        self.call("Page.enable")
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)
        self.call("Emulation.setDeviceMetricsOverride", width=1400, height=1000, deviceScaleFactor=1, mobile=False)

    def call(self, method, **params):
        self.id += 1
        self.ws.send(json.dumps({"id": self.id, "method": method, "params": params}))
        while True:
            m = json.loads(self.ws.recv())
            if m.get("id") == self.id:
                if "error" in m:
                    raise SystemExit(f"browser: {method}: {m['error']['message']}")
                return m["result"]

    def js(self, expression, promise=False):
        r = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=promise)
        if "exceptionDetails" in r:
            raise SystemExit("browser: script: " + json.dumps(r["exceptionDetails"])[:2000])
        return r["result"].get("value")

    def screenshot(self, path):
        with open(path, "wb") as f:
            f.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
        say("screenshot " + path)


# The open notebook, once its kernel runs.
OPEN = """(() => {
  const app = window.jupyterapp;
  const w = app && Array.from(app.shell.widgets('main')).find(w => w.sessionContext && w.content && w.content.widgets);
  if (!w || !w.content.widgets.length || !w.sessionContext.session || !w.sessionContext.session.kernel) return false;
  app.shell.activateById(w.id);
  window.notebookPanel = w;
  return w.sessionContext.session.kernel.connectionStatus === 'connected';
})()"""

# The notebook as the page's own program holds it: cells outside the window are not drawn, their outputs are in the model.
CELLS = """(() => {
  const nb = window.notebookPanel.content;
  return Array.from(nb.widgets).map((w, i) => ({
    kind: w.model.type, count: w.model.type === 'code' ? w.model.executionCount : null,
    running: w.model.type === 'code' && w.model.executionState === 'running',
    outputs: w.model.type === 'code' ? w.model.outputs.toJSON() : []}));
})()"""

LOG = "Array.from(document.querySelectorAll('.jp-OutputArea-output pre')).map(p => p.innerText).filter(t => /: starting|done before|\\d+\\/\\d+/.test(t)).join('\\n')"

LOG_INTO_VIEW = """(() => {
  const p = Array.from(document.querySelectorAll('.jp-OutputArea-output pre')).find(p => /: starting|done before|\\d+\\/\\d+/.test(p.innerText));
  if (p) p.scrollIntoView({block: 'center'});
})()"""

# Every picture of a cell, once it is in the window: its size on the page, and whether its pixels differ.
PICTURES = """(async () => {
  const nb = window.notebookPanel.content;
  const w = nb.widgets[%d];
  await nb.scrollToCell(w, 'start');
  await new Promise(r => setTimeout(r, 1000));
  const out = [];
  for (const img of w.node.querySelectorAll('img')) {
    img.scrollIntoView({block: 'center'});
    await img.decode();
    await new Promise(r => setTimeout(r, 300));
    const c = document.createElement('canvas');
    c.width = img.naturalWidth; c.height = img.naturalHeight;
    const g = c.getContext('2d');
    g.drawImage(img, 0, 0);
    const d = g.getImageData(0, 0, c.width, c.height).data, seen = new Set();
    for (let i = 0; i < d.length; i += 4) seen.add((d[i] << 16) | (d[i + 1] << 8) | d[i + 2]);
    const b = img.getBoundingClientRect();
    out.push({width: b.width, height: b.height, colors: seen.size,
              visible: b.width > 100 && b.height > 100 && b.top < window.innerHeight && b.bottom > 0});
  }
  return out;
})()"""


def check(page, base, name, screenshots, timeout):
    page.call("Page.navigate", url=base.replace("/lab?", f"/lab/tree/{name}?"))
    wait(name + ": JupyterLab with its kernel", 60, lambda: page.js(OPEN),
        failed=lambda: page.screenshot(os.path.join(screenshots, name.replace(".ipynb", "_not_open.png"))))
    began = time.monotonic()
    page.js("window.jupyterapp.commands.execute('notebook:run-all-cells').then(() => { window.allDone = true; }); true")
    log = ""
    while not page.js("window.allDone === true"):
        seen = page.js(LOG)
        if seen and not log:
            log = seen
            page.js(LOG_INTO_VIEW)
            page.screenshot(os.path.join(screenshots, name.replace(".ipynb", "_running.png")))
        if time.monotonic() - began > timeout:
            page.screenshot(os.path.join(screenshots, name.replace(".ipynb", "_stuck.png")))
            raise SystemExit(f"browser: {name}: not done within {timeout} s")
        time.sleep(0.3)
    cells = page.js(CELLS)
    faults, pictures = [], 0
    for i, c in enumerate(cells):
        if c["kind"] != "code":
            continue
        if not c["count"]:
            faults.append(f"cell {i + 1} was not executed")
        for o in c["outputs"]:
            if o["output_type"] == "error":
                faults.append(f"cell {i + 1}: " + "\n".join(o.get("traceback") or [o.get("evalue", "error")]))
            elif o["output_type"] == "stream" and o["name"] == "stderr":
                faults.append(f"cell {i + 1} wrote to standard error: " + "".join(o["text"]))
        want = sum("image/png" in o.get("data", {}) for o in c["outputs"])
        if want:
            got = page.js(PICTURES % i, promise=True)
            if len(got) != want or not all(p["visible"] and p["colors"] > 10 for p in got):
                faults.append(f"cell {i + 1}: {want} pictures in its output, on the page: {got}")
            pictures += want
            page.screenshot(os.path.join(screenshots, name.replace(".ipynb", f"_cell{i + 1:02d}.png")))
    if not pictures:
        faults.append("no cell shows a picture")
    if not log:
        faults.append("the log of a running cell was never seen")
    for f in faults:
        say(f"{name}: {f}")
    if not faults:
        say(f"{name}: {sum(c['kind'] == 'code' for c in cells)} code cells, {pictures} pictures, no error, in {time.monotonic() - began:.0f} s")
    return not faults


def end(process):
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--work", required=True, help="a folder for the browser's profile")
    p.add_argument("--screenshots", required=True)
    p.add_argument("--timeout", type=int, default=600, help="seconds for all cells of a notebook")
    p.add_argument("notebooks", nargs="+")
    args = p.parse_args()
    program = chromium()
    if program is None:
        say("no chromium, chromium-browser or google-chrome on PATH and TOOLROUTE_CHROMIUM is not set: "
            "scripts/setup.sh browser says how to get one")
        return 1
    os.makedirs(args.screenshots, exist_ok=True)
    # The copies lie inside the project, where the first cell finds the module; the committed files are not touched.
    copies = os.path.abspath(os.path.join(".local", "browser-" + secrets.token_hex(4)))
    os.makedirs(copies)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    token = secrets.token_hex(16)
    lab = browser = None
    try:
        for path in args.notebooks:
            shutil.copy(path, copies)
        lab_log = open(os.path.join(args.work, "jupyter.log"), "w")
        lab = subprocess.Popen([
            "jupyter", "lab", "--no-browser", "--allow-root", f"--ServerApp.port={port}", "--ServerApp.port_retries=0", f"--IdentityProvider.token={token}",
            f"--ServerApp.root_dir={copies}", "--LabApp.expose_app_in_browser=True", "--LabApp.extension_manager=readonly",
        ], stdout=lab_log, stderr=subprocess.STDOUT)
        profile = os.path.join(args.work, "chromium")
        browser = subprocess.Popen([
            program, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage", "--window-size=1400,1000",
            "--remote-debugging-port=0", "--user-data-dir=" + profile, "about:blank",
        ], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def served():
            if lab.poll() is not None:
                raise SystemExit("browser: JupyterLab ended:\n" + open(lab_log.name).read()[-3000:])
            try:
                return urllib.request.urlopen(f"http://127.0.0.1:{port}/api?token={token}", timeout=5).status == 200
            except OSError:
                return False

        wait("JupyterLab's server", 90, served)
        ready = os.path.join(profile, "DevToolsActivePort")
        wait("Chromium", 60, lambda: os.path.exists(ready) and open(ready).read().count("\n") >= 1)
        devtools = int(open(ready).read().split("\n")[0])
        tabs = json.load(urllib.request.urlopen(f"http://127.0.0.1:{devtools}/json", timeout=20))
        page = Page(next(t["webSocketDebuggerUrl"] for t in tabs if t["type"] == "page"))
        good = True
        for path in args.notebooks:
            good &= check(page, f"http://127.0.0.1:{port}/lab?token={token}&reset", os.path.basename(path), args.screenshots, args.timeout)
        return 0 if good else 1
    finally:
        for process in (browser, lab):
            if process is not None:
                end(process)
        shutil.rmtree(copies, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
