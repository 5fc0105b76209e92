"""The page of `render.html` in a real browser: no text of the target runs, nothing is fetched, keys and search work.

scripts/get-chromium installs the browser; without it these tests are skipped. They drive it through a pipe with the
DevTools protocol.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import re
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from gdbext.render.html import html_page
from gdbext.render.shown import Shown
from gdbext.schema.read import read_document
from tests.support import gdb_session, interpreters, samples
from tests.support.fake_page import two_and_two
from tests.support.interpreters import CHECKOUT
from tests.support.patience import patience

Json = dict[str, Any]

#: The longest time for a reply of the browser, in seconds, on a loaded machine.
_TIMEOUT = patience(120)
_FLAGS = (
    "--headless=new", "--no-first-run", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-default-apps", "--disable-sync", "--remote-debugging-pipe",
    "--window-size=1280,900",
    # the browser would check for updates
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    # the sandbox does not work for root, and the pages are trusted
    "--no-sandbox",
)
#: A program with a hostile file name and hostile thread names; one thread deadlocks with itself.
_PROGRAM = """
import sys, threading, time
names = {names!r}
source = '''
def stuck(lock, ready):
    with lock:
        ready.set()
        with lock:
            pass

def waits(lock, ready):
    ready.set()
    with lock:
        pass
'''
space = {{}}
exec(compile(source, {file!r}, "exec"), space)
lock = threading.Lock()
for index, name in enumerate(names):
    ready = threading.Event()
    threading.Thread(target=space["waits" if index else "stuck"], args=(lock, ready), name=name, daemon=True).start()
    ready.wait()
time.sleep(0.2)
print("ready", flush=True)
time.sleep(600)
"""


def chromium() -> str:
    """The path of the browser; skips the test without one."""
    got = subprocess.run([CHECKOUT / "scripts" / "get-chromium", "--no-download"], capture_output=True, text=True,
                         check=False)
    if got.returncode:
        interpreters.do_without("chromium", got.stderr.strip())
    return got.stdout.strip()


class Canary:
    """A server that only listens and records connections."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.asked: list[str] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                self.asked.append("connected")
                with contextlib.suppress(OSError):
                    connection.settimeout(5)
                    self.asked[-1] = connection.recv(1000).decode("latin-1").partition("\r\n")[0]
                    connection.sendall(b"HTTP/1.0 404 Not Found\r\nContent-Length: 0\r\n\r\n")

    def close(self) -> None:
        self._socket.close()


