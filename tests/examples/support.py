# SPDX-License-Identifier: Apache-2.0
"""What the cases are made of: programs and their output, waits with a deadline, and the World of a case."""

import contextlib
import dataclasses
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import duetime
from duetime import pb

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EXAMPLES = os.path.join(ROOT, "client", "examples")
MIGRATE = os.path.join(ROOT, "client", "migrate")
SECONDS_MAX = 30


class Wrong(AssertionError):
    """The program did something else than the case expects."""


@dataclasses.dataclass
class Case:
    name: str
    language: str
    run: Callable[["World"], None]


def check(condition: bool, text: str) -> None:
    if not condition:
        raise Wrong(text)


def equal(actual: object, expected: object, what: str) -> None:
    check(actual == expected, f"{what} is {actual!r}, not {expected!r}")


def eventually(probe: Callable[[], object], what: str, seconds: float = SECONDS_MAX) -> object:
    """Returns the first true result."""
    end = time.monotonic() + seconds
    while not (result := probe()):
        check(time.monotonic() < end, f"{what}: not within {seconds:g} s")
        time.sleep(0.02)
    return result


def span(message: pb.Message) -> timedelta:
    """From the acceptance of a message to its time."""
    return moment(message.deliver_time) - moment(message.accept_time)


def moment(timestamp: object) -> datetime:
    return timestamp.ToDatetime(UTC)


class Program:
    """A program that runs, its input and its output."""

    def __init__(self, words: list[str], folder: str, environment: dict[str, str]):
        self._text = " ".join(words)
        self._process = subprocess.Popen(words, cwd=folder, env=environment, text=True, stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self._changed = threading.Condition()
        self._output: list[str] = []
        self._ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.stdout:
            with self._changed:
                self._output.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    @property
    def output(self) -> str:
        with self._changed:
            return "\n".join(self._output)

    def expect(self, pattern: str, count: int = 1) -> re.Match:
        """Waits until `count` lines match, and returns the last match."""
        def matches() -> list[re.Match]:
            return [match for line in self._output if (match := re.search(pattern, line))]

        with self._changed:
            self._changed.wait_for(lambda: len(matches()) >= count or self._ended, SECONDS_MAX)
            found = matches()
        check(len(found) >= count, f"`{self._text}` printed no {pattern!r} ({count}), but:\n{self.output}")
        return found[-1]

    def type(self, line: str) -> None:
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def end(self, send: signal.Signals | None = None, code: int = 0) -> str:
        """Closes the input or sends a signal, waits for the end, and returns the output."""
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        if send is not None:
            self._process.send_signal(send)
        try:
            self._process.wait(SECONDS_MAX)
        except subprocess.TimeoutExpired:
            raise Wrong(f"`{self._text}` did not end; it printed:\n{self.output}") from None
        self._reader.join()
        check(self._process.returncode == code,
              f"`{self._text}` ended with {self._process.returncode}, not {code}; it printed:\n{self.output}")
        return self.output

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class World:
    """What one case uses. All that it started has ended when the case ends."""

    def __init__(self, address: str, duetime_program: str, build: str, folder: str):
        self.duetime_program = duetime_program
        self.build, self.folder = build, folder
        # `python3` is the one that runs this.
        path = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
        self.environment = dict(os.environ, DUETIME_SERVER=address, PATH=path, PYTHONDONTWRITEBYTECODE="1")
        self.closing = contextlib.ExitStack()
        self.client = self.closing.enter_context(duetime.Client(duetime.Options(server=address)))

    def __enter__(self) -> "World":
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.close()

    def start(self, *words: str, folder: str = ROOT) -> Program:
        program = Program(list(words), folder, self.environment)
        self.closing.callback(program.kill)
        return program

    def output(self, *words: str, code: int = 0) -> str:
        return self.start(*words).end(code=code)

    def get(self, topic: str, key: str) -> pb.Message:
        return self.client.get(duetime.Key(topic, key)).message

    def make_due(self, topic: str, key: str) -> None:
        """Moves a message to now."""
        answer = self.client.reschedule(duetime.Key(topic, key), timedelta(0)).answer
        equal(answer.outcome, pb.RescheduleResponse.OUTCOME_RESCHEDULED, f"the outcome of moving {key}")

    def pending(self, topic: str) -> list[pb.Message]:
        try:
            return list(self.client.list(pb.ListRequest(topic=topic)))
        except duetime.errors.NotFound:
            return []
