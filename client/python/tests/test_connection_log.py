# SPDX-License-Identifier: Apache-2.0
"""What a subscriber says of its connection."""

from __future__ import annotations

import logging
import re
import socket
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import grpc
import pytest
from fake_server import fake_server

from duetime import Backoff, Client, Options, Settlement, errors, pb
from duetime.connection_log import ConnectionLog

REFUSED = errors.Unavailable("connect: Connection refused")
RESET = errors.Unavailable("Connection reset by peer")
FULL = errors.ResourceExhausted("too many streams", reason="STREAM_LIMIT")

CONNECTED = "INFO the subscriber of 't' is connected to s"
CANNOT = "WARNING the subscriber of 't' cannot reach s, and tries again: UNAVAILABLE: connect: Connection refused"
LOST = "WARNING the subscriber of 't' has lost s, and tries again: UNAVAILABLE: Connection reset by peer"


def back(seconds: int) -> str:
    return f"INFO the subscriber of 't' is back: connected to s after {seconds} s"


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [f"{one.levelname} {one.getMessage()}" for one in caplog.records if one.name == "duetime"]


@pytest.mark.parametrize(("events", "expected"), [
    ([(0, "opens")], [CONNECTED]),
    ([(0, REFUSED), (1, REFUSED), (2, REFUSED), (3, "opens")], [CANNOT, back(3)]),
    # A restart of the server.
    ([(0, "opens"), (90, RESET), (91, REFUSED), (92, REFUSED), (95, "opens")], [CONNECTED, LOST, CANNOT, back(5)]),
    # Ever more rarely, while nothing changes: after 1, 3, 7 minutes.
    ([(second, REFUSED) for second in range(500)], [CANNOT] * 4),
    # At most once an hour.
    ([(60 * minute, REFUSED) for minute in range(600)], [CANNOT] * 15),
    # The same changes again and again.
    ([event for second in range(50) for event in ((second, "opens"), (second + 0.5, RESET))], [CONNECTED, LOST, back(0)]),
    # A stream that lived for a minute makes the next trouble a new one.
    ([event for minute in range(0, 120, 2) for event in ((60 * minute, "opens"), (60 * minute + 60, RESET))],
     [CONNECTED] + [LOST, back(60)] * 59 + [LOST]),
    # Another cause.
    ([(0, REFUSED), (1, FULL), (2, REFUSED), (3, FULL)], [CANNOT, re.compile("cannot reach s.* STREAM_LIMIT: too many streams")]),
    # Without an error: a host that does not answer, a cell without a leader.
    ([(5, "waits"), (70, "waits")], [re.compile("cannot reach s.* for 5 s")] * 2),
    ([(0, "opens"), (5, "waits")], [CONNECTED]),
    ([(0, "opens"), (90, None)], [CONNECTED, re.compile("has lost s, .* the server ended the stream")]),
    ([(0, "refused")], [re.compile("^ERROR .* ends, because s refused it: NOT_FOUND SUBSCRIPTION_NOT_FOUND")]),
])
def test_each_change_is_logged_once_and_then_ever_more_rarely(
        caplog: pytest.LogCaptureFixture, events: list[tuple[float, Any]], expected: list[Any]) -> None:
    caplog.set_level(logging.INFO)
    log = ConnectionLog("s", "t")
    for now, event in events:
        if event == "opens":
            log.opened(now)
        elif event == "waits":
            log.waits(now, 5)
        elif event == "refused":
            log.refused(errors.NotFound("deleted", reason="SUBSCRIPTION_NOT_FOUND"))
        else:
            log.ended(now, event)
    got = lines(caplog)
    assert len(got) == len(expected), got
    for line, one in zip(got, expected, strict=True):
        assert one.search(line) if isinstance(one, re.Pattern) else one == line


def test_a_subscriber_says_what_becomes_of_its_connection(caplog: pytest.LogCaptureFixture) -> None:
    def subscribe(name: str, requests: Any, context: Any) -> Iterator[pb.SubscribeResponse]:
        if refuse:
            context.abort(grpc.StatusCode.NOT_FOUND, "deleted")
        yield pb.SubscribeResponse(started=pb.SubscribeStarted())
        for _ in requests:
            pass

    def wait_for(text: str) -> str:
        end = time.monotonic() + 20
        while time.monotonic() < end:
            for line in lines(caplog):
                if text in line:
                    return line
            time.sleep(0.01)
        raise AssertionError(f"{text!r} is not in {lines(caplog)}")

    refuse = False
    caplog.set_level(logging.INFO)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    backoff = Backoff(timedelta(milliseconds=50), timedelta(milliseconds=50))
    with Client(Options(server=address)) as client:
        subscriber = client.subscribe("t", lambda _: Settlement.ack(), backoff=backoff)
        assert f"cannot reach {address}" in (line := wait_for("cannot reach")) and "refused" in line
        with fake_server(subscribe, address):
            wait_for("back: connected to")
        wait_for("has lost")
        refuse = True
        with fake_server(subscribe, address):
            wait_for("refused it: NOT_FOUND: deleted")
        with pytest.raises(errors.NotFound):
            subscriber.wait()
