# SPDX-License-Identifier: Apache-2.0
"""What a case is, and what it works with: a client, topics of its own, subscribers, daemons and relays."""

import base64
import collections
import contextlib
import datetime
import itertools
import tempfile
import time
from typing import Any, Callable

from driver import WAIT_SECONDS, CallError, Driver, Pending
from server import Certificates, Daemon, LosingRelay, Relay


class Wrong(Exception):
    """The library did something else than the case says."""


Case = collections.namedtuple("Case", "name run needs")
CASES: list[Case] = []


def case(name: str, needs: str = ""):
    """Registers a case. `needs`: what a library may lack (PROTOCOL.md, `lacks`)."""
    def register(function: Callable[["World"], None]):
        assert all(other.name != name for other in CASES), name
        CASES.append(Case(name, function, needs))
        return function
    return register


# ---- Values

def text(payload: str | bytes) -> str:
    """Bytes as they are in JSON."""
    return base64.b64encode(payload.encode() if isinstance(payload, str) else payload).decode()


def millis(value: str) -> int:
    """A duration ("1.5s") or a timestamp (RFC 3339) of JSON in milliseconds."""
    if value.endswith("s"):
        return round(float(value[:-1]) * 1000)
    whole, _, fraction = value.rstrip("Z").partition(".")
    moment = datetime.datetime.fromisoformat(whole).replace(tzinfo=datetime.timezone.utc)
    return int(moment.timestamp()) * 1000 + int((fraction + "000")[:3])


