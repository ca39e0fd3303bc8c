# SPDX-License-Identifier: Apache-2.0
"""The programs of the README, and that of the repository's: each begins a handler, gets its signal, lets the
handler end, and ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_server import fake_server

from duetime import pb

README = Path(__file__).parent.parent.joinpath("README.md").read_text(encoding="utf-8")
BLOCK = r"```python\n(.*?)```"
PROGRAMS = [block for block in re.findall(BLOCK, README, re.DOTALL) if "signal" in block]
TEN_LINES = re.findall(BLOCK, Path(__file__).parents[3].joinpath("README.md").read_text(encoding="utf-8"), re.DOTALL)
RESPONSES: dict[str, Any] = {"Schedule": pb.ScheduleResponse, "Reschedule": pb.RescheduleResponse,
                             "List": pb.ListResponse, "ListTopics": pb.ListTopicsResponse}


def test_there_is_one_with_asyncio_and_one_without() -> None:
    assert ["asyncio" in program for program in PROGRAMS] == [False, True] and len(TEN_LINES) == 1


@pytest.mark.parametrize("program", PROGRAMS + TEN_LINES, ids=["plain", "asyncio", "ten lines"])
def test_a_program_stops_when_its_handler_has_ended(program: str, tmp_path: Path) -> None:
    acked: list[str] = []
    begun = threading.Event()

    def subscribe(requests: Any) -> Iterator[pb.SubscribeResponse]:
        delivery = pb.Delivery(message_id="m", lease_token="l", payload=b"remind 17")
        yield pb.SubscribeResponse(started=pb.SubscribeStarted(), deliveries=[delivery])
        for request in requests:
            if request.begun:
                begun.set()
            for settlement in request.settlements:
                assert settlement.WhichOneof("action") is None
                acked.append(settlement.lease_token)
                yield pb.SubscribeResponse(settled=[settlement.lease_token])

    def answer(name: str, request: Any, _: Any) -> Any:
        return subscribe(request) if name == "Subscribe" else RESPONSES[name]()
    with fake_server(answer) as address:
        # Its handler lasts until this test has sent the signal.
        pause = "await asyncio.sleep(2)" if "asyncio" in program else "import time; time.sleep(2)"
        slow = re.sub(r"^( +)(print\(\"received\".*)$", rf"\1{pause}; \2", program, flags=re.MULTILINE)
        assert slow != program
        slow = slow.replace("127.0.0.1:7788", address)
        slow = slow.replace("AsyncClient()", f'AsyncClient(duetime.Options(server="{address}"))')
        path = tmp_path / "program.py"
        path.write_text(slow, encoding="utf-8")
        with subprocess.Popen([sys.executable, "-u", path], stdout=subprocess.PIPE, text=True, env=os.environ) as process:
            try:
                assert begun.wait(60)
                process.send_signal(signal.SIGINT if program in TEN_LINES else signal.SIGTERM)
                output = process.communicate(timeout=60)[0]
            finally:
                process.kill()
    # Python ends by the signal after a Ctrl-C that nothing catches.
    assert process.returncode == (-signal.SIGINT if program in TEN_LINES else 0)
    assert "received remind 17" in output and acked == ["l"], output
