#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A subscription loses its reader, its handlers begin to fail, and its backlog is on disk: the number, the metrics, the
alerts, top, doctor and explain say the same within two seconds, also after a kill and through a gateway.

    tests/integration/numbers_test.py DUETIMED DUETIME FOLDER

FOLDER keeps promtool. The rules have bounds of a part of a second in place of minutes and hours."""

import json
import os
import re
import sys
import tempfile
import time

from alerts import Alerts, Server

MESSAGES = 3000
SECONDS_MAX = 2.0
# The bound of doctor: a minute without a reader.
DOCTOR_SECONDS = 61
BOUNDS = tuple((f"duetime_subscription_oldest_age_seconds > {seconds} ", "duetime_subscription_oldest_age_seconds > 0.1 ")
               for seconds in (300, 3600))


def numbers(server: Server, name: str) -> dict[str, int]:
    """The backlog of a subscription as the ways to see it say."""
    one = json.loads(server.tool("subscription", "get", "t", name, "--json").stdout)
    rows = {row["name"]: row for row in map(json.loads, server.tool("subscription", "list", "t", "--json").stdout.splitlines())}
    return {how: int(of.get("backlog", {}).get("messages", 0)) for how, of in (("get", one), ("list", rows[name]))}


def expect(server: Server, wanted: int, name: str = "s") -> None:
    """All say the same number within two seconds."""
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        found = numbers(server, name)
        found["metric"] = int(server.value("duetime_subscription_backlog", f'subscription="{name}"'))
        if set(found.values()) == {wanted}:
            return
        assert time.monotonic() < deadline, f"{found}, and not {wanted}"
        time.sleep(0.05)


def play(server: Server, alerts: Alerts, scratch: str) -> None:
    step = {}

    def expect_alerts(*names: str) -> None:
        nonlocal step
        now = server.samples()
        firing = alerts.firing(step, now)
        assert set(names) <= firing, f"{sorted(firing)} fire, and not {names}"
        step = now

    server.tool("topic", "create", "t")
    server.tool("subscription", "create", "t", "s")
    server.tool("subscription", "create", "t", "audit")
    step = server.samples()

    # Nobody reads `s`. The other subscription settles all, and memory has no room.
    server.schedule(MESSAGES)
    begun = time.monotonic()
    server.tool("subscribe", "t", "--subscription", "audit", "--max", str(MESSAGES), "--quiet")
    expect(server, MESSAGES)
    expect(server, 0, "audit")
    assert re.search(rf"^ *t .*\b{MESSAGES}\b.*", server.tool("top", "--once").stdout, re.M)
    expect_alerts("DuetimeUnread", "DuetimeOldest")

    # A kill forgets nothing.
    server.restart()
    expect(server, MESSAGES)

    # Handlers fail, and give some messages up.
    step = server.samples()
    nacked = server.tool("subscribe", "t", "--subscription", "s", "--nack", "1h",
                         "--reason", "no database", "--max", "50").stdout
    failed = re.findall(r"\b[0-9a-z]{26}\b", nacked)[0]
    expect(server, MESSAGES)
    expect_alerts("DuetimeFailing")
    assert "no database" in server.tool("explain", failed).stdout, "explain does not know why the message failed"
    server.restart()
    expect(server, MESSAGES)
    assert "no database" in server.tool("explain", failed).stdout, "explain forgot why the message failed"
    step = server.samples()
    server.tool("subscribe", "t", "--subscription", "s", "--dead-letter", "--max", "5", "--quiet")
    expect(server, MESSAGES - 5)
    server.tool("subscription", "update", "t", "s", "--retention-max", str(MESSAGES * 6 // 5))
    expect_alerts("DuetimeDeadLetters", "DuetimeRetention")

    # Through a gateway.
    gateway = Server(server.duetimed, server.duetime, scratch, "--gateway-cells", f"a 0-16383 {server.address}")
    try:
        gateway.wait_for(lambda: gateway.tool("info", may_fail=True).returncode == 0, "the gateway does not serve")
        found = numbers(gateway, "s")
    finally:
        gateway.kill()
    assert set(found.values()) == {MESSAGES - 5}, f"{found} through the gateway"

    # doctor waits for a minute.
    time.sleep(max(0.0, begun + DOCTOR_SECONDS - time.monotonic()))
    findings = server.tool("doctor", "--quiet", may_fail=True).stdout
    assert "subscription-without-reader" in findings and f"{MESSAGES - 5} due" in findings, findings

    # What is settled or ended is gone from all numbers.
    server.tool("subscribe", "t", "--subscription", "s", "--max", "100", "--quiet")
    expect(server, MESSAGES - 105)
    server.tool("bulk", "purge", "t", "--all", "--wait")
    expect(server, 0)


def main() -> int:
    duetimed, duetime, folder = (os.path.abspath(path) for path in sys.argv[1:4])
    with tempfile.TemporaryDirectory(prefix="duetime-numbers.") as scratch:
        alerts = Alerts(folder, scratch, BOUNDS)
        server = Server(duetimed, duetime, scratch, "--shards", "2", "--due-max", "1000")
        try:
            play(server, alerts, scratch)
        finally:
            server.kill()
    print("1 passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
