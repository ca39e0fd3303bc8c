# SPDX-License-Identifier: Apache-2.0
"""A server with a test clock, to test one's own code: `TestServer`. `duetime.testing.fixtures` has a fixture for pytest."""

from __future__ import annotations

import collections
import os
import queue
import re
import shutil
import subprocess
import tempfile
import threading
import time
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Self, TypeVar

from google.protobuf.message import Message

from duetime import errors, pb
from duetime.client import Client, Subscriber
from duetime.connection import Options
from duetime.messages import duration, timestamp
from duetime.subscriber import SyncHandler

_Response = TypeVar("_Response", bound=Message)

# Ends the server and removes its directory ($0) when stop() closes the pipe, or when the process of the test has ended, however
# that was. Signals of the terminal are for the test, which then stops the server.
_KEEPER = """
trap '' HUP INT TERM
"$@" & server=$!
exec >/dev/null 2>&1
read -r _
kill -9 $server
wait $server
rm -rf "$0"
"""

_READY_MAX = timedelta(seconds=30)
_POLL = 0.002  # seconds

#: Where the clock of a test server starts. The same in each run, so that a test has the same zone changes and weekdays.
START = datetime(2030, 1, 1, tzinfo=UTC)

#: How long a move of the clock may take, on the machine's clock.
TIMEOUT = timedelta(seconds=10)

#: The hand-outs that a move of the clock lists.
_HAND_OUTS_MAX = 10_000


def _binary(given: str | os.PathLike[str] | None) -> str:
    name = os.fspath(given) if given is not None else os.environ.get("DUETIMED") or "duetimed"
    found = shutil.which(name)
    if found is None:
        raise errors.FailedPrecondition(
            f"there is no program {name!r}: a test server needs duetimed, as the argument `binary` of TestServer.start(), in the "
            "environment variable DUETIMED, or on PATH")
    return found


