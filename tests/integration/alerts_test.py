#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Causes the trouble of each alert rule on a live server, and expects that the rule fires, and that it did not before.

    tests/integration/alerts_test.py DUETIMED DUETIME FOLDER [ALERT]

FOLDER keeps promtool. Prometheus' own program judges what the server says. Some bounds are smaller, so that seconds suffice."""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

from alerts import Alerts, Server, free_port, rules

BOUNDS = (("duetime_subscription_oldest_age_seconds > 300 ", "duetime_subscription_oldest_age_seconds > 0.1 "),
          ("duetime_subscription_oldest_age_seconds > 3600 ", "duetime_subscription_oldest_age_seconds > 0.1 "),
          ("duetime_subscription_backlog > 10000", "duetime_subscription_backlog > 20"),
          ("(duetime_due_backlog) > 10000", "(duetime_due_backlog) > 20"))
MEMBERS = "needs a cell on brokers: the lane `cells` watches these numbers"
# Rules whose trouble no test causes here, and why.
NOT_CAUSED = {
    "DuetimeStorageFailed": "a write must fail: tests/crash/disk_faults lets each one fail, without a page of metrics",
    "DuetimeDamage": "a table must be written and damaged: tests/integration/damage_test does, and reads the number",
    "DuetimeClock": "the clock of the machine would have to move: tests/unit/runtime moves a clock of its own",
    "DuetimeTimerBehind": "a shard that is behind for 10 s shows nothing meanwhile, unless the disk hangs",
    "DuetimeDiskSlow": "the disk would have to be slow",
    "DuetimeBackupOld": "takes two days",
    "DuetimeCellWithoutLeader": MEMBERS, "DuetimeCellAlone": MEMBERS, "DuetimeCellMemberStands": MEMBERS,
    "DuetimeCellClocksApart": MEMBERS, "DuetimeCellTrimFails": MEMBERS,
}


class Case:
    """One trouble: the flags of the server, and what happens after the first scrape. `make` writes files first."""

    def __init__(self, cause: Callable[[Server], None], *flags: str, make: Callable[[str], None] | None = None) -> None:
        self.cause, self.flags, self.make = cause, flags, make


def write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def access_files(scratch: str) -> None:
    write(f"{scratch}/access.toml", '[[rule]]\nwho = ["known"]\nmay = ["schedule", "operate", "admin", "read"]\ntopics = ["*"]\n'
          '[[quota]]\nwho = ["known"]\nmessages_per_second = 1\n')
    write(f"{scratch}/tokens.toml", "")


def certificate(scratch: str, days: int) -> None:
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-nodes", "-days", str(days),
                    "-pkeyopt", "ec_paramgen_curve:P-256", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=IP:127.0.0.1",
                    "-keyout", f"{scratch}/key.pem", "-out", f"{scratch}/cert.pem"],
                   check=True, capture_output=True)


def backlog(server: Server, messages: int = 50) -> None:
    server.schedule(messages)
    time.sleep(0.3)


def nack(server: Server, messages: int = 50) -> None:
    backlog(server, messages)
    server.tool("subscribe", "t", "--nack", "0s", "--max", str(messages), "--quiet")


def dead_letters(server: Server) -> None:
    backlog(server)
    server.tool("subscribe", "t", "--dead-letter", "--max", "5", "--quiet")


def retention(server: Server) -> None:
    server.tool("subscription", "create", "t", "default", "--retention", "1s")
    server.schedule(5)
    time.sleep(0.9)


def leases(server: Server) -> None:
    backlog(server)
    server.tool("subscribe", "t", "--no-ack", "--lease", "1s", "--extend-max", "0s", "--for", "3s", "--quiet")


def connections(server: Server) -> None:
    host, port = server.address.split(":")
    held = [socket.create_connection((host, int(port))) for _ in range(8)]
    time.sleep(0.3)
    for one in held:
        one.close()


