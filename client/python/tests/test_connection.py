# SPDX-License-Identifier: Apache-2.0
"""Options that no connection can have, requests of another call, and waits."""

from __future__ import annotations

import asyncio
import inspect
from datetime import timedelta
from typing import Any

import pytest

from duetime import AsyncClient, Backoff, Client, Options, errors, pb
from duetime.connection import Waits

PEM = b"-----BEGIN CERTIFICATE-----\n"


@pytest.mark.parametrize(("options", "text"), [
    ({"token": "t"}, "a token requires TLS"),
    ({"token": "t\n", "tls": True}, "printable ASCII"),
    ({"tls_cert": PEM}, "one is missing"),
    ({"tls_ca": "/etc/ca.pem"}, "tls_ca is no PEM"),
    ({"tls_ca": b"/etc/ca.pem"}, "tls_ca is no PEM"),
    ({"tls_cert": PEM, "tls_key": "key.pem"}, "tls_key is no PEM"),
])
def test_unusable_options_raise_at_once(options: Any, text: str) -> None:
    async def connect() -> None:
        AsyncClient(Options(**options))
    with pytest.raises(errors.InvalidArgument, match=text):
        asyncio.run(connect())


#: Those that get a request.
CALLS = [name for name, method in inspect.getmembers(Client, inspect.isfunction)
         if "request" in inspect.signature(method).parameters]


def test_there_are_calls_that_get_a_request() -> None:
    assert len(CALLS) > 10


@pytest.mark.parametrize("call", [*CALLS, "schedule"])
@pytest.mark.parametrize("request_", [pb.CancelRequest(message_id="m"), {"topic": "t"}])
def test_a_request_of_another_call_raises_before_it_is_sent(call: str, request_: Any) -> None:
    with Client(Options(server="127.0.0.1:1")) as client, pytest.raises(TypeError, match="Request, not a (CancelRequest|dict)"):
        answer = getattr(client, call)(request_)
        if call.startswith("list"):
            next(answer)


@pytest.mark.parametrize(("initial", "maximum", "least"), [(0, 0, [25, 25, 25]), (0, 400, [25, 50, 100]), (-1, -1, [25, 25, 25]),
                                                           (100, 5_000, [50, 100, 200])])
def test_waits_have_a_floor(initial: int, maximum: int, least: list[int]) -> None:
    waits = Waits(Backoff(timedelta(milliseconds=initial), timedelta(milliseconds=maximum)))
    for bound in least:
        assert bound <= waits.next(None) * 1_000 <= 2 * bound
    waits.reset()
    assert waits.next(None) * 1_000 >= least[0]
