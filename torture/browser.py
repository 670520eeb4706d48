"""A real Chromium that shows pages and says what became of hostile text in them."""

from __future__ import annotations

import html
import http.server
import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from torture.case import Failed

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update "
    "--disable-sync --enable-logging=stderr --virtual-time-budget=15000 --dump-dom"
)
LISTEN = """<script>
window.failures = [];
window.addEventListener("error", (e) => window.failures.push(String(e.message)), true);
</script>"""
ANSWER = """<script id="probe">
window.addEventListener("load", () => setTimeout(() => {
  const all = (selector) => [...document.querySelectorAll(selector)].map((e) => e.outerHTML.slice(0, 200));
  window.parent.postMessage({
    page: location.pathname, pwned: Boolean(window.pwned) || Boolean(window.parent.pwned), failures: window.failures,
    inserted: all("iframe, base, form, object, embed, link:not([rel=icon]), meta[http-equiv=refresh], img.hostile"),
    title: document.title, text: document.documentElement.textContent,
  }, "*");
}, 300));
</script>"""
FRAMES = """<!doctype html><title>waiting</title>{frames}<script>
const answers = [];
window.addEventListener("message", (e) => {{
  answers.push(e.data);
  if (answers.length === {count}) document.title = "answers:" + JSON.stringify(answers);
}});
</script>"""


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves the pages and keeps the paths that were asked for."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        super().do_GET()

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Serve a folder on this machine; yield its address and the list of all paths that are asked for."""
    asked: list[str] = []
    handler = type("Asked", (Handler,), {"asked": asked})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()


def show(pages: list[str], folder: Path, address: str) -> dict[str, dict[str, Any]]:
    """Show pages of a served folder in one browser and return what each of them answers."""
    for page in pages:
        path = folder / page
        text = path.read_text().replace("<head>", f"<head>{LISTEN}", 1)
        path.write_text(text.replace("</body>", f"{ANSWER}</body>") if "</body>" in text else text + ANSWER)
    frames = "".join(f'<iframe src="{page}" width="1000" height="700"></iframe>' for page in pages)
    (folder / "frames.html").write_text(FRAMES.format(frames=frames, count=len(pages)))
    assert CHROMIUM is not None
    command = [CHROMIUM, *FLAGS.split(), f"--user-data-dir={folder / 'profile'}", f"{address}/frames.html"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=200)
    found = re.search(r"<title>answers:(.*?)</title>", answer.stdout, re.DOTALL)
    if found is None:
        raise Failed(f"the pages {pages} do not answer: {answer.stdout[:500]} {answer.stderr[-1500:]}")
    answers = json.loads(html.unescape(found[1]))
    return {one["page"].lstrip("/"): one for one in answers}
