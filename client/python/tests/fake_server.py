# SPDX-License-Identifier: Apache-2.0
"""A server whose answers the test gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from google.protobuf import message_factory

from duetime import pb
from duetime.v1 import admin_pb2, messages_pb2

#: Gets the name of the method, the request (of a stream: their iterator) and the call's context. Returns the response (of a
#: stream: yields them).
Answer = Callable[[str, Any, Any], Any]

#: Gets the frames of one CallStream and its context. Yields the responses.
CallStream = Callable[[Iterator[pb.CallStreamRequest], Any], Iterator[pb.CallStreamResponse]]

METHODS = {name: method for service in (messages_pb2.DESCRIPTOR.services_by_name["Messages"],
                                        admin_pb2.DESCRIPTOR.services_by_name["Admin"])
           for name, method in service.methods_by_name.items()}


class _Methods(grpc.GenericRpcHandler):  # type: ignore[misc]
    def __init__(self, answer: Answer, call_stream: CallStream | None) -> None:
        self._answer = answer
        self._call_stream = call_stream

    def service(self, details: Any) -> Any:
        name = details.method.rpartition("/")[2]
        method = METHODS[name]
        if name == "CallStream":
            return None if self._call_stream is None else grpc.stream_stream_rpc_method_handler(
                self._call_stream, pb.CallStreamRequest.FromString, lambda one: one.SerializeToString())
        make = grpc.stream_stream_rpc_method_handler if method.client_streaming else grpc.unary_unary_rpc_method_handler
        return make(lambda request, context: self._answer(name, request, context),
                    message_factory.GetMessageClass(method.input_type).FromString, lambda one: one.SerializeToString())


@contextmanager
def fake_server(answer: Answer, address: str = "127.0.0.1:0", *, calls_per_connection: int = 1_000,
                call_stream: CallStream | None = None, tls: grpc.ServerCredentials | None = None) -> Iterator[str]:
    """Serves meanwhile. Yields the address. Without `call_stream`, it serves no CallStream."""
    server = grpc.server(ThreadPoolExecutor(16), handlers=[_Methods(answer, call_stream)],
                         options=[("grpc.max_concurrent_streams", calls_per_connection)])
    port = server.add_insecure_port(address) if tls is None else server.add_secure_port(address, tls)
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()
