# SPDX-License-Identifier: Apache-2.0
"""What to deliver and when, which message a call means, and how a handler settles a delivery."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from duetime import pb


class LocalTime(NamedTuple):
    """A local time of a zone: LocalTime("2026-11-21T09:00", "Europe/Berlin"). The server keeps both."""

    time: str
    zone: str


#: When to deliver: a delay from the arrival at the server, a moment (with a time zone), or a local time.
When = timedelta | datetime | LocalTime


class Key(NamedTuple):
    """A message by its topic and key."""

    topic: str
    key: str


#: Which message a call means: its id, or its Key.
Target = str | Key


def duration(value: timedelta) -> Duration:
    proto = Duration()
    proto.FromTimedelta(value)
    return proto


def timestamp(value: datetime) -> Timestamp:
    if value.tzinfo is None:
        raise ValueError("a datetime without a time zone could mean several moments")
    proto = Timestamp()
    proto.FromDatetime(value)
    return proto


def set_when(request: pb.ScheduleRequest | pb.RescheduleRequest, when: When) -> None:
    if isinstance(when, timedelta):
        request.delay.CopyFrom(duration(when))
    elif isinstance(when, datetime):
        request.deliver_time.CopyFrom(timestamp(when))
    else:
        _require_when(when)
        request.civil_time.local, request.civil_time.time_zone = when


def _require_when(when: object) -> None:
    if not isinstance(when, timedelta | datetime) and not _are_texts(when):
        raise TypeError("the time of a message is a timedelta, a datetime with a time zone, or a LocalTime, not "
                        f"{_shown(when)}")


def _are_texts(value: object) -> bool:
    """True for a LocalTime, a Key, and a tuple like them."""
    return isinstance(value, tuple) and len(value) == 2 and all(isinstance(one, str) for one in value)


def _shown(value: object) -> str:
    return f"{value!r:.80} ({type(value).__name__})"


def set_target(request: pb.CancelRequest | pb.RescheduleRequest | pb.GetRequest | pb.ExplainRequest, target: Target) -> None:
    if isinstance(target, str):
        request.message_id = target
    elif _are_texts(target):
        request.key.topic, request.key.key = target
    else:
        raise TypeError(f"a message is meant by its id, a text, or by Key(topic, key), not by {_shown(target)}")


@dataclasses.dataclass(slots=True, kw_only=True)
class _Options:
    #: The producer's name for the message: calls find, move, replace and cancel it by this.
    key: str = ""
    #: What to do if the key has a pending message, for example pb.ScheduleRequest.ON_CONFLICT_REPLACE. Default: refuse other
    #: content. For a program that may replay: ON_CONFLICT_ONCE.
    on_conflict: pb.ScheduleRequest.OnConflict = pb.ScheduleRequest.ON_CONFLICT_UNSPECIFIED
    #: With ON_CONFLICT_PUSH_BACK: the longest total delay.
    max_wait: timedelta | None = None
    #: Replace a message, but never create one.
    only_if_exists: bool = False
    #: Makes a repeat safe for an hour. Empty: schedule chooses a random one.
    request_id: str = ""
    #: Check and decide as usual, but change nothing.
    validate_only: bool = False
    attributes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    #: First deliveries of messages with the same ordering key start in order.
    ordering_key: str = ""
    #: How long the message is worth delivering after its time, or the moment until which it is.
    lifetime: timedelta | datetime | None = None
    #: What happens after the lifetime. Default: deliver.
    late_policy: pb.Message.LatePolicy = pb.Message.LATE_POLICY_UNSPECIFIED
    #: Deliver at a point within this after the time.
    spread: timedelta | None = None


@dataclasses.dataclass(slots=True)
class NewMessage(_Options):
    """A message to schedule. The topic and the time are required; ScheduleRequest in messages.proto documents the bounds."""

    topic: str
    payload: bytes | str = b""
    #: None: the server refuses the message, with DELIVER_TIME_MISSING. timedelta(0) is due at once.
    when: When | None = None

    def __post_init__(self) -> None:
        # Fails here, where the mistake is, and not where the message is sent.
        if self.when is not None:
            _require_when(self.when)
        if not isinstance(self.payload, bytes | str):
            raise TypeError(f"the payload is bytes, or a text that is sent as UTF-8, not {_shown(self.payload)}")

    def proto(self) -> pb.ScheduleRequest:
        request = pb.ScheduleRequest(
            topic=self.topic, payload=self.payload.encode() if isinstance(self.payload, str) else self.payload,
            key=self.key, on_conflict=self.on_conflict, only_if_exists=self.only_if_exists, request_id=self.request_id,
            validate_only=self.validate_only, attributes=self.attributes, labels=self.labels,
            ordering_key=self.ordering_key, late_policy=self.late_policy)
        if self.when is not None:
            set_when(request, self.when)
        if self.max_wait is not None:
            request.max_wait.CopyFrom(duration(self.max_wait))
        if self.spread is not None:
            request.spread.CopyFrom(duration(self.spread))
        if isinstance(self.lifetime, datetime):
            request.expire_time.CopyFrom(timestamp(self.lifetime))
        elif self.lifetime is not None:
            request.ttl.CopyFrom(duration(self.lifetime))
        return request


def schedule_request(message: NewMessage | pb.ScheduleRequest, *, named: bool) -> pb.ScheduleRequest:
    """The request, which the caller may change. `named`: with a random request id if it has none."""
    if not isinstance(message, NewMessage | pb.ScheduleRequest):
        raise TypeError(f"what is scheduled is a NewMessage or a ScheduleRequest, not a {type(message).__name__}")
    request = pb.ScheduleRequest()
    request.CopyFrom(message.proto() if isinstance(message, NewMessage) else message)
    if named and not request.request_id and not request.validate_only:  # which changes nothing
        request.request_id = secrets.token_hex(16)
    return request


#: The longest reason that the server accepts, in bytes. The library cuts longer ones.
_REASON_MAX = 255


def _fitting(reason: str) -> str:
    return reason.encode("utf-8", "replace")[:_REASON_MAX].decode("utf-8", "ignore")


@dataclasses.dataclass(frozen=True, slots=True)
class Settlement:
    """How a handler settles a delivery. Make it with the functions below."""

    kind: Literal["ack", "nack", "dead_letter", "release", "leave"]
    delay: timedelta | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        # Fails here, within the handler, and not where the request is made.
        if not isinstance(self.reason, str):
            raise TypeError(f"the reason must be a text, not a {type(self.reason).__name__}")
        if self.delay is not None:
            if not isinstance(self.delay, timedelta):
                raise TypeError(f"the delay must be a timedelta, not a {type(self.delay).__name__}")
            duration(self.delay)

    @staticmethod
    def ack() -> Settlement:
        """The message is done."""
        return _ACK

    @staticmethod
    def nack(reason: str = "", *, delay: timedelta | None = None) -> Settlement:
        """Deliver it again: after the delay, or by the retry policy of the subscription."""
        return Settlement("nack", delay, reason)

    @staticmethod
    def dead_letter(reason: str = "") -> Settlement:
        """Never deliver it again, and keep it as a dead letter."""
        return Settlement("dead_letter", None, reason)

    @staticmethod
    def release(*, delay: timedelta | None = None) -> Settlement:
        """Give it back as if the handler had not got it: no attempt has failed."""
        return Settlement("release", delay)

    @staticmethod
    def leave() -> Settlement:
        """Settle nothing: the message keeps its lease until that or the stream ends."""
        return Settlement("leave")

    def add_to(self, request: pb.SubscribeRequest | pb.SettleRequest, token: str) -> None:
        """Adds the settlement of the lease with this token. ValueError for leave(), which settles nothing."""
        if self.kind == "leave":
            raise ValueError("leave() settles nothing")
        # Filled in place, because append() copies.
        settlement = request.settlements.add()
        settlement.lease_token = token
        if self.kind == "ack":
            return
        delay = None if self.delay is None else duration(self.delay)
        if self.kind == "nack":
            settlement.nack.CopyFrom(pb.Nack(delay=delay, reason=_fitting(self.reason)))
        elif self.kind == "dead_letter":
            settlement.dead_letter.CopyFrom(pb.DeadLetterLease(reason=_fitting(self.reason)))
        elif self.kind == "release":
            settlement.release.CopyFrom(pb.ReleaseLease(delay=delay))


_ACK = Settlement("ack")
