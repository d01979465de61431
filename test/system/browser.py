"""A headless Chromium for the tests of pages, driven by chromedriver's HTTP interface (W3C WebDriver) with Python's
standard library alone. find() says where they are; PIPEC_BROWSER_REQUIRED=1 (.ci/run) makes their absence a failure.

  browser.py PAGE.html PICTURE.png [--dark] [--run SCRIPT]     a picture of a page, after a script where one is given
"""
import argparse
import base64
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request

REQUIRED = os.environ.get("PIPEC_BROWSER_REQUIRED", "") not in ("", "0")
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the standard's key of an element


def find():
    """(chromium, chromedriver), or None where one is missing."""
    pair = (shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver"))
    return pair if all(pair) else None


class Browser:
    """One session; use as a context."""

    def __init__(self, width=1440, height=900, dark=False):
        chromium, driver = find()
        self.profile = tempfile.TemporaryDirectory(prefix="pipec-browser-", ignore_cleanup_errors=True)
        self.start(driver)
        try:
            arguments = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars",
                         "--force-device-scale-factor=1", "--no-first-run", f"--user-data-dir={self.profile.name}",
                         f"--window-size={width},{height}", *(["--force-dark-mode"] if dark else [])]
            answer = self.call("POST", "", {"capabilities": {"alwaysMatch": {
                "browserName": "chrome", "timeouts": {"script": 600_000, "pageLoad": 600_000}, "goog:loggingPrefs": {"browser": "ALL"},
                "goog:chromeOptions": {"binary": chromium, "args": arguments}}}})
            self.base += "/" + answer["sessionId"]
            # The window's frame counts in --window-size, and a machine's idea of it varies.
            self.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
            self.command("Emulation.setEmulatedMedia",
                         features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        except BaseException:
            self.close()
            raise

    def start(self, driver):
        """The driver takes a free port of IPv4 and ends where somebody has that of IPv6: then again."""
        for _ in range(8):
            self.driver = subprocess.Popen([driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            said = []
            for line in self.driver.stdout:
                said.append(line)
                if "successfully on port" in line:
                    port = line.rstrip(".\n").rsplit(" ", 1)[1]
                    self.base = f"http://127.0.0.1:{port}/session"
                    return
            self.driver.wait()
            self.driver.stdout.close()
        self.profile.cleanup()
        raise RuntimeError("chromedriver did not start: " + "".join(said))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if getattr(self, "base", "").count("/") > 3:
            try:
                self.call("DELETE", "")
            except (OSError, RuntimeError):
                pass  # it is ended below
        self.driver.terminate()
        self.driver.wait()
        self.driver.stdout.close()
        self.profile.cleanup()

    def call(self, method, path, body=None):
        request = urllib.request.Request(self.base + path, method=method, headers={"Content-Type": "application/json"},
                                         data=None if body is None else json.dumps(body).encode())
        # No proxy stands between a test and its own browser.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=900) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"]) from None

    def command(self, name, **parameters):
        """One of Chromium's own (the DevTools protocol)."""
        return self.call("POST", "/goog/cdp/execute", {"cmd": name, "params": parameters})

    def open(self, path):
        """A page, once it says that it has drawn itself."""
        self.call("POST", "/url", {"url": path.resolve().as_uri()})
        self.wait("await window.pipec.ready")

    def run(self, script, *arguments):
        """What a function body returns; arguments[0] … are its."""
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def wait(self, script):
        """The same of one that awaits; an error in it is raised here."""
        value = self.call("POST", "/execute/async", {"args": [], "script": """
            const done = arguments[arguments.length - 1];
            (async () => { %s })().then((value) => done({value}), (error) => done({error: String(error)}));""" % script})
        if "error" in value:
            raise RuntimeError(value["error"])
        return value.get("value")

    def element(self, selector):
        return self.call("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]

    def click(self, selector):
        self.call("POST", f"/element/{self.element(selector)}/click", {})

    def keys(self, text, selector="#canvas"):
        self.call("POST", f"/element/{self.element(selector)}/value", {"text": text})

    def mouse(self, kind, x, y, **more):
        """mousePressed, mouseMoved, mouseReleased or mouseWheel at a point of the window."""
        self.command("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def drag(self, x, y, dx, dy):
        self.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
        for part in (0.5, 1):
            self.mouse("mouseMoved", x + dx * part, y + dy * part, button="left", buttons=1)
        self.mouse("mouseReleased", x + dx, y + dy, button="left", clickCount=1)

    def picture(self, path):
        path.write_bytes(base64.b64decode(self.call("GET", "/screenshot")))

    def errors(self):
        """What the console has said that is not mere information, since last asked."""
        return [entry["message"] for entry in self.call("POST", "/se/log", {"type": "browser"})
                if entry["level"] in ("SEVERE", "WARNING")]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("picture", type=pathlib.Path)
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--run", default="", help="what an asynchronous function does before")
    chosen = parser.parse_args()
    with Browser(1280, 800, chosen.dark) as opened:
        opened.open(chosen.page)
        opened.wait(chosen.run + "; await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));")
        opened.picture(chosen.picture)
