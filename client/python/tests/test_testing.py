# SPDX-License-Identifier: Apache-2.0
"""duetime.testing against the built daemon: the tests of the README, and what may go wrong."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from duetime import NewMessage, errors
from duetime.testing import START, TestServer

pytestmark = pytest.mark.skipif(not os.environ.get("DUETIMED") and shutil.which("duetimed") is None,
                                reason="needs DUETIMED, or duetimed on PATH")
README = Path(__file__).parent.parent.joinpath("README.md").read_text(encoding="utf-8")
HOUR = timedelta(hours=1)


@pytest.fixture(scope="module")
def server() -> Iterator[TestServer]:
    with TestServer.start() as one:
        yield one


def test_those_of_the_readme_pass(tmp_path: Path) -> None:
    (block,) = (one for one in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "def test_" in one)
    tmp_path.joinpath("test_it.py").write_text(block, encoding="utf-8")
    tmp_path.joinpath("conftest.py").write_text('pytest_plugins = ["duetime.testing.fixtures"]', encoding="utf-8")
    run = subprocess.run([sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", tmp_path, tmp_path],
                         capture_output=True, text=True, check=False)
    assert run.returncode == 0 and "3 passed" in run.stdout, run.stdout


def test_the_clock_moves_by_request_only(server: TestServer) -> None:
    clock = server.clock
    start = clock.now()
    assert clock.advance(hours=1).clock.time.ToDatetime(UTC) == start + HOUR
    clock.advance(timedelta(days=1), minutes=30)
    clock.advance_to(start + timedelta(days=2))
    server.client().schedule(NewMessage("next", "x", HOUR))
    assert clock.next().fired == 1
    assert clock.now() == start + timedelta(days=2, hours=1)
    nothing = clock.next(until=clock.now() + HOUR)
    assert nothing.stop == nothing.STOP_NOTHING
    with pytest.raises(errors.InvalidArgument, match="INVALID_CLOCK"):
        clock.advance_to(start)


def test_idle_waits_for_handlers_and_a_move_for_its_timeout(server: TestServer) -> None:
    client, begin = server.client(), server.clock.now()
    ended: list[str] = []

    def handle(delivery: object) -> None:
        time.sleep(0.3)
        ended.append("x")
    with client.subscribe("slow", handle):
        server.await_subscribers("slow")
        client.schedule(NewMessage("slow", "x", timedelta(0)))
        server.idle()
        assert ended == ["x"] and server.clock.now() == begin
        client.schedule(NewMessage("slow", "y", HOUR))
        with pytest.raises(errors.DeadlineExceeded, match="subscribers have messages"):
            server.clock.advance(hours=2, timeout=timedelta(milliseconds=50))
        assert server.clock.now() == begin + HOUR
    assert [(one.time.ToDatetime(UTC), one.attempt) for one in server.deliveries("slow")][-1:] == [(begin + HOUR, 1)]
    with pytest.raises(errors.DeadlineExceeded, match="has 0 subscribers"):
        server.await_subscribers("nobody", timeout=timedelta(0))


def test_stop_removes_all() -> None:
    with TestServer.start(at=datetime(2027, 1, 1, tzinfo=UTC)) as server:
        assert server.clock.now().year == 2027 < START.year
        folder = Path(re.search(r"--data-dir=(\S+)/data", " ".join(_command(server)))[1])  # type: ignore[index]
        assert folder.is_dir() and "TEST CLOCK" in server.log
    server.stop()
    assert not folder.exists()


def _command(server: TestServer) -> list[str]:
    command = server._process.args
    assert isinstance(command, list)
    return [str(one) for one in command]


def test_a_killed_test_leaves_no_server(tmp_path: Path) -> None:
    program = ("import time; from duetime.testing import TestServer; server = TestServer.start(); "
               "print(server.address, flush=True); time.sleep(600)")
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None and process.stdout.readline() and list(tmp_path.iterdir())
        process.send_signal(signal.SIGKILL)
    end = time.monotonic() + 30
    while list(tmp_path.iterdir()) and time.monotonic() < end:
        time.sleep(0.01)
    assert not list(tmp_path.iterdir())


def test_a_server_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(errors.FailedPrecondition, match="or on PATH"):
        TestServer.start("/nowhere/duetimed")
    with pytest.raises(errors.FailedPrecondition, match="test_clock"):
        TestServer.start(at=datetime(2300, 1, 1, tzinfo=UTC))
    monkeypatch.setenv("DUETIMED", "false")
    with pytest.raises(errors.FailedPrecondition, match="did not start"):
        TestServer.start()