def overload(server: Server) -> None:
    """Several programs at once, and a mailbox for one command."""
    def bench(number: int) -> subprocess.Popen:
        return subprocess.Popen([server.duetime, "--server", server.address, "bench",
                                 "--count", "5000", "--topic", f"bench-{number}"],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    programs = [bench(number) for number in range(4)]
    server.wait_for(lambda: server.value("duetime_mailbox_refused_total") > 0, "nothing is refused")
    for program in programs:
        program.kill()
        program.wait()


def late(server: Server) -> None:
    server.schedule(50, delay="0.5s")
    server.process.send_signal(signal.SIGSTOP)
    time.sleep(2.5)
    server.process.send_signal(signal.SIGCONT)
    server.tool("subscribe", "t", "--max", "50", "--quiet")


def zone_is_gone(server: Server) -> None:
    server.tool("recur", "create", "r", "t", "hello", "--cron", "* * * * *", "--tz", "Europe/Berlin")
    zones = f"{server.scratch}/zones"
    os.mkdir(zones)
    server.environment = dict(os.environ, TZDIR=zones)
    server.restart()
    server.wait_for(lambda: server.value("duetime_recurrences_stalled") > 0 or
                    server.value("duetime_recurrences_stalled", 'shard="1"') > 0, "no recurrence is stalled")


def disk_is_full(server: Server) -> None:
    server.flags = ("--disk-free-min-bytes", "1000000000000")
    server.restart()


def refused(server: Server) -> None:
    for _ in range(80):
        server.tool("topic", "get", "t", may_fail=True)


def over_quota(server: Server) -> None:
    token = subprocess.run([server.duetime, "token", "create", "known", "--file", f"{server.scratch}/tokens.toml"], check=True,
                           capture_output=True, text=True).stdout
    write(f"{server.scratch}/token", token)
    os.chmod(f"{server.scratch}/token", 0o600)
    server.options = ("--token-file", f"{server.scratch}/token", "--tls-ca", f"{server.scratch}/cert.pem")
    server.wait_for(lambda: server.tool("topic", "list", may_fail=True).returncode == 0, "the token is not known")
    server.schedule(200)
    for _ in range(80):
        server.tool("--timeout", "100ms", "schedule", "t", "one more", "--in", "1h", may_fail=True)


def spoil(name: str, metric: str) -> Callable[[Server], None]:
    def cause(server: Server) -> None:
        write(f"{server.scratch}/{name}", "no longer valid")
        server.process.send_signal(signal.SIGHUP)
        server.wait_for(lambda: server.value(metric) == 1, f"{name} is still valid")
    return cause


TLS = ("--tls-cert", "{}/cert.pem", "--tls-key", "{}/key.pem")
CASES = {
    "DuetimeDown": Case(Server.kill),
    "DuetimeDiskLow": Case(disk_is_full),
    "DuetimeLate": Case(late),
    "DuetimeBacklogGrows": Case(backlog),
    "DuetimeDueGrows": Case(backlog),
    "DuetimeUnread": Case(backlog),
    "DuetimeOldest": Case(backlog),
    "DuetimeFailing": Case(nack),
    "DuetimeDeadLetters": Case(dead_letters),
    "DuetimeRetention": Case(retention),
    "DuetimeOverload": Case(overload, "--mailbox-commands-max", "1", "--shards", "1"),
    "DuetimeSubscriptionsSlowed": Case(lambda server: nack(server, 200), "--failure-rate", "1"),
    "DuetimeRecurrencesStalled": Case(zone_is_gone),
    "DuetimeConnectionsRefused": Case(connections, "--connections-max", "4"),
    "DuetimeLeasesLost": Case(leases),
    "DuetimeAccessFilesStale": Case(spoil("access.toml", "duetime_access_files_stale"), "--access-file", "{}/access.toml",
                                    "--tokens-file", "{}/tokens.toml", make=access_files),
    "DuetimeRefusals": Case(refused, "--access-file", "{}/access.toml", "--tokens-file", "{}/tokens.toml", make=access_files),
    "DuetimeQuotaRefusals": Case(over_quota, "--access-file", "{}/access.toml", "--tokens-file", "{}/tokens.toml", *TLS,
                                 make=lambda scratch: (access_files(scratch), certificate(scratch, 90))),
    "DuetimeGatewayCellAway": Case(lambda _: None, "--gateway-cells", f"a 0-16383 127.0.0.1:{free_port()}"),
    "DuetimeGatewayCellIncomplete": Case(lambda _: None, "--gateway-cells", f"a 0-16383 127.0.0.1:{free_port()}"),
    "DuetimeTlsFilesStale": Case(spoil("cert.pem", "duetime_tls_files_stale"), *TLS,
                                 make=lambda scratch: certificate(scratch, 90)),
    "DuetimeCertificateEndsSoon": Case(lambda _: None, *TLS, make=lambda scratch: certificate(scratch, 10)),
    "DuetimeCertificateEndsNow": Case(lambda _: None, *TLS, make=lambda scratch: certificate(scratch, 2)),
}


def fires(name: str, case: Case, programs: list[str], folder: str) -> str:
    """Empty, or what is wrong."""
    with tempfile.TemporaryDirectory(prefix="duetime-alerts.") as scratch:
        alerts = Alerts(folder, scratch, BOUNDS)
        if case.make is not None:
            case.make(scratch)
        server = Server(*programs, scratch, *(flag.format(scratch) for flag in case.flags))
        try:
            before = server.samples()
            at_once = name in alerts.firing(before, before)
            case.cause(server)
            after = alerts.firing(before, server.samples())
        finally:
            server.kill()
        # Some troubles are there from the start.
        if at_once and case.cause.__name__ != "<lambda>":
            return f"{name} fires before its trouble"
        return "" if name in after else f"{name} does not fire, only {sorted(after)}"


def main() -> int:
    programs = [os.path.abspath(path) for path in sys.argv[1:3]]
    names = set(re.findall(r"alert: (\w+)", rules()))
    faults = []
    if names != set(CASES) | set(NOT_CAUSED) or set(CASES) & set(NOT_CAUSED):
        faults.append(f"neither caused nor excused, or both: {sorted(names ^ (set(CASES) ^ set(NOT_CAUSED)))}")
    for name, case in CASES.items():
        if len(sys.argv) > 4 and name != sys.argv[4]:
            continue
        begun = time.monotonic()
        try:
            fault = fires(name, case, programs, os.path.abspath(sys.argv[3]))
        except AssertionError as error:
            fault = f"{name}: {error}"
        print(f"{name}: {fault or 'fires'}, {time.monotonic() - begun:.1f} s", flush=True)
        faults += [fault] if fault else []
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