class Clock:
    """The clock of a test server. It stands still, and moves when a test says so."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._hand_outs: list[pb.HandOut] = []

    def _call(self, name: str, request: Message, kind: type[_Response], extra: timedelta = timedelta(0)) -> _Response:
        connection = self._client._inner._connection
        return self._client._loop.run(connection.call(name, request, kind, extra=extra.total_seconds()))[0]

    def now(self) -> datetime:
        """Server time, in UTC."""
        return self._call("GetClock", pb.GetClockRequest(), pb.GetClockResponse).clock.time.ToDatetime(UTC)

    def advance(self, by: timedelta = timedelta(0), *, until_idle: bool = True, timeout: timedelta = TIMEOUT,
                **units: float) -> pb.Advanced:
        """Moves the clock: advance(hours=48), advance(timedelta(days=2)). Each message on the way is handed out at its own time.
        With `until_idle` the clock waits there until subscribers have settled all that they have. Returns what happened. Raises
        DeadlineExceeded, with the time at which the clock stands, if subscribers or the server need longer than `timeout`."""
        return self._advance(pb.AdvanceRequest(by=duration(by + timedelta(**units))), until_idle, timeout)

    def advance_to(self, time: datetime, *, until_idle: bool = True, timeout: timedelta = TIMEOUT) -> pb.Advanced:
        """Moves the clock to this time, as advance()."""
        return self._advance(pb.AdvanceRequest(to=timestamp(time)), until_idle, timeout)

    def next(self, *, until: datetime | None = None, until_idle: bool = True, timeout: timedelta = TIMEOUT) -> pb.Advanced:
        """Moves the clock to the next time at which something happens to a message, as advance(). If nothing does until then,
        `stop` of the answer is STOP_NOTHING."""
        request = pb.AdvanceToNextRequest(limits=_limits(until_idle, timeout))
        if until is not None:
            request.until.CopyFrom(timestamp(until))
        return self._moved(self._call("AdvanceToNext", request, pb.AdvanceToNextResponse, timeout).advanced)

    def _advance(self, request: pb.AdvanceRequest, until_idle: bool, timeout: timedelta) -> pb.Advanced:
        request.limits.CopyFrom(_limits(until_idle, timeout))
        return self._moved(self._call("Advance", request, pb.AdvanceResponse, timeout).advanced)

    def _moved(self, advanced: pb.Advanced) -> pb.Advanced:
        self._hand_outs += advanced.hand_outs
        stands = f"the clock stands at {advanced.clock.time.ToJsonString()}, because"
        if advanced.stop == pb.Advanced.STOP_SUBSCRIBERS:
            raise errors.DeadlineExceeded(f"{stands} subscribers have messages whose handlers run or wait")
        if advanced.stop == pb.Advanced.STOP_TIMEOUT:
            raise errors.DeadlineExceeded(f"{stands} the time was over before the server had done all")
        return advanced


def _limits(until_idle: bool, timeout: timedelta) -> pb.AdvanceLimits:
    return pb.AdvanceLimits(until_idle=until_idle, timeout=duration(timeout), hand_outs_max=_HAND_OUTS_MAX)


class TestServer:
    """A server of its own for a test, with a clock that stands still: `with TestServer.start() as server:`. It is duetimed
    itself, over an empty directory that stop() removes. It ends with the process of the test, too."""

    __test__ = False  # It is no test, whatever pytest thinks of its name.

    @classmethod
    def start(cls, binary: str | os.PathLike[str] | None = None, *, at: datetime = START) -> Self:
        """Starts a server at the time `at` of its clock. `binary` is the program duetimed; None: that of the environment variable
        DUETIMED, or on PATH. Raises FailedPrecondition if there is none, or it does not start."""
        return cls(_binary(binary), at)

    def __init__(self, binary: str, at: datetime) -> None:
        folder = tempfile.mkdtemp(prefix="duetime-test-")
        command = [binary, "--init", f"--data-dir={folder}/data", "--listen=127.0.0.1:0", "--metrics-listen=",
                   "--disk-free-min-bytes=0", "--write-buffer-bytes=4MiB",
                   f"--test-clock={timestamp(at).ToJsonString()}", "--test-clock-frozen"]
        self._process = subprocess.Popen(["sh", "-c", _KEEPER, folder, *command], stdin=subprocess.PIPE,
                                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace")
        self._log: collections.deque[str] = collections.deque(maxlen=1_000)
        self._clients: list[Client] = []
        ready: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read_log, args=(ready,), name="duetime-log", daemon=True)
        self._reader.start()
        try:
            address = ready.get(timeout=_READY_MAX.total_seconds())
        except queue.Empty:
            address = None
        if address is None:
            self.stop()
            raise errors.FailedPrecondition(f"{binary} did not start:\n{self.log}")
        #: host:port.
        self.address = address
        self._control = self.client()
        self.clock = Clock(self._control)

    def _read_log(self, ready: queue.SimpleQueue[str | None]) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            for line in lines:
                self._log.append(line)
                if match := re.search(r"\] ready: .* grpc=(\S+)", line):
                    ready.put(match[1])
        ready.put(None)

    def stop(self) -> None:
        """Ends the server and its clients at once, and removes its directory. Idempotent."""
        for client in self._clients:
            client.close()
        self._clients = []
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._reader.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    @property
    def log(self) -> str:
        """The last lines of the server's log."""
        return "".join(self._log)

    def client(self, **options: Any) -> Client:
        """A client of the server, with these options of Options. stop() closes it. For asyncio:
        AsyncClient(Options(server=server.address))."""
        client = Client(Options(server=self.address, **options))
        self._clients.append(client)
        return client

    def subscribe(self, topic: str, handler: SyncHandler, **options: Any) -> Subscriber:
        """Starts a subscriber, as Client.subscribe, and waits until the server has it."""
        subscriber = self.client().subscribe(topic, handler, **options)
        self.await_subscribers(topic)
        return subscriber

    def await_subscribers(self, topic: str, count: int = 1, *, timeout: timedelta = TIMEOUT) -> None:
        """Waits until the topic has so many subscribers. A program's subscriber connects in the background; without it, a move
        of the clock hands out nothing. Raises DeadlineExceeded."""
        end = time.monotonic() + timeout.total_seconds()
        while (there := sum(1 for _ in self._control.list_streams(pb.ListStreamsRequest(topic=topic)))) < count:
            if time.monotonic() > end:
                raise errors.DeadlineExceeded(f"the topic {topic} has {there} subscribers, and not {count}")
            time.sleep(_POLL)

    def idle(self, *, timeout: timedelta = TIMEOUT) -> None:
        """Waits until subscribers have settled all that is due. The clock stands still, but for a millisecond if just then
        something is due. Raises DeadlineExceeded."""
        self.clock.next(until=self.clock.now() + timedelta(milliseconds=1), timeout=timeout)

    def deliveries(self, topic: str) -> list[pb.HandOut]:
        """What the server handed out during moves of the clock, and idle(), in order: time, subscription, message_id, attempt.
        What a subscriber got in between is not in it, and of one move the first 10,000."""
        return [one for one in self.clock._hand_outs if one.topic == topic]
