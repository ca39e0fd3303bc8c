# SPDX-License-Identifier: Apache-2.0
"""Which leases to extend, and when. No clock and no task: the caller passes the time."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Sequence

from google.protobuf.duration_pb2 import Duration

from duetime import pb


@dataclasses.dataclass(slots=True, eq=False)
class Lease:
    """A delivery, and what the subscriber knows of its lease."""

    delivery: pb.Delivery
    frame: Frame
    #: The number of the stream that brought it.
    stream: int
    #: It is settled or skipped.
    released: bool = False
    #: The server refused to extend it.
    lost: bool = False


@dataclasses.dataclass(slots=True, eq=False)
class Frame:
    """The deliveries of one response."""

    received: float
    leases: list[Lease] = dataclasses.field(default_factory=list)
    #: How many are neither settled nor skipped.
    held: int = 0
    extend_at: float = 0
    #: The leases before this one are in a request for this extension.
    extend_from: int = 0


class LeaseKeeper:
    """Extends the leases of unsettled deliveries whenever a third of a lease has passed, so that a lost request or a slow
    server does not end one. It stops when the delivery is settled, its lease is lost, or `keep_max` has passed."""

    def __init__(self, keep_max: float) -> None:
        self._keep_max = keep_max
        self._duration = Duration()
        #: Seconds; 0: no lease of this stream is extended.
        self._interval = 0.0
        # Those with unsettled deliveries, in the order of extend_at, because each is appended with the same distance from now.
        self._frames: OrderedDict[Frame, None] = OrderedDict()
        # Extensions that the server has not answered.
        self._asked: dict[str, Lease] = {}

    def start(self, duration: Duration) -> None:
        """The server opened a stream with leases of this length."""
        self._duration.CopyFrom(duration)
        interval = (duration.seconds + duration.nanos / 1e9) / 3
        self._interval = interval if interval < self._keep_max else 0.0

    def clear(self) -> None:
        """The stream and its leases have ended."""
        self._frames.clear()
        self._asked.clear()
        self._interval = 0.0

    def add(self, deliveries: Sequence[pb.Delivery], stream: int, now: float) -> list[Lease]:
        frame = Frame(received=now, held=len(deliveries))
        frame.leases = [Lease(delivery, frame, stream) for delivery in deliveries]
        if self._interval > 0:
            self._append(frame, now + self._interval)
        return frame.leases

    def _append(self, frame: Frame, extend_at: float) -> None:
        if frame.held > 0 and extend_at < frame.received + self._keep_max:
            frame.extend_at, frame.extend_from = extend_at, 0
            self._frames[frame] = None

    def release(self, lease: Lease) -> str:
        """The delivery is settled or will not be handled. Returns its token. REQUIRES: once for each lease."""
        assert not lease.released
        lease.released = True
        lease.frame.held -= 1
        if lease.frame.held == 0:
            self._frames.pop(lease.frame, None)
        return lease.delivery.lease_token

    def collect(self, now: float, room: int, request: pb.SubscribeRequest) -> None:
        """Adds at most `room` leases that are to be extended now or soon after. The others stay due."""
        until = now + self._interval / 4
        while (frame := self._first()) is not None and frame.extend_at <= until:
            while frame.extend_from < len(frame.leases):
                lease = frame.leases[frame.extend_from]
                if not lease.released and not lease.lost:
                    if room == 0:
                        return
                    room -= 1
                    token = lease.delivery.lease_token
                    request.extend.append(pb.ExtendLease(lease_token=token, duration=self._duration))
                    self._asked[token] = lease
                frame.extend_from += 1
            del self._frames[frame]
            self._append(frame, now + self._interval)

    def next_collect(self, now: float) -> float | None:
        """When to call collect; None: no lease of this stream is extended."""
        if self._interval == 0:
            return None
        frame = self._first()
        return frame.extend_at if frame is not None else now + self._interval

    def _first(self) -> Frame | None:
        return next(iter(self._frames), None)

    def on_extended(self, token: str) -> None:
        self._asked.pop(token, None)

    def on_refused(self, token: str) -> bool:
        """True if the server refused an extension, which is then not requested again."""
        lease = self._asked.pop(token, None)
        if lease is None:
            return False
        lease.lost = True
        return True
