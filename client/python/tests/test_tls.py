# SPDX-License-Identifier: Apache-2.0
"""A server with TLS that is met without, and the reverse."""

from __future__ import annotations

import subprocess
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from fake_server import fake_server

from duetime import Client, Options, Settlement, errors, pb

NO_TLS_HERE = "the server closed the connection before it answered, as a server with TLS does; this client uses no TLS: failed"
NO_TLS_THERE = "this client uses TLS, and the server does not: failed to connect"


def answer(*_: Any) -> Any:
    return pb.GetTopicResponse()


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[bytes, bytes]:
    """The key and the certificate of the server."""
    key, pem = tmp_path / "key.pem", tmp_path / "server.pem"
    subprocess.run(["openssl", "req", "-x509", "-days", "2", "-nodes", "-newkey", "ec",
                    "-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", "/CN=127.0.0.1",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", pem], check=True, capture_output=True)
    return key.read_bytes(), pem.read_bytes()


@pytest.mark.parametrize(("server", "client", "text"),
                         [(True, False, NO_TLS_HERE), (False, True, NO_TLS_THERE), (True, True, "")])
def test_only_one_side_uses_tls(certificate: tuple[bytes, bytes], caplog: pytest.LogCaptureFixture,
                                server: bool, client: bool, text: str) -> None:
    with fake_server(answer, tls=grpc.ssl_server_credentials([certificate]) if server else None) as address:
        options = Options(server=address, tls_ca=certificate[1] if client else None, timeout=timedelta(seconds=1))
        with Client(options) as one:
            if not text:
                one.get_topic(pb.GetTopicRequest(name="t"))
                return
            with pytest.raises(errors.Unavailable, match=f"{text}.*{address}"):
                one.get_topic(pb.GetTopicRequest(name="t"))
            with one.subscribe("t", lambda _: Settlement.ack()):
                end = time.monotonic() + 20
                while text not in caplog.text and time.monotonic() < end:
                    time.sleep(0.01)
            assert text in caplog.text


def test_a_server_that_is_not_there_says_nothing_of_tls() -> None:
    with Client(Options(server="127.0.0.1:1", timeout=timedelta(seconds=0.5))) as one:
        with pytest.raises(errors.Unavailable, match="^UNAVAILABLE: failed to connect .*refused"):
            one.get_topic(pb.GetTopicRequest(name="t"))
