"""Chromium without a window, driven through its DevTools protocol over two pipes.

Needs nothing but the program itself: no driver, no port, no other package.
"""

import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
TIMEOUT_S = 60


def find_chromium():
    """The program's path, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class BrowserError(Exception):
    """The browser refused a call, or did not answer in time."""


class Browser:
    """One browser with a fresh profile, as a context manager."""

    def __init__(self, program):
        self._program = program

    def __enter__(self):
        self._profile = tempfile.TemporaryDirectory(prefix="tessera-report-",
                                                    ignore_cleanup_errors=True)
        commands_out, self._commands = os.pipe()
        self._answers, answers_in = os.pipe()
        # The protocol's pipes are descriptors 3 and 4 of the browser.
        redirect = f'exec "$0" "$@" 3<&{commands_out} 4>&{answers_in}'
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", redirect, self._program, "--headless=new", "--no-sandbox",
             "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
             "--disable-background-networking", "--disable-component-update", "--disable-sync",
             "--force-device-scale-factor=1", f"--user-data-dir={self._profile.name}",
             "--remote-debugging-pipe", "about:blank"],
            pass_fds=(commands_out, answers_in), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(commands_out)
        os.close(answers_in)
        self._buffer = b""
        self._next_id = 0
        self.events = []  # (session, method, parameters), oldest first
        return self

    def __exit__(self, *_):
        try:
            self.call("Browser.close")
            self._process.wait(TIMEOUT_S)
        except (BrowserError, OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._commands)
        os.close(self._answers)
        self._profile.cleanup()

    def _read_message(self, deadline):
        while b"\0" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._answers], [], [], left)[0]:
                raise BrowserError("the browser does not answer")
            received = os.read(self._answers, 1 << 20)
            if not received:
                raise BrowserError("the browser ended")
            self._buffer += received
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def call(self, method, session=None, **parameters):
        """The result of a method of the protocol; events that come meanwhile are kept."""
        self._next_id += 1
        message = {"id": self._next_id, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._commands, data):]
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            answer = self._read_message(deadline)
            if answer.get("id") == self._next_id:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            if "method" in answer:
                self.events.append((answer.get("sessionId"), answer["method"], answer["params"]))

    def open(self, url, width=1280, height=900):
        """A page of its own that has loaded `url`."""
        return BrowserPage(self, url, width, height)


class BrowserPage:
    """A tab, and all that happened in it since it was opened."""

    def __init__(self, browser, url, width, height):
        self._browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = browser.call("Target.attachToTarget", targetId=target,
                                     flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.resize(width, height)
        self.call("Page.navigate", url=url)
        self.wait_until_loaded()

    def call(self, method, **parameters):
        return self._browser.call(method, session=self._session, **parameters)

    def events(self, method):
        return [parameters for session, name, parameters in self._browser.events
                if session == self._session and name == method]

    def wait_until_loaded(self, has_scripts=True):
        """Waits for the page and, where it may run scripts, for its first picture."""
        deadline = time.monotonic() + TIMEOUT_S
        while not self.run("location.href !== 'about:blank' && document.readyState === 'complete'"):
            if time.monotonic() > deadline:
                raise BrowserError("the page does not load")
            time.sleep(0.02)
        if has_scripts:
            self.settle()

    def run(self, script):
        """The value of a JavaScript expression."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in result:
            raise BrowserError(result["exceptionDetails"]["exception"].get("description", script))
        return result["result"].get("value")

    def settle(self):
        """Waits until what was asked for is painted."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
                 ".then(() => 0)")

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)

    def emulate(self, media="", **features):
        """`media` is print or empty; a feature is prefers_color_scheme="dark"."""
        self.call("Emulation.setEmulatedMedia", media=media,
                  features=[{"name": name.replace("_", "-"), "value": value}
                            for name, value in features.items()])
        self.settle()

    def press(self, key, code=0, text=""):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code,
                      text=text if kind == "keyDown" else "")
        self.settle()

    def click(self, selector):
        box = self.run(f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
                       " e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect();"
                       " return [b.x + b.width / 2, b.y + b.height / 2]; })()")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left",
                      clickCount=1)
        self.settle()

    def complaints(self):
        """Exceptions, errors and warnings of the console, one text each."""
        texts = [event["exceptionDetails"].get("exception", {}).get("description", "exception")
                 for event in self.events("Runtime.exceptionThrown")]
        texts += [json.dumps(event["args"]) for event in self.events("Runtime.consoleAPICalled")
                  if event["type"] in ("error", "warning", "assert")]
        return texts + [event["entry"]["text"] for event in self.events("Log.entryAdded")]

    def requests(self):
        """The addresses that the page asked for, itself first."""
        return [event["request"]["url"] for event in self.events("Network.requestWillBeSent")]
