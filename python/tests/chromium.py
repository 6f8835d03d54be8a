"""A headless Chromium, driven through its DevTools protocol."""

from __future__ import annotations

import base64
import importlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find() -> str | None:
    """Where Chromium is: what CHROMIUM says, or on the path."""
    candidates = [os.environ.get("CHROMIUM"), *NAMES]
    return next((found for name in candidates if name and (found := shutil.which(name))), None)


class Page:
    """One tab. Frames are asked by their number, in the order of the document; 0 is the page itself."""

    def __init__(self, address: str) -> None:
        websocket: Any = importlib.import_module("websocket")
        self._socket = websocket.create_connection(address, timeout=60, suppress_origin=True)
        self._number = 0
        self.problems: list[str] = []
        """Exceptions that no script caught."""
        for domain in ("Page", "Runtime"):
            self.send(f"{domain}.enable")
        # A page that is not in front has no focus, and some programs wait for it.
        self.send("Emulation.setFocusEmulationEnabled", enabled=True)

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Calls a method of the protocol and returns its result."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("method") == "Runtime.exceptionThrown":
                details = message["params"]["exceptionDetails"]
                self.problems.append(details.get("exception", {}).get("description") or details["text"])
            if message.get("id") == self._number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                result: dict[str, Any] = message["result"]
                return result

    def _frames(self) -> list[str]:
        def below(tree: dict[str, Any]) -> Iterator[str]:
            yield tree["frame"]["id"]
            for child in tree.get("childFrames", ()):
                yield from below(child)

        return list(below(self.send("Page.getFrameTree")["frameTree"]))

    def value(self, script: str, frame: int = 0) -> Any:
        """The value of an expression in a frame; promises are awaited."""
        where: dict[str, Any] = {}
        if frame:
            world = self.send("Page.createIsolatedWorld", frameId=self._frames()[frame])
            where["contextId"] = world["executionContextId"]
        answer = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, **where)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description") or details["text"])
        return answer["result"].get("value")

    def wait(self, script: str, frame: int = 0, seconds: float = 60) -> Any:
        """Waits until an expression is true, and returns it."""
        end, last = time.monotonic() + seconds, ""
        while time.monotonic() < end:
            try:
                if found := self.value(script, frame):
                    return found
            except (RuntimeError, IndexError) as error:
                last = str(error)
            time.sleep(0.2)
        raise AssertionError(f"not within {seconds} s: {script} {last}")

    def screenshot(self, path: Path, **clip: float) -> None:
        """Saves what is seen, or a part of it, as PNG."""
        part = {"clip": {"scale": 1, **clip}} if clip else {}
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", format="png", **part)["data"]))


@contextmanager
def open_page(program: str, width: int = 1200, height: int = 1000) -> Iterator[Page]:
    """Starts Chromium with one tab, and ends it."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        # Frames without origin stay in the process of the page, so that one connection reaches all of them.
        command += ["--disable-site-isolation-trials", "--disable-features=IsolateSandboxedIframes,SitePerProcess"]
        command += ["--remote-debugging-port=0", f"--user-data-dir={profile}", f"--window-size={width},{height}", "about:blank"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield Page(_tab(Path(profile) / "DevToolsActivePort", process))
        finally:
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _tab(file: Path, process: subprocess.Popen[bytes]) -> str:
    """The address of the first tab."""
    from urllib.request import urlopen

    for _ in range(600):
        assert process.poll() is None, "Chromium ended"
        if file.exists() and "\n" in file.read_text():
            port = file.read_text().split()[0]
            with urlopen(f"http://127.0.0.1:{port}/json") as answer:
                tabs = json.load(answer)
            found = [tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page"]
            if found:
                return str(found[0])
        time.sleep(0.1)
    raise AssertionError("Chromium did not open its port")