def stamp(milliseconds: int) -> str:
    """The timestamp in JSON."""
    moment = datetime.datetime.fromtimestamp(milliseconds // 1000, datetime.timezone.utc)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03d}Z"


def now() -> int:
    return time.time_ns() // 1_000_000


def match(actual: Any, expected: Any, path: str = "answer") -> None:
    """Checks JSON of protos. Only the named fields of an object count; an absent field has its default value. A function
    must return True."""
    if isinstance(expected, dict):
        for key, value in expected.items():
            match((actual or {}).get(key), value, f"{path}.{key}")
        return
    if isinstance(expected, list):
        if len(actual or []) != len(expected):
            raise Wrong(f"{path}: {len(actual or [])} items, not {len(expected)}: {actual}")
        for index, value in enumerate(expected):
            match(actual[index], value, f"{path}[{index}]")
        return
    if callable(expected):
        good = expected(actual)
    elif isinstance(expected, bool) or expected is None:
        good = bool(actual) == bool(expected)
    elif isinstance(expected, int):
        good = int(actual or 0) == expected
    else:
        good = (actual or "") == expected
    if not good:
        raise Wrong(f"{path} is {actual!r}, not {expected if not callable(expected) else 'as required'!r}")


def check(good: Any, problem: str) -> None:
    if not good:
        raise Wrong(problem)


def anything(value: Any) -> bool:
    return bool(value)


# ---- The world of one case

class Subscriber:
    """A subscriber in the driver."""

    def __init__(self, client: "Client", name: str, fields: dict[str, Any]):
        self._driver, self._name = client.driver, name
        self._stopped = False
        self.open: set[int] = set()
        self._manual = fields.get("mode", "manual") == "manual"
        self._driver.call("subscriber_start", client=client.name, subscriber=name, **fields)

    def _call_of_handler(self, kind: str, seconds: float) -> dict[str, Any]:
        event = self._driver.next_event(self._name, seconds, kind)
        if event["event"] != kind:
            raise Wrong(f"{self._name}: {event}")
        if self._manual:
            self.open.add(event["n"])
        return event

    def take(self, seconds: float = WAIT_SECONDS) -> dict[str, Any]:
        """The next delivery: its fields, and its number `n`."""
        event = self._call_of_handler("delivery", seconds)
        return event["delivery"] | {"n": event["n"]}

    def take_batch(self, seconds: float = WAIT_SECONDS) -> dict[str, Any]:
        """The next batch: its `deliveries`, and its number `n`."""
        return self._call_of_handler("batch", seconds)

    def ended(self) -> dict[str, Any]:
        """The error that ended the subscriber."""
        event = self._driver.next_event(self._name, WAIT_SECONDS, "end")
        if event["event"] != "ended":
            raise Wrong(f"{self._name}: {event}")
        return event["error"]

    def nothing(self, seconds: float, why: str) -> None:
        event = self._driver.no_event(self._name, seconds)
        check(event is None, f"{why}: {event}")

    def finish(self, delivery: dict[str, Any], kind: str = "ack", **fields: Any) -> None:
        self.open.discard(delivery["n"])
        self._driver.call("subscriber_finish", subscriber=self._name, n=delivery["n"],
                          settlement={"kind": kind} | fields)

    def finish_batch(self, batch: dict[str, Any], settlements: list[dict[str, Any]]) -> None:
        """The handler of the batch returns these, whatever their number is."""
        self.open.discard(batch["n"])
        self._driver.call("subscriber_finish", subscriber=self._name, n=batch["n"], settlements=settlements)

    def counts(self) -> dict[str, int]:
        return self._driver.call("subscriber_counts", subscriber=self._name)

    def wait_counts(self, **at_least: int) -> dict[str, int]:
        counts: dict[str, int] = {}

        def reached() -> bool:
            nonlocal counts
            counts = self.counts()
            return all(counts.get(name, 0) >= value for name, value in at_least.items())
        until(reached, lambda: f"counts {counts}, not {at_least}")
        return counts

    def begin_stop(self, handlers_ms: int = 30_000, confirm_ms: int = 30_000) -> Pending:
        self._stopped = True
        return self._driver.begin("subscriber_stop", subscriber=self._name, handlers_ms=handlers_ms,
                                  confirm_ms=confirm_ms)

    def stop(self, **limits: int) -> bool:
        return self.begin_stop(**limits).result()["clean"]

    def close(self) -> None:
        """Stops it, whatever its handlers do."""
        if not self._stopped:
            pending = self.begin_stop(1000, 1000)
            for n in list(self.open):
                self.finish({"n": n}, "leave")
            # Deliveries that this case did not take.
            while not pending.done():
                event = self._driver.no_event(self._name, 0.05)
                if event is not None and self._driver.next_event(self._name, 1, "event")["event"] != "ended":
                    self.finish(event, "leave")
            pending.result()
        for n in list(self.open):
            self.finish({"n": n}, "leave")


def until(condition: Callable[[], bool], problem: Callable[[], str], seconds: float = WAIT_SECONDS) -> None:
    """Polls what cannot be awaited: the counts of a library or of a server."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise Wrong(problem())
        time.sleep(0.05)


class Client:
    """A client in the driver."""

    def __init__(self, world: "World", driver: Driver, name: str, options: dict[str, Any]):
        self.world, self.driver, self.name = world, driver, name
        self.driver.call("client_open", client=name, **options)

    def begin(self, op: str, **request: Any) -> Pending:
        return self.driver.begin(op, client=self.name, request=request)

    def call_together(self, calls: list[dict[str, Any]]) -> "Group":
        return Group(self, self.world.new_name("group"), calls)

    def __getattr__(self, op: str) -> Callable[..., dict[str, Any]]:
        """client.get_topic(name="t") is the call with that request."""
        return lambda **request: self.begin(op, **request).result()

    def items(self, op: str, limit: int | None = None, **request: Any) -> list[dict[str, Any]]:
        return self.driver.call(op, client=self.name, limit=limit, request=request)["items"]

    def refused(self, code: str, reason: str, op: str, **request: Any) -> dict[str, Any]:
        """The call must fail like this."""
        try:
            answer = self.begin(op, **request).result()
        except CallError as error:
            check(error.code == code and error.reason == reason, f"{error}, not {code} {reason}")
            check(error.error.get("type"), f"{error} has no type")
            return error.error
        raise Wrong(f"{op}: {answer}, not {code} {reason}")

    def make(self, topic: str, payload: str = "p", **fields: Any) -> dict[str, Any]:
        """Schedules a message that is due in an hour, unless the fields say otherwise. Returns the message."""
        if not fields.keys() & {"delay", "deliver_time", "civil_time"}:
            fields["delay"] = "3600s"
        return self.schedule(topic=topic, payload=text(payload), **fields)["message"]

    def make_many(self, topic: str, count: int, **fields: Any) -> list[str]:
        """Schedules messages with the payloads 0, 1, 2 ... in batches, due at once unless the fields say otherwise. Returns
        their ids."""
        if not fields.keys() & {"delay", "deliver_time"}:
            fields["delay"] = "0s"
        ids = []
        for begin in range(0, count, 1000):
            batch = [{"topic": topic, "payload": text(str(i))} | fields
                     for i in range(begin, min(begin + 1000, count))]
            ids += [result["ok"]["message"]["id"] for result in self.schedule_batch(messages=batch)["results"]]
        return ids

    def state(self, message_id: str) -> str:
        return self.get(message_id=message_id)["message"]["state"]

    def wait_state(self, message_id: str, state: str) -> None:
        until(lambda: self.state(message_id) == state, lambda: f"{self.state(message_id)}, not {state}")

    def subscribe(self, topic: str, **fields: Any) -> Subscriber:
        subscriber = Subscriber(self, self.world.new_name("worker"), {"topic": topic} | fields)
        self.world.closing.callback(subscriber.close)
        return subscriber


class World:
    """One run of one case."""

    _numbers = itertools.count(1)

    def __init__(self, name: str, driver: Driver, daemon: Daemon, program: str, folder: str):
        self.name, self.driver, self.daemon = name, driver, daemon
        self._program, self._folder = program, folder
        self.closing = contextlib.ExitStack()
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        """A client of the daemon that all cases share."""
        if self._client is None:
            self._client = self.connect()
        return self._client

    def new_name(self, kind: str = "topic") -> str:
        return f"{kind}.{self.name}.{next(self._numbers)}"

    def connect(self, server: str | None = None, **options: Any) -> Client:
        name = self.new_name("client")
        client = Client(self, self.driver, name, {"server": server or self.daemon.address} | options)
        self.closing.callback(lambda: self.driver.call("client_close", client=name))
        return client

    def client_of_a_new_driver(self) -> Client:
        """A client of the shared daemon in a process of its own, for a case that ends the process."""
        driver = Driver(self.driver.command)
        self.closing.callback(driver.kill)
        return Client(self, driver, self.new_name("client"), {"server": self.daemon.address})

    def own_daemon(self, *flags: str) -> Daemon:
        daemon = Daemon(self._program, tempfile.mkdtemp(dir=self._folder), flags)
        self.closing.callback(daemon.kill)
        return daemon

    def relay(self, target: str, **options: Any) -> Relay:
        relay = Relay(target, **options)
        self.closing.callback(relay.close)
        return relay

    def losing_relay(self) -> LosingRelay:
        relay = LosingRelay(self.daemon.address)
        self.closing.callback(relay.close)
        return relay

    def certificates(self) -> Certificates:
        return Certificates(self._folder)

    def stream(self, client: Client) -> "Stream":
        return Stream(client, self.new_name("stream"))


class Group:
    """Calls that the driver makes at once. `outcomes`: those that have come, by the number of the call."""

    def __init__(self, client: Client, name: str, calls: list[dict[str, Any]]):
        self._driver, self._name = client.driver, name
        self.outcomes: dict[int, dict[str, Any]] = {}
        self.pending = self._driver.begin("call_together", client=client.name, group=name, calls=calls)

    def take(self) -> int:
        """Waits for the next outcome, and returns the number of its call."""
        event = self._driver.next_event(self._name, WAIT_SECONDS, "outcome")
        check(event["number"] not in self.outcomes, f"a second outcome: {event}")
        self.outcomes[event["number"]] = event
        return event["number"]

    def idle(self, seconds: float) -> bool:
        """True if no outcome comes within this time."""
        return self._driver.no_event(self._name, seconds) is None


class Stream:
    """A stream of messages to schedule, in the driver."""

    def __init__(self, client: Client, name: str):
        self._driver, self._name = client.driver, name
        self._driver.call("stream_open", client=client.name, stream=name)
        self._results = 0

    def send(self, messages: list[dict[str, Any]]) -> None:
        self._driver.call("stream_send", stream=self._name, messages=messages)

    def result(self) -> dict[str, Any]:
        """The next result. They come in the order of the messages."""
        event = self._driver.next_event(self._name, WAIT_SECONDS, "result")
        check(event["number"] == self._results, f"result {event['number']}, not {self._results}")
        self._results += 1
        return event

    def finish(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The answer, and the results that were not taken yet."""
        end = self._driver.call("stream_finish", stream=self._name)
        return end, [self.result() for _ in range(end["answered"] - self._results)]
