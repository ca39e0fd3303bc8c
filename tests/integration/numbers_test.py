#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A subscription loses its reader, its handlers begin to fail, and its backlog is on disk: the number, the metrics, the
alerts, top and doctor say the same within two seconds, also after a kill and through a gateway.

    tests/integration/numbers_test.py DUETIMED DUETIME FOLDER

FOLDER keeps promtool. The rules are those of deploy/monitoring/alerts.yaml, with bounds of seconds in place of minutes and
hours. A counter grows, for the rules, by what it grew in the step, every minute."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MESSAGES = 3000
SECONDS_MAX = 2.0
# The bound of doctor: a minute without a reader.
DOCTOR_SECONDS = 61


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]


class Alerts:
    """The rules, and which of them fire for some samples."""

    def __init__(self, folder: str, scratch: str) -> None:
        path = subprocess.run([f"{ROOT}/tests/tidy/promtool/get.sh", folder], check=True, capture_output=True, text=True)
        self.promtool, self.scratch = path.stdout.strip(), scratch
        with open(f"{ROOT}/deploy/monitoring/alerts.yaml", encoding="utf-8") as file:
            rules = file.read()
        for seconds in ("300", "3600"):
            old = f"duetime_subscription_oldest_age_seconds > {seconds} "
            assert old in rules, f"no rule has a bound of {seconds} s"
            rules = rules.replace(old, "duetime_subscription_oldest_age_seconds > 0.1 ")
        with open(f"{scratch}/rules.yaml", "w", encoding="utf-8") as file:
            file.write(rules)

    def firing(self, before: dict[str, float], now: dict[str, float]) -> set[str]:
        series = []
        for name, value in now.items():
            growth = value - before.get(name, 0) if "_total{" in name else 0
            series.append(f"      - {{series: '{name}', values: '{value}+{growth}x120'}}")
        text = ("rule_files: [rules.yaml]\nevaluation_interval: 1m\ntests:\n  - interval: 1m\n    input_series:\n" +
                "\n".join(series) + "\n    promql_expr_test:\n"
                "      - {expr: 'ALERTS{alertstate=\"firing\"}', eval_time: 110m, exp_samples: [{labels: '{}', value: 7}]}\n")
        with open(f"{self.scratch}/case.yaml", "w", encoding="utf-8") as file:
            file.write(text)
        run = subprocess.run([self.promtool, "test", "rules", f"{self.scratch}/case.yaml"], capture_output=True, text=True,
                             check=False)
        return set(re.findall(r'alertname="(\w+)"', run.stdout + run.stderr))


class Story:
    def __init__(self, duetimed: str, duetime: str, scratch: str) -> None:
        self.duetimed, self.duetime, self.scratch = duetimed, duetime, scratch
        self.port, self.metrics_port = free_port(), free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.started: list[subprocess.Popen] = []
        self.server = self.start_server("--init")

    def spawn(self, *arguments: str) -> subprocess.Popen:
        with open(f"{self.scratch}/log", "ab") as log:
            process = subprocess.Popen(arguments, stdout=log, stderr=log)
        self.started.append(process)
        return process

    def start_server(self, *flags: str) -> subprocess.Popen:
        server = self.spawn(self.duetimed, "--data-dir", f"{self.scratch}/data", "--listen", self.address, "--shards", "2",
                            "--metrics-listen", f"127.0.0.1:{self.metrics_port}", "--due-max", "1000", *flags)
        self.wait_until_ready(self.address)
        # The metrics may come a moment later.
        deadline = time.monotonic() + 20
        while socket.socket().connect_ex(("127.0.0.1", self.metrics_port)) != 0:
            assert time.monotonic() < deadline, "no metrics"
            time.sleep(0.05)
        return server

    def wait_until_ready(self, address: str) -> None:
        deadline = time.monotonic() + 20
        while self.tool("info", server=address, may_fail=True).returncode != 0:
            assert time.monotonic() < deadline, "the server does not start"
            time.sleep(0.05)

    def tool(self, *arguments: str, server: str = "", may_fail: bool = False) -> subprocess.CompletedProcess:
        run = subprocess.run([self.duetime, "--server", server or self.address, *arguments], capture_output=True, text=True,
                             check=False, timeout=60)
        assert may_fail or run.returncode == 0, f"{arguments}: {run.stderr}"
        return run

    def samples(self) -> dict[str, float]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=10) as page:
            lines = page.read().decode().splitlines()
        return {name: float(value) for name, value in
                (line.rsplit(" ", 1) for line in lines if line.startswith(("duetime_subscription_", "duetime_topic_")))}

    def numbers(self, name: str, server: str = "") -> dict[str, int]:
        """The backlog of a subscription as the ways to see it say."""
        one = json.loads(self.tool("subscription", "get", "t", name, "--json", server=server).stdout)
        listed = self.tool("subscription", "list", "t", "--json", server=server).stdout
        rows = {row["name"]: row for row in map(json.loads, listed.splitlines())}
        return {how: int(of.get("backlog", {}).get("messages", 0)) for how, of in (("get", one), ("list", rows[name]))}

    def expect(self, wanted: int, name: str = "s") -> None:
        """All say the same number within two seconds."""
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            found = self.numbers(name)
            found["metric"] = int(self.samples()[f'duetime_subscription_backlog{{topic="t",subscription="{name}"}}'])
            if set(found.values()) == {wanted}:
                return
            assert time.monotonic() < deadline, f"{found}, and not {wanted}"
            time.sleep(0.05)

    def end(self) -> None:
        for process in self.started:
            process.kill()
            process.wait()


