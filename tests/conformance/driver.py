# SPDX-License-Identifier: Apache-2.0
"""The runner's end of the pipes: starts a driver, sends requests, and sorts answers and events."""

import collections
import itertools
import json
import subprocess
import tempfile
import threading
import time
from typing import Any

# Nothing here takes longer on a healthy machine. The limit only ends a case that hangs.
WAIT_SECONDS = 120
# A first start may build the driver.
START_SECONDS = 600
# The exit code of a driver whose tools are missing.
MISSING = 77


class Missing(Exception):
    """The tools of this driver are not on this machine."""


class Broken(Exception):
    """The driver broke the protocol, ended or did not answer."""


class CallError(Exception):
    """An error that the library reported."""

    def __init__(self, op: str, error: dict[str, Any]):
        super().__init__(f"{op}: {error.get('code')} {error.get('reason')}: {error.get('message')}")
        self.error = error
        self.code: str = error.get("code", "")
        self.reason: str = error.get("reason", "")


class Pending:
    """A request without an answer yet."""

    def __init__(self, driver: "Driver", op: str, number: int):
        self._driver, self._op, self._number = driver, op, number

    def done(self) -> bool:
        return self._driver.answered(self._number)

    def result(self, seconds: float = WAIT_SECONDS) -> dict[str, Any]:
        answer = self._driver.take_answer(self._number, self._op, seconds)
        if (error := answer.get("error")) is not None:
            if error.get("code") == "DRIVER":
                raise Broken(f"{self._op}: {error.get('message')}")
            raise CallError(self._op, error)
        if not isinstance(answer.get("ok"), dict):
            raise Broken(f"{self._op}: an answer without ok and error: {answer}")
        return answer["ok"]


class Driver:
    """A process that speaks the protocol. Thread-safe."""

    def __init__(self, command: list[str]):
        self.command = command
        self._log = tempfile.TemporaryFile("w+", errors="replace")
        try:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                             stderr=self._log, text=True, encoding="utf-8")
        except OSError as error:
            raise Missing(str(error)) from error
        self._numbers = itertools.count(1)
        self._changed = threading.Condition()
        self._writing = threading.Lock()
        self._answers: dict[int, dict[str, Any]] = {}
        self._events: dict[str, collections.deque] = collections.defaultdict(collections.deque)
        self._problem: str | None = None
        threading.Thread(target=self._read, daemon=True).start()
        try:
            hello = self.call("hello", seconds=START_SECONDS)
        except Broken:
            if self._process.wait(WAIT_SECONDS) == MISSING:
                raise Missing(self.log().strip().splitlines()[-1] if self.log().strip() else "no reason") from None
            raise
        self.language: str = hello["language"]
        self.lacks: set[str] = set(hello.get("lacks", []))

    def begin(self, op: str, **fields: Any) -> Pending:
        number = next(self._numbers)
        line = json.dumps({"id": number, "op": op} | {k: v for k, v in fields.items() if v is not None})
        with self._writing:
            try:
                self._process.stdin.write(line + "\n")
                self._process.stdin.flush()
            except OSError as error:
                raise Broken(f"{op}: the driver takes no requests: {error}") from error
        return Pending(self, op, number)

    def call(self, op: str, seconds: float = WAIT_SECONDS, **fields: Any) -> dict[str, Any]:
        return self.begin(op, **fields).result(seconds)

    def answered(self, number: int) -> bool:
        with self._changed:
            return number in self._answers

    def take_answer(self, number: int, op: str, seconds: float) -> dict[str, Any]:
        self._wait(lambda: number in self._answers, seconds, f"{op}: no answer")
        return self._answers.pop(number)

    def next_event(self, name: str, seconds: float, what: str) -> dict[str, Any]:
        """The next event of the stream, subscriber or group."""
        self._wait(lambda: bool(self._events[name]), seconds, f"{name}: no {what}")
        return self._events[name].popleft()

    def no_event(self, name: str, seconds: float) -> dict[str, Any] | None:
        """An event that comes within this time, although none should."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._events[name]), seconds)
            return self._events[name][0] if self._events[name] else None

    def close(self) -> int | None:
        """The exit code, or None if it had to be killed."""
        try:
            self._process.stdin.close()
        except OSError:
            pass
        try:
            return self._process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()
            return None

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def exit_status(self) -> int | None:
        """None while the process runs."""
        return self._process.poll()

    def log(self) -> str:
        self._log.seek(0)
        return self._log.read()[-4000:]

    def _wait(self, ready, seconds: float, what: str) -> None:
        start = time.monotonic()
        with self._changed:
            self._changed.wait_for(lambda: ready() or self._problem is not None, seconds)
            if not ready():
                raise Broken(f"{what}: {self._problem or f'nothing in {time.monotonic() - start:.0f} s'}")

    def _read(self) -> None:
        problem = "the driver has ended"
        for line in self._process.stdout:
            try:
                message = json.loads(line)
                with self._changed:
                    if "event" in message:
                        name = next(message[kind] for kind in ("stream", "subscriber", "group") if kind in message)
                        self._events[name].append(message)
                    else:
                        self._answers[message["id"]] = message
                    self._changed.notify_all()
            except (ValueError, KeyError, TypeError, AttributeError, StopIteration):
                problem = f"no line of the protocol: {line[:200]!r}"
                break
        with self._changed:
            self._problem = problem
            self._changed.notify_all()
