"""A real Chromium without a window, driven through its own driver over loopback; nothing but the standard library."""

import base64
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or ""
DRIVER = shutil.which("chromedriver") or ""
WHY_NOT = "needs Chromium and its driver: apt-get install chromium chromium-driver"
_SWITCHES = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    "--force-color-profile=srgb", "--hide-scrollbars",
)  # fmt: skip
# For the browser itself no proxy: what it would load shows as a failed request, not as a successful one.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Browser:
    """One session; what the page logs and asks for is kept by the driver until it is read."""

    def __init__(self, address: str, session: str) -> None:
        self._at = f"{address}/session/{session}"

    def open(self, page: Path) -> None:
        """Load a file and wait until it is there."""
        _post(f"{self._at}/url", {"url": page.absolute().as_uri()})

    def run(self, script: str, *arguments: Any) -> Any:
        """What a function body returns in the page."""
        return _post(f"{self._at}/execute/sync", {"script": script, "args": list(arguments)})

    def devtools(self, command: str, **options: Any) -> Any:
        """A command of the DevTools protocol."""
        return _post(f"{self._at}/goog/cdp/execute", {"cmd": command, "params": options})

    def press(self, *keys: str) -> None:
        """Press keys one after the other, wherever the focus is."""
        moves = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        _post(f"{self._at}/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": moves}]})

    def size(self, width: int, height: int = 900) -> None:
        """A window of so many CSS pixels."""
        self.devtools(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 700
        )

    def scheme(self, name: str) -> None:
        """Prefer "light" or "dark"."""
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def console(self) -> list[str]:
        """What the page logged or was refused."""
        return [f"{one['level']}: {one['message']}" for one in self._log("browser")]

    def requests(self) -> list[str]:
        """The addresses the page asked for."""
        messages = [json.loads(one["message"])["message"] for one in self._log("performance")]
        return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]

    def _log(self, kind: str) -> list[dict[str, Any]]:
        return list(_post(f"{self._at}/se/log", {"type": kind}))

    def screenshot(self, path: Path) -> Path:
        """The whole page, from top to bottom."""
        shot = self.devtools("Page.captureScreenshot", captureBeyondViewport=True, format="png")
        path.write_bytes(base64.b64decode(shot["data"]))
        return path

    def pdf(self, path: Path) -> Path:
        """The page as it is printed on A4."""
        printed = _post(f"{self._at}/print", {"page": {"width": 21.0, "height": 29.7}})
        path.write_bytes(base64.b64decode(printed))
        return path


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Start driver and browser with an empty profile, and end both."""
    port = _free_port()
    command = [DRIVER, f"--port={port}", "--allowed-ips=127.0.0.1", "--silent"]
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment) as driver:
        address = f"http://127.0.0.1:{port}"
        try:
            session = _begin(address, profile)
            started = Browser(address, session)
            _post(f"{address}/session/{session}/url", {"url": "about:blank"})
            started.requests()  # those of the new tab are not the page's
            yield started
            _call("DELETE", f"{address}/session/{session}")
        finally:
            driver.terminate()


def _begin(address: str, profile: Path) -> str:
    options = {"binary": CHROMIUM, "args": [*_SWITCHES, f"--user-data-dir={profile}"]}
    wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
    end = time.monotonic() + 30
    while True:
        try:
            return str(_post(f"{address}/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"])
        except urllib.error.URLError as error:
            if isinstance(error, urllib.error.HTTPError) or time.monotonic() > end:
                raise
            time.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _post(address: str, body: Any) -> Any:
    return _call("POST", address, json.dumps(body).encode())


def _call(method: str, address: str, body: bytes | None = None) -> Any:
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"}, method=method)
    try:
        with _OPENER.open(request, timeout=120) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as error:
        raise RuntimeError(f"{method} {address}: {error.read().decode(errors='replace')[:500]}") from error