class Browser:
    """A browser with one tab."""

    def __init__(self, program: str, directory: Path) -> None:
        read, their_write = os.pipe()
        their_read, write = os.pipe()
        # descriptors above those that the browser uses; a shell then moves them to the expected numbers
        inner = [fcntl.fcntl(their_read, fcntl.F_DUPFD, 10), fcntl.fcntl(their_write, fcntl.F_DUPFD, 10)]
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{inner[0]} 4>&{inner[1]}', "bash", program, *_FLAGS,
             f"--user-data-dir={directory / 'profile'}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=inner,
            start_new_session=True, env={**os.environ, "HOME": str(directory)})
        for each in (*inner, their_read, their_write):
            os.close(each)
        self._read, self._write = read, write
        self._rest = b""
        self._numbers = itertools.count(1)
        #: The events in the tab since the last call.
        self.events: list[Json] = []
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        # in processor time, which does not depend on other processes
        self.call("Performance.enable", timeDomain="threadTicks")
        for domain in ("Page", "Runtime", "Network", "Log", "Accessibility"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        """End the browser."""
        try:
            self._session = None
            self.call("Browser.close")
            self._process.wait(10)
        except (AssertionError, OSError, subprocess.TimeoutExpired):
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        os.close(self._read)
        os.close(self._write)

    def call(self, method: str, **parameters: Any) -> Json:
        """Send a command of the protocol and return its result."""
        number = next(self._numbers)
        message: Json = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + _TIMEOUT
        while True:
            reply = self._next(deadline)
            if reply.get("id") == number:
                assert "error" not in reply, f"{method}: {reply['error']}"
                result: Json = reply["result"]
                return result
            self.events.append(reply)

    def _next(self, deadline: float) -> Json:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], max(deadline - time.monotonic(), 0))
            assert ready, "the browser does not answer"
            data = os.read(self._read, 1 << 20)
            assert data, "the browser has ended"
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\0")
        message: Json = json.loads(line)
        return message

    def open(self, page: Path) -> None:
        """Show a page; returns after it was loaded and had time to do forbidden things."""
        # the previous page can do nothing after that
        self._navigate("about:blank")
        self._navigate(page.as_uri())
        self.settle()

    def _navigate(self, url: str) -> None:
        self.events.clear()
        self.call("Page.navigate", url=url)
        deadline = time.monotonic() + _TIMEOUT
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next(deadline))

    def settle(self) -> None:
        """Let the page finish its work: two frames and the tasks after them."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => "
                 "setTimeout(done, 20))))")

    def run(self, script: str) -> Any:
        """Evaluate an expression in the page."""
        reply = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in reply, f"{script}: {reply['exceptionDetails']}"
        return reply["result"].get("value")

    def press(self, key: str, text: str = "", modifiers: int = 0) -> None:
        """Press and release a key."""
        codes = {"Escape": 27, "Tab": 9, "Enter": 13, " ": 32, "/": 191}
        common = {"key": key, "windowsVirtualKeyCode": codes[key], "modifiers": modifiers}
        self.call("Input.dispatchKeyEvent", type="keyDown", **common, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)
        self.settle()

    def seconds(self) -> float:
        """The time for which the page has worked since it was opened."""
        metrics = self.call("Performance.getMetrics")["metrics"]
        return float(next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration"))

    def type(self, text: str) -> None:
        """Type into the focused element."""
        self.call("Input.insertText", text=text)
        self.settle()

    def asked_for(self) -> list[str]:
        """The URLs that the page requested."""
        return [event["params"]["request"]["url"] for event in self.events
                if event.get("method") == "Network.requestWillBeSent"]

    def complaints(self) -> list[str]:
        """The errors of the page and of its security policy."""
        return [json.dumps(event["params"])[:500] for event in self.events
                if event.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded", "Page.javascriptDialogOpening")]


@pytest.fixture(scope="module")
def canary() -> Iterator[Canary]:
    made = Canary()
    yield made
    made.close()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    made = Browser(chromium(), tmp_path_factory.mktemp("browser"))
    yield made
    made.close()


def document_of(pid: int) -> Json:
    return gdb_session.batch(["-p", str(pid)], ["py-threads-locks --json"]).document(0)


def hostile_names(url: str) -> list[str]:
    """Names that would run a script, request a URL, or break the page; the first is that of the main file."""
    return [
        "</script><script>window.hacked = 1; fetch('" + url + "/script')</script>",
        "\"><img src=" + url + "/image onerror=window.hacked=1><b id=query>",
        "'><svg/onload=window.hacked=1><style>@import '" + url + "/style'; body{display:none}</style>",
        "<meta http-equiv=refresh content='0;url=" + url + "/refresh'><base href=" + url + "><iframe src=" + url + ">",
        "\x1b[2J\x1b]0;gone\x07\r\n\x00\u2028\u202e\u2066\ufeff\u200b",
        "\u05e9\u05dc\u05d5\u05dd <\u0627\u0644\u0639\u0631\u0628\u064a\u0629> 12:34",
        "A" * 100_000,
        "z" + "\u0335\u0334" * 500,
        "javascript:window.hacked=1", "${window.hacked=1}{{constructor.constructor('window.hacked=1')()}}",
        "&lt;img src=x&gt; %3Cscript%3E <!-- ]]> --!>",
    ]


@pytest.fixture(scope="module")
def hostile(canary: Canary, tmp_path_factory: pytest.TempPathFactory) -> Json:
    """The document of a program with hostile names."""
    directory = tmp_path_factory.mktemp("hostile")
    program = directory / "program.py"
    file = "</title></style></script><script>window.hacked = 1</script><img src=" + canary.url + "/file>.py"
    program.write_text(_PROGRAM.format(names=hostile_names(canary.url), file=file))
    python, _ = interpreters.use(interpreters.ANY)
    with subprocess.Popen([python, program], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            return document_of(process.pid)
        finally:
            process.kill()


@pytest.fixture(scope="module")
def rapids(tmp_path_factory: pytest.TempPathFactory) -> Json:
    """The document of a deadlock between the GIL and a driver's lock."""
    directory = tmp_path_factory.mktemp("rapids")
    python, _ = interpreters.use(interpreters.ANY)
    with samples.rapids(python, "rwlock", directory) as sample:
        sample.wait_until_final()
        return document_of(sample.pid)


