# SPDX-License-Identifier: Apache-2.0
"""Options that no connection can have."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from duetime import AsyncClient, Options, errors

PEM = b"-----BEGIN CERTIFICATE-----\n"


@pytest.mark.parametrize(("options", "text"), [
    ({"token": "t"}, "a token requires TLS"),
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
