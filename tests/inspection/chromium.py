"""Headless Chromium, driven through a pair of pipes in its own protocol, so that no other package is needed."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import time
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def find() -> str | None:
    """The program of a Chromium that is installed, if one is."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Page:
    """One page of a browser that lives as long as the ``with`` block."""

    def __init__(self, program: str, *, dark: bool = False) -> None:
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()

        # The browser reads its descriptor 3 and writes its descriptor 4.
        shell = f'exec 3<&{to_read} 4>&{to_write}; exec "$0" "$@"'
        options = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--remote-debugging-pipe",
            "--window-size=1100,750",
        ]
        self._browser = subprocess.Popen(
            ["bash", "-c", shell, program, *options],
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._numbers = itertools.count(1)
        self._rest = b""
        self._session: str | None = None
        self.errors: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Runtime.enable")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def __enter__(self) -> Page:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._browser.kill()
        self._browser.wait()
        os.close(self._write)
        os.close(self._read)

    def call(self, method: str, **params: Any) -> Any:
        """Send a command and wait for its answer; errors that the page throws meanwhile are kept."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("method") == "Runtime.exceptionThrown":
                self.errors.append(json.dumps(answer["params"]))
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]

    def _next(self) -> Any:
        while b"\0" not in self._rest:
            part = os.read(self._read, 1 << 16)
            assert part, "the browser has gone"
            self._rest += part
        one, self._rest = self._rest.split(b"\0", 1)
        return json.loads(one)

    def open(self, url: str, ready: str) -> None:
        """Load a page and wait until an expression is true there."""
        self.call("Page.navigate", url=url)
        deadline = time.monotonic() + 30
        while not self.js(f"document.readyState === 'complete' && Boolean({ready})"):
            assert time.monotonic() < deadline, f"{url} did not become ready: {self.errors}"
            time.sleep(0.05)

    def js(self, expression: str) -> Any:
        """The value of an expression in the page."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def click(self, selector: str) -> None:
        """Press and release the mouse over the middle of an element."""
        place = self.js(
            f"(() => {{ const r = document.querySelector({json.dumps(selector)}).getBoundingClientRect();"
            " return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call(
                "Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1
            )

    def press(self, key: str) -> None:
        """Press and release a key."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)