def written(directory: Path, looks: Sequence[Shown], title: str = "gdbext", **more: Any) -> Path:
    page = directory / "page.html"
    page.write_text(html_page(looks, title, **more), encoding="ascii")
    return page


def look(document: Json | None, target: str = "process", **more: Any) -> Shown:
    return Shown(target, None if document is None else read_document(document), **{"stopped": 0.1, **more})


def many(document: Json, count: int) -> Json:
    """Add threads to the document, each with its own stack, that wait for the first lock."""
    like = next(thread for thread in document["threads"] if thread["waits"] is not None)
    lock = like["waits"]["lock"]
    frame = {"language": "python", "function": "work", "qualified_name": "Pool.work", "columns": None, "kind": None,
             "file": "/usr/lib/python3.12/site-packages/package/module/file.py"}
    more = [{**like, "number": number, "lwp": number, "tid": number, "python_name": f"worker-{number}", "holds": [],
             "stack": [{**frame, "line": number * 100 + at} for at in range(30)]}
            for number in range(1000, 1000 + count)]
    locks = [{**each, "waiters": [*each["waiters"], *({"thread": thread["number"], "mode": "exclusive"}
                                                      for thread in more)]} if each["id"] == lock else each
             for each in document["locks"]]
    (deadlock,) = document["deadlocks"]
    return {**document, "threads": [*document["threads"], *more], "locks": locks,
            "deadlocks": [{**deadlock, "stuck_behind": [thread["number"] for thread in more]}]}


def test_hostile_names_run_and_fetch_nothing(browser: Browser, canary: Canary, hostile: Json,
                                                  tmp_path: Path) -> None:
    names = [thread["python_name"] for thread in hostile["threads"]]
    assert set(hostile_names(canary.url)[:4]) <= set(names)
    files = {frame["file"] for thread in hostile["threads"] for frame in thread["stack"] if frame["file"]}
    assert any(file.startswith("</title></style></script><script>") for file in files)
    assert hostile["deadlocks"] != []

    # first check that the server notices a request, and that the browser runs scripts
    naked = tmp_path / "naked.html"
    naked.write_text(f"<title>x</title><p>{hostile_names(canary.url)[1]}</p>")
    browser.open(naked)
    samples.wait_until(lambda: browser.run("window.hacked") == 1 and canary.asked, "the naked page to be hacked")
    canary.asked.clear()

    title = hostile_names(canary.url)[0]
    looks = [look(hostile, name or "") for name in [*hostile_names(canary.url)[:4], "core"]]
    page = written(tmp_path, looks, title, classes=[
        {"verdict": title, "count": 5, "members": [name for name in names if name], "representative": title}],
        between=[{"waiter": looks[0].target, "what": title, "holder": looks[1].target, "deadlock": True}])
    browser.open(page)
    browser.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    browser.settle()
    assert browser.run("window.hacked") is None
    assert browser.asked_for() == [page.as_uri()]
    assert browser.complaints() == []
    assert browser.run("document.title").startswith("</script><script>window.hacked")
    assert browser.run("document.querySelectorAll('img, iframe, base, meta[http-equiv=refresh], object, embed, link')"
                       ".length") == 0
    assert browser.run("document.scripts.length") == 1
    assert browser.run("document.querySelectorAll('#query').length") == 1
    # the names are shown as text
    assert hostile_names(canary.url)[0][:50] in browser.run("document.querySelector('main').textContent")
    assert browser.run("/[\\u0000-\\u0009\\u000b-\\u001f\\u2028\\u202e\\u2066\\u200b]/.test(document.body.textContent)"
                       ) is False
    # none of them makes the page wider than the window
    assert browser.run("document.documentElement.scrollWidth <= window.innerWidth")
    # and the policy limits the harm of a gap in the escaping
    hole = "".join(hostile_names(canary.url)[1:3]) + f"<iframe src={canary.url}/frame></iframe>"
    browser.run(f"document.querySelector('main').insertAdjacentHTML('beforeend', {json.dumps(hole)})")
    browser.run("{ const made = document.createElement('script'); made.textContent = 'window.hacked = 2'; "
                "document.body.append(made); }")
    assert browser.run(f"fetch('{canary.url}/late').then(() => 'fetched', () => 'refused')") == "refused"
    browser.settle()
    assert browser.run("window.hacked") is None
    assert canary.asked == []