def play(story: Story, alerts: Alerts) -> None:
    step = story.samples()

    def expect_alerts(*names: str) -> None:
        nonlocal step
        now = story.samples()
        firing = alerts.firing(step, now)
        assert set(names) <= firing, f"{sorted(firing)} fire, and not {names}"
        step = now

    story.tool("topic", "create", "t")
    story.tool("subscription", "create", "t", "s")
    story.tool("subscription", "create", "t", "audit")
    step = story.samples()

    # Nobody reads `s`. The other subscription settles all, and memory has no room.
    with open(f"{story.scratch}/messages", "w", encoding="utf-8") as file:
        file.write('{"topic": "t", "delay": "0.01s"}\n' * MESSAGES)
    story.tool("import", f"{story.scratch}/messages")
    begun = time.monotonic()
    story.tool("subscribe", "t", "--subscription", "audit", "--max", str(MESSAGES), "--quiet")
    story.expect(MESSAGES)
    story.expect(0, "audit")
    assert re.search(rf"^ *t .*\b{MESSAGES}\b.*", story.tool("top", "--once").stdout, re.M)
    expect_alerts("DuetimeUnread", "DuetimeOldest")

    # A kill forgets nothing.
    story.server.send_signal(signal.SIGKILL)
    story.server.wait()
    story.server = story.start_server()
    story.expect(MESSAGES)

    # Handlers fail, and give some messages up.
    step = story.samples()
    story.tool("subscribe", "t", "--subscription", "s", "--nack", "1h", "--reason", "no database", "--max", "50", "--quiet")
    story.expect(MESSAGES)
    expect_alerts("DuetimeFailing")
    story.tool("subscribe", "t", "--subscription", "s", "--dead-letter", "--max", "5", "--quiet")
    story.expect(MESSAGES - 5)
    story.tool("subscription", "update", "t", "s", "--retention-max", str(MESSAGES * 6 // 5))
    expect_alerts("DuetimeDeadLetters", "DuetimeRetention")

    # Through a gateway.
    gateway = f"127.0.0.1:{free_port()}"
    story.spawn(story.duetimed, "--gateway-cells", f"a 0-16383 {story.address}", "--listen", gateway, "--metrics-listen", "")
    story.wait_until_ready(gateway)
    found = story.numbers("s", gateway)
    assert set(found.values()) == {MESSAGES - 5}, f"{found} through the gateway"

    # doctor waits for a minute.
    time.sleep(max(0.0, begun + DOCTOR_SECONDS - time.monotonic()))
    findings = story.tool("doctor", "--quiet", may_fail=True).stdout
    assert "subscription-without-reader" in findings and f"{MESSAGES - 5} due" in findings, findings

    # What is settled or ended is gone from all numbers.
    story.tool("subscribe", "t", "--subscription", "s", "--max", "100", "--quiet")
    story.expect(MESSAGES - 105)
    story.tool("bulk", "purge", "t", "--all", "--wait")
    story.expect(0)


def main() -> int:
    duetimed, duetime, folder = (os.path.abspath(path) for path in sys.argv[1:4])
    with tempfile.TemporaryDirectory(prefix="duetime-numbers.") as scratch:
        alerts = Alerts(folder, scratch)
        story = Story(duetimed, duetime, scratch)
        try:
            play(story, alerts)
        finally:
            story.end()
    print("1 passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
