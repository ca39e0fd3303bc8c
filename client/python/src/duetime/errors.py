# SPDX-License-Identifier: Apache-2.0
"""The errors of calls, of items of a batch, and of streams."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from duetime import pb


class FieldViolation:
    """A request field that the server refused."""

    def __init__(self, field: str, description: str) -> None:
        self.field = field
        self.description = description


class DuetimeError(Exception):
    """An error. There is a subclass for each code: NotFound, InvalidArgument, ResourceExhausted ..."""

    code: grpc.StatusCode = grpc.StatusCode.UNKNOWN

    def __init__(self, message: str, *, reason: str = "", metadata: Mapping[str, str] | None = None,
                 fields: Sequence[FieldViolation] = (), retry_delay: timedelta | None = None) -> None:
        super().__init__(f"{self.code.name}{' ' + reason if reason else ''}: {message}")
        #: The error in English, for people.
        self.message = message
        #: The cause for programs, like TOPIC_NOT_FOUND. Empty if no duetime server sent the error.
        self.reason = reason
        #: Every variable part of the message, by name.
        self.metadata = dict(metadata or {})
        #: The request fields that the server refused.
        self.fields = list(fields)
        #: The delay that the server requests before the next try, or None.
        self.retry_delay = retry_delay


class Cancelled(DuetimeError):
    code = grpc.StatusCode.CANCELLED


class Unknown(DuetimeError):
    code = grpc.StatusCode.UNKNOWN


class InvalidArgument(DuetimeError):
    code = grpc.StatusCode.INVALID_ARGUMENT


class DeadlineExceeded(DuetimeError):
    code = grpc.StatusCode.DEADLINE_EXCEEDED


class NotFound(DuetimeError):
    code = grpc.StatusCode.NOT_FOUND


class AlreadyExists(DuetimeError):
    code = grpc.StatusCode.ALREADY_EXISTS


class PermissionDenied(DuetimeError):
    code = grpc.StatusCode.PERMISSION_DENIED


class ResourceExhausted(DuetimeError):
    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class FailedPrecondition(DuetimeError):
    code = grpc.StatusCode.FAILED_PRECONDITION


class Aborted(DuetimeError):
    code = grpc.StatusCode.ABORTED


class OutOfRange(DuetimeError):
    code = grpc.StatusCode.OUT_OF_RANGE


class Unimplemented(DuetimeError):
    code = grpc.StatusCode.UNIMPLEMENTED


class Internal(DuetimeError):
    code = grpc.StatusCode.INTERNAL


class Unavailable(DuetimeError):
    code = grpc.StatusCode.UNAVAILABLE


class DataLoss(DuetimeError):
    code = grpc.StatusCode.DATA_LOSS


class Unauthenticated(DuetimeError):
    code = grpc.StatusCode.UNAUTHENTICATED


_BY_NUMBER: dict[int, type[DuetimeError]] = {one.code.value[0]: one for one in DuetimeError.__subclasses__()}


#: The reason of an error that stands for the server's, which gRPC has lost.
STATUS_LOST = "STATUS_LOST"


def from_rpc(error: grpc.RpcError) -> DuetimeError:
    """The error of a call."""
    call: Any = error
    if call.code() is grpc.StatusCode.INTERNAL and call.details() == "Internal error from Core":
        # When the server ends a stream while a request is being written, grpc.aio often reports the failed write in place of
        # the server's status. Nothing is known but that the stream has ended.
        return Unavailable("the server ended the stream, and gRPC has lost its status", reason=STATUS_LOST)
    status = status_pb2.Status()
    for key, value in call.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            with contextlib.suppress(DecodeError):  # of a proxy, perhaps; code and text remain
                status.ParseFromString(value)
    reason, metadata = "", {}
    fields: list[FieldViolation] = []
    retry_delay: timedelta | None = None
    for detail in status.details:
        info, bad, retry = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest(), error_details_pb2.RetryInfo()
        if detail.Unpack(info):
            reason, metadata = info.reason, dict(info.metadata)
        elif detail.Unpack(bad):
            fields += [FieldViolation(one.field, one.description) for one in bad.field_violations]
        elif detail.Unpack(retry):
            retry_delay = retry.retry_delay.ToTimedelta()
    kind = _BY_NUMBER.get(call.code().value[0], Unknown)
    return kind(call.details() or "", reason=reason, metadata=metadata, fields=fields, retry_delay=retry_delay)


def from_item(item: pb.Failure) -> DuetimeError:
    """The error of an item of a batch."""
    if item.code == 0:
        return Internal("the server answered an item with an empty result")
    fields = [FieldViolation(item.field, item.message)] if item.field else []
    retry_delay = item.retry_delay.ToTimedelta() if item.HasField("retry_delay") else None
    return _BY_NUMBER.get(item.code, Unknown)(item.message, reason=item.reason, metadata=item.metadata, fields=fields,
                                              retry_delay=retry_delay)