def test_page_requests_nothing_and_works_under_its_policy(browser: Browser, rapids: Json, tmp_path: Path) -> None:
    page = written(tmp_path, [look(rapids)])
    browser.open(page)
    browser.run("document.getElementById('open').click()")
    browser.settle()
    assert browser.run("document.getElementById('find').checkVisibility()")
    assert browser.asked_for() == [page.as_uri()]
    assert browser.complaints() == []


def focused(browser: Browser) -> str:
    """The focused element."""
    return str(browser.run("(document.activeElement.id || document.activeElement.tagName).toLowerCase()"))


def shown(browser: Browser) -> list[str]:
    """The headings of the visible thread entries, without LWPs."""
    names: list[str] = browser.run("Array.from(document.querySelectorAll('details.thread')).filter((each) => "
                                   "each.checkVisibility()).map((each) => each.querySelector('b').textContent)")
    return [re.sub(r" \(LWP .*?\)", "", name) for name in names]


def test_search_with_the_keyboard(browser: Browser, rapids: Json, tmp_path: Path) -> None:
    browser.open(written(tmp_path, [look(rapids)]))
    assert browser.run("document.getElementById('find').hidden") is False
    everybody = shown(browser)
    assert everybody == ['Thread 1 "MainThread"', 'Thread 2 "gpu-callbacks"']
    browser.press("/", "/")
    assert (focused(browser), browser.run("query.value")) == ("query", "")
    browser.type("GPU-call LIBDRV")
    assert shown(browser) == everybody  # the waiting thread names it
    browser.press("Escape")
    browser.type("drv_dispatch")
    assert shown(browser) == ['Thread 2 "gpu-callbacks"']
    assert browser.run("found.textContent") == "1 of 2 threads"
    browser.type(" nobody")
    assert shown(browser) == []
    browser.press("Escape")
    assert (shown(browser), browser.run("query.value"), browser.run("found.textContent")) == (everybody, "", "")
    # in a text field a slash is only a slash
    browser.type("/")
    browser.press("/", "/")
    assert browser.run("query.value") == "//"
    browser.press("Escape")
    browser.press("Escape")
    assert focused(browser) == "body"


def test_states_are_filters(browser: Browser, rapids: Json, tmp_path: Path) -> None:
    browser.open(written(tmp_path, [look(many(rapids, 50))]))
    assert len(shown(browser)) == 52
    browser.run("document.querySelector('button[data-filter=deadlocked]').focus()")
    browser.press(" ", " ")
    assert browser.run("document.activeElement.getAttribute('aria-pressed')") == "true"
    assert len(shown(browser)) == 2
    assert browser.run("found.textContent") == "2 of 52 threads"
    browser.press("Escape")
    assert len(shown(browser)) == 52


