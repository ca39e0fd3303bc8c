# SPDX-License-Identifier: Apache-2.0
"""Connections, repeats and waits of the library."""

from __future__ import annotations

import asyncio
import dataclasses
import random
import re
import time
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any, TypeVar

import grpc
import grpc.aio
from google.protobuf import message_factory
from google.protobuf.message import Message

from duetime import cell, errors, fork
from duetime.gatherer import FIELDS, Gatherer, NotTakenError
from duetime.retry_budget import RetryBudget
from duetime.v1 import admin_pb2, call_pb2, messages_pb2, test_clock_pb2

_Response = TypeVar("_Response", bound=Message)

# The server's configuration sets the limits of messages and batches. A limit here would refuse answers and deliveries that
# the server allows, and a refused delivery ends its stream each time. gRPC's pauses between attempts to connect would grow
# to 2 minutes; Backoff decides when to try. The proxies of the environment are meant for the web.
_CHANNEL_OPTIONS: list[tuple[str, Any]] = [
    ("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.min_reconnect_backoff_ms", 5_000), ("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1),
]


# Seconds after which a call without a token of the budget looks for one again. It must not miss those that others give back.
_TOKEN_PAUSE = 0.1

# Errors with which no server that works has answered.
_IN_VAIN = (errors.Unavailable, errors.DeadlineExceeded, errors.Cancelled)

# The longest time of a call, so that gRPC's clock does not overflow.
_SECONDS_MAX = 365 * 86_400


@dataclasses.dataclass(frozen=True, slots=True)
class Backoff:
    """Waits before another try. The n-th is random, between half and the whole of its bound, which is at least 50 ms."""

    initial: timedelta = timedelta(milliseconds=100)
    maximum: timedelta = timedelta(seconds=5)
    multiplier: float = 2.0


#: The least bound of a wait, in seconds: a server that is down must not cost the client's machine a core.
_BOUND_MIN = 0.05


class Waits:
    def __init__(self, options: Backoff) -> None:
        self._options = options
        self._bound = 0.0
        self.reset()

    def next(self, requested: timedelta | None) -> float:
        """Seconds to wait: at least what the server requests."""
        wait = self._bound * random.uniform(0.5, 1)
        longer = min(self._bound * max(self._options.multiplier, 1), self._options.maximum.total_seconds())
        self._bound = max(longer, _BOUND_MIN)
        return wait + (requested.total_seconds() if requested else 0)

    def reset(self) -> None:
        self._bound = max(self._options.initial.total_seconds(), _BOUND_MIN)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a client needs to know of its server. The certificates are PEM."""

    #: host:port, or unix:/path. Several, "host:port,host:port", are the members of a cell: calls, streams and subscribers go
    #: to the member that leads.
    server: str = "127.0.0.1:7788"
    #: Use TLS, and trust these certificates (None: those of the system, if tls or a certificate is set).
    tls_ca: bytes | None = None
    #: The client's own certificate and its key: both or neither.
    tls_cert: bytes | None = None
    tls_key: bytes | None = None
    tls: bool = False
    #: Sent with each call as "authorization: Bearer TOKEN". Requires TLS.
    token: str | None = None
    #: Limits each call, with its repeats.
    timeout: timedelta = timedelta(seconds=10)
    #: The most tries of a call that may be repeated. 0: only the timeout ends the tries.
    attempts_max: int = 0
    backoff: Backoff = Backoff()
    #: Make each schedule, cancel, reschedule and get a call of its own. By default concurrent ones share a stream, which costs
    #: client and server less; each still has its own deadline, error and repeats.
    separate_calls: bool = False
    #: Returns the W3C trace context of a call, which a message keeps: the headers traceparent and tracestate. Called once for
    #: each try, in the caller's context (contextvars). It must not raise.
    trace_context: Callable[[], tuple[str, str]] | None = None


def _repeat_of(method: Any) -> call_pb2.CallRepeat:
    repeat: call_pb2.CallRepeat = method.GetOptions().Extensions[call_pb2.call].repeat
    return repeat


# Each method's path, the classes of its request and response, and what the protos say of a repeat.
_METHODS = {name: (f"/{service.full_name}/{name}", message_factory.GetMessageClass(method.input_type),
                   message_factory.GetMessageClass(method.output_type), _repeat_of(method))
            for service in (messages_pb2.DESCRIPTOR.services_by_name["Messages"],
                            admin_pb2.DESCRIPTOR.services_by_name["Admin"],
                            test_clock_pb2.DESCRIPTOR.services_by_name["TestClock"])
            for name, method in service.methods_by_name.items()}


class Connection:
    """A channel to each server, and how to call the server, or the one that leads. REQUIRES: used on one event loop only."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._closed = False
        self._budget = RetryBudget(time.monotonic())
        if (options.tls_cert is None) != (options.tls_key is None):
            raise errors.InvalidArgument("a TLS certificate and its key go together: one is missing")
        for name in ("tls_ca", "tls_cert", "tls_key"):
            pem = getattr(options, name)
            if pem is not None and (not isinstance(pem, bytes) or b"-----BEGIN " not in pem):
                raise errors.InvalidArgument(f"{name} is no PEM: it takes the content of a file, as bytes")
        secure = options.tls or options.tls_ca is not None or options.tls_cert is not None
        if options.token is not None and not secure:
            raise errors.InvalidArgument("a token requires TLS")
        if options.token is not None and not re.fullmatch(r"[!-~]+", options.token):
            raise errors.InvalidArgument("a token is printable ASCII without spaces")
        self._secure = secure
        self._metadata = (("authorization", f"Bearer {options.token}"),) if options.token is not None else ()
        # The methods that were called, for each channel.
        self._unary: dict[tuple[grpc.aio.Channel, str], Any] = {}
        servers = [server.strip() for server in options.server.split(",")]
        channel_options = _CHANNEL_OPTIONS
        if len(servers) > 1:
            channel_options = _CHANNEL_OPTIONS + cell.CHANNEL_OPTIONS
            if not all(re.fullmatch(r".+:\d+", server) for server in servers):
                raise errors.InvalidArgument("each address of several must be host:port")
        fork.begin()
        if secure:
            credentials = grpc.ssl_channel_credentials(options.tls_ca, options.tls_key, options.tls_cert)
            self._channels = [grpc.aio.secure_channel(server, credentials, channel_options) for server in servers]
        else:
            self._channels = [grpc.aio.insecure_channel(server, channel_options) for server in servers]
        self._cell = cell.Cell(self._channels) if len(servers) > 1 else None
        self._gatherers = {} if options.separate_calls else {channel: self._gatherer(channel) for channel in self._channels}

    def _gatherer(self, channel: grpc.aio.Channel) -> Gatherer:
        return Gatherer(lambda: self._open_stream(channel, "CallStream"), self.failure)

    async def close(self) -> None:
        self._closed = True
        if fork.happened():
            return
        if self._cell is not None:
            self._cell.close()
        for gatherer in self._gatherers.values():
            gatherer.close()
        for channel in self._channels:
            await channel.close()

    def require_open(self) -> None:
        fork.require_none()
        if self._closed:
            raise errors.FailedPrecondition("the client is closed")

    def stream(self, name: str) -> Any:
        """Opens a stream in both directions."""
        self.require_open()
        if self._cell is None:
            return self._open_stream(self._channels[0], name)
        return cell.LeaderStream(self._cell, lambda channel: self._open_stream(channel, name))

    def _open_stream(self, channel: grpc.aio.Channel, name: str) -> Any:
        path, _, response, _ = _METHODS[name]
        return channel.stream_stream(path, request_serializer=_serialize, response_deserializer=response.FromString)(
            metadata=self._metadata)

    def failure(self, error: grpc.RpcError) -> errors.DuetimeError:
        """The error, which says it if only one of client and server uses TLS."""
        failure = errors.from_rpc(error)
        if not failure.message.startswith("failed to connect"):
            return failure
        hint = ""
        if self._secure and "WRONG_VERSION_NUMBER" in failure.message:
            hint = "this client uses TLS, and the server does not"
        elif not self._secure and re.search("Socket closed|Connection reset", failure.message):
            hint = "the server closed the connection before it answered, as a server with TLS does; this client uses no TLS"
        return type(failure)(f"{hint}: {failure.message}") if hint else failure

    def refused_by_standby(self, error: errors.DuetimeError | None) -> bool:
        """True if another member leads. The call changed nothing, so any call may be made again."""
        return self._cell is not None and error is not None and error.reason == "NOT_LEADER"

    async def _channel(self, end: float) -> grpc.aio.Channel:
        """The channel to the server, or to the one that leads."""
        if self._cell is None:
            return self._channels[0]
        try:
            async with asyncio.timeout(end - time.monotonic()):
                return await self._cell.leader()
        except TimeoutError:
            raise errors.DeadlineExceeded("no member of the cell led before the deadline") from None

    def _unary_method(self, channel: grpc.aio.Channel, name: str) -> Any:
        method = self._unary.get((channel, name))
        if method is None:
            path, _, response, _ = _METHODS[name]
            method = self._unary[channel, name] = channel.unary_unary(path, request_serializer=_serialize,
                                                                      response_deserializer=response.FromString)
        return method

    async def _try(self, name: str, request: Message, end: float, *, may_repeat: bool) -> Any:
        """Makes the call once, on the stream that it shares with others or by itself."""
        channel = await self._channel(end)
        trace = ("", "") if self.options.trace_context is None else self.options.trace_context()
        gatherer = self._gatherers.get(channel) if name in FIELDS else None
        stream = None
        if gatherer is not None:
            answer = await gatherer.call(name, request, end, trace, may_repeat=may_repeat)
            if answer is not None:
                return answer
            stream = gatherer.stream()
        headers = tuple((key, value) for key, value in zip(("traceparent", "tracestate"), trace, strict=True) if value)
        try:
            answer = await self._unary_method(channel, name)(request, timeout=max(end - time.monotonic(), 0.001),
                                                             metadata=self._metadata + headers)
        except grpc.aio.AioRpcError as error:
            raise self.failure(error) from None
        if gatherer is not None:
            gatherer.on_separate_answer(stream)
        return answer

    async def call(self, name: str, request: Message, kind: type[_Response], *, repeat: bool = True,
                   extra: float = 0) -> tuple[_Response, int]:
        """Calls until success, an error that forbids a repeat, or the end of the time. Returns the number of tries, too,
        without those that a standby refused."""
        self.require_open()
        require_type(name, request)
        if self.options.timeout <= timedelta(0):
            raise errors.DeadlineExceeded("the timeout of the call is not positive")
        end = time.monotonic() + min(self.options.timeout.total_seconds() + extra, _SECONDS_MAX)
        may_repeat = repeat and _may_repeat(name, request) and self.options.attempts_max != 1
        waits = Waits(self.options.backoff)
        tries = 0
        took_token = False
        self._budget.begin_call(time.monotonic())
        while True:
            tries += 1
            try:
                answer = await self._try(name, request, end, may_repeat=may_repeat)
                assert isinstance(answer, kind)
                if took_token:
                    self._budget.give_back(time.monotonic())
                return answer, tries
            except NotTakenError as error:
                failure, refused = error.failure, True
            except errors.DuetimeError as error:
                failure, refused = error, self.refused_by_standby(error)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                raise errors.Cancelled("the client was closed during the call") from None
            if took_token and (refused or not isinstance(failure, _IN_VAIN)):
                self._budget.give_back(time.monotonic())
            took_token = False
            if refused:
                # This try changed nothing, and its repeat follows a hint of the server, so neither counts.
                tries -= 1
                await self._pause(cell.LEADER_PAUSE, end, failure)
                continue
            if not may_repeat or not isinstance(failure, errors.Unavailable) or tries == self.options.attempts_max:
                raise failure
            await self._pause(waits.next(failure.retry_delay), end, failure)
            while not self._budget.take(time.monotonic()):
                await self._pause(_TOKEN_PAUSE, end, failure)
            took_token = True

    async def _pause(self, wait: float, end: float, failure: errors.DuetimeError) -> None:
        """Waits before the next try. Instead of a wait that would pass the end of the time, waits half of the time that is left,
        and raises the failure of the last try if that is too short."""
        left = end - time.monotonic()
        if wait >= left:
            wait = left / 2
            if wait < max(_BOUND_MIN, failure.retry_delay.total_seconds() if failure.retry_delay else 0):
                raise failure
        await asyncio.sleep(wait)
        if self._closed:
            raise errors.Cancelled("the client was closed during the call")

    async def pages(self, name: str, request: Any, kind: type[Message], field: str) -> AsyncIterator[list[Any]]:
        """The pages of a list, from that of the request on."""
        require_type(name, request)
        following = type(request)()
        following.CopyFrom(request)
        while True:
            page: Any = (await self.call(name, following, kind))[0]
            yield list(getattr(page, field))
            if not page.next_page_token:
                return
            if page.next_page_token == following.page_token:
                raise errors.Internal("the server returned the same page token twice")
            following.page_token = page.next_page_token


def _may_repeat(name: str, request: Any) -> bool:
    rule = _METHODS[name][3]
    # The client names what the server recognises by a name, unless its caller forbids a repeat.
    return rule in (call_pb2.CALL_REPEAT_READ, call_pb2.CALL_REPEAT_SAFE, call_pb2.CALL_REPEAT_IF_NAMED) or (
        rule == call_pb2.CALL_REPEAT_WITHOUT_ETAG and not request.etag)


def require_type(name: str, request: object) -> None:
    # Otherwise another message would be sent as its bytes, which the server reads as something else.
    expected = _METHODS[name][1]
    if not isinstance(request, expected):
        raise TypeError(f"{name} takes a {expected.__name__}, not a {type(request).__name__}")


def _serialize(request: Message) -> bytes:
    return request.SerializeToString()