def test_stacks_open_and_close_with_the_keyboard(browser: Browser, rapids: Json, tmp_path: Path) -> None:
    browser.open(written(tmp_path, [look(rapids)]))
    browser.run("document.getElementById('close').click()")
    visible = "document.querySelector('details.thread .stack').checkVisibility()"
    assert browser.run(visible) is False
    browser.run("document.querySelector('#t0-1 summary').focus()")
    browser.press("Enter", "\r")
    assert browser.run(visible) is True
    browser.press(" ", " ")
    assert browser.run(visible) is False
    browser.run("document.getElementById('open').click()")
    assert browser.run("Array.from(document.querySelectorAll('details.thread')).every((each) => each.open)")


def test_links_open_their_threads(browser: Browser, rapids: Json, tmp_path: Path) -> None:
    # threads with the same stack are one entry
    document = many(rapids, 300)
    for thread in document["threads"][2:]:
        thread["stack"] = document["threads"][2]["stack"]
    browser.open(written(tmp_path, [look(rapids, "one"), look(document, "two")]))
    assert browser.run("document.getElementById('target1').open") is False
    browser.press("/", "/")
    browser.type("MainThread")
    # hidden by the search, in a closed section
    browser.run("{ const link = document.createElement('a'); link.href = '#t1-1200'; document.body.append(link); "
                "link.click(); }")
    browser.settle()
    assert focused(browser) == "t1-1200"
    assert browser.run("document.getElementById('t1-1200').checkVisibility()")
    assert browser.run("query.value") == ""
    # a search finds a single thread of a group
    browser.press("/", "/")
    browser.type("worker-1234")
    assert browser.run("Array.from(document.querySelectorAll('.chips > li')).filter((each) => "
                       "each.checkVisibility()).map((each) => each.textContent).join()") == "1234 worker-1234 LWP 1234"
    assert browser.run("found.textContent") == "1 of 304 threads in 1 of 2"
    assert browser.run("document.getElementById('target0').checkVisibility()") is False
    # a node of the drawing is a link too
    browser.press("Escape")
    browser.run("document.querySelector('#target0 svg a[href=\"#t0-2\"]').focus()")
    browser.press("Enter", "\r")
    assert browser.run("document.activeElement.parentElement.id") == "t0-2"


_CONTRAST = """
(() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = colour.slice(0, 3).map((x) => x / 255).map((x) => x <= 0.04045 ? x / 12.92
      : ((x + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (each) => {
    for (; each; each = each.parentElement) {
      if (each.tagName === "rect") return parse(getComputedStyle(each).fill);
      const colour = parse(getComputedStyle(each).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const bad = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const each = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !each.checkVisibility()) continue;
    if (each.closest("script, style, title")) continue;
    const drawn = each.closest("svg") !== null;
    const colour = parse(getComputedStyle(each)[drawn ? "fill" : "color"]);
    const box = drawn && each.parentElement.querySelector(":scope > rect");
    const ground = behind(box || each);
    const [a, b] = [light(colour), light(ground)].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) bad.add(each.tagName + "." + each.className + " " + colour + " on " + ground);
  }
  return Array.from(bad);
})()
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_have_contrast(browser: Browser, rapids: Json, hostile: Json, tmp_path: Path, scheme: str) -> None:
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    try:
        browser.open(written(tmp_path, [look(many(rapids, 3), "one"), look(hostile, "two"), look({
            **rapids, "deadlocks": []}, "three"), look(None, "four", problem="not a core")]))
        browser.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        red, green, blue = browser.run("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
        assert (red + green + blue > 600) == (scheme == "light")
        assert browser.run(_CONTRAST) == []
    finally:
        browser.call("Emulation.setEmulatedMedia", features=[])


def test_graph_text_fits_and_cycle_is_red(browser: Browser, rapids: Json, tmp_path: Path) -> None:
    browser.open(written(tmp_path, [look(many(rapids, 200))]))
    # text fits into its box in the installed fonts
    assert browser.run("Array.from(document.querySelectorAll('.node')).flatMap((node) => { const box = "
                       "node.querySelector('rect').getBBox(); return Array.from(node.querySelectorAll('text')).filter("
                       "(text) => text.getBBox().width > box.width).map((text) => text.textContent); })") == []
    # arrows have heads, and the cycle is red
    red = browser.run("getComputedStyle(document.querySelector('.line.bad')).stroke")
    assert red != browser.run("getComputedStyle(document.querySelector('.line:not(.bad)')).stroke")
    assert browser.run("document.querySelectorAll('.line.bad').length") == 4
    assert browser.run("Array.from(document.querySelectorAll('.line')).every((line) => document.querySelector("
                       "getComputedStyle(line).markerEnd.match(/#[a-z-]+/)[0]) !== null)")


@pytest.mark.parametrize("is_ring", [False, True])
def test_drawing_of_two_threads_and_two_locks_is_not_scrolled(browser: Browser, tmp_path: Path, is_ring: bool) -> None:
    shown = [Shown("process 1", two_and_two(length, is_ring)) for length in (20, 30, 60)]
    waits = [{"waiter": waiter, "what": "pipe:[1]" * 9, "holder": "process 1", "deadlock": True} for waiter in "ab"]
    browser.call("Emulation.setDeviceMetricsOverride", width=1100, height=900, deviceScaleFactor=1, mobile=False)
    try:
        browser.open(written(tmp_path, shown, between=waits))
        browser.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        hidden = browser.run("Array.from(document.querySelectorAll('.wide:has(svg)')).map((each) => "
                             "each.scrollWidth - each.clientWidth)")
        assert hidden == [0] * 4
    finally:
        browser.call("Emulation.clearDeviceMetricsOverride")


def test_elements_have_names_and_are_reached_with_the_keyboard(browser: Browser, rapids: Json, tmp_path: Path) -> None:
    browser.open(written(tmp_path, [look(rapids)]))
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    roles = {node["role"]["value"] for node in nodes if not node["ignored"]}
    assert {"heading", "searchbox", "button", "link", "main", "banner", "search", "status", "DisclosureTriangle",
            "list", "table"} <= roles
    nameless = [node["role"]["value"] for node in nodes if not node["ignored"] and not node.get("name", {}).get("value")
                and node["role"]["value"] in ("link", "button", "searchbox", "heading", "DisclosureTriangle", "region")]
    assert nameless == []
    # landmarks, and a visible focus
    seen, outlined = [], []
    browser.run("document.activeElement.blur()")
    for _ in range(60):
        browser.call("Input.dispatchKeyEvent", type="keyDown", key="Tab", windowsVirtualKeyCode=9)
        seen.append(focused(browser))
        outlined.append(browser.run(
            "(() => { const style = getComputedStyle(document.activeElement); const box = "
            "document.activeElement.querySelector('rect'); return style.outlineStyle !== 'none' || (box !== null && "
            "getComputedStyle(box).strokeWidth === '3px'); })()"))
        if seen[-1] == "body":
            break
    assert {"query", "a", "button", "summary", "div", "open", "close"} <= set(seen)
    assert all(visible for name, visible in zip(seen, outlined) if name != "body")


def test_page_of_a_thousand_threads_opens_quickly(browser: Browser, rapids: Json, tmp_path: Path) -> None:
    page = written(tmp_path, [look(many(rapids, 998))])
    assert page.stat().st_size < 3_000_000
    before = browser.seconds()
    browser.open(page)
    opened = browser.seconds()
    assert len(shown(browser)) == 1000
    browser.press("/", "/")
    browser.type("worker-1500")
    assert shown(browser) == ['Thread 1500 "worker-1500"']
    searched = browser.seconds()
    assert 0 < opened - before < 5
    assert 0 < searched - opened < 5


def test_page_fits_a_narrow_window(browser: Browser, rapids: Json, hostile: Json, tmp_path: Path) -> None:
    browser.call("Emulation.setDeviceMetricsOverride", width=360, height=700, deviceScaleFactor=1, mobile=False)
    try:
        browser.open(written(tmp_path, [look(rapids, "/cores/" + "very-long-name" * 20), look(hostile, "two")]))
        browser.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        assert browser.run("document.documentElement.scrollWidth") <= 360
    finally:
        browser.call("Emulation.clearDeviceMetricsOverride")
