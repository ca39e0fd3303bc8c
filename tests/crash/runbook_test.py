#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Causes the troubles of deploy/RUNBOOK.md on a live daemon, and types the commands of their pages.

    tests/crash/runbook_test.py DUETIMED DUETIME MACHINE_PRELOAD [TEST...]

The commands come from the page, block by block. Only what depends on the place differs: paths, ports, names, and stand-ins for
systemctl, journalctl, scp and curl. machine_preload.cc steps the daemon's clock and fills its disk."""

import mmap
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DUETIMED = DUETIME = PRELOAD = ""
DEADLINE_S = 40

# What the unit does: exit code 75 starts the daemon again.
SYSTEMCTL = r'''#!/bin/bash
run=$(dirname "$0")/../run
daemon() { cat "$run/pid" 2>/dev/null; }
alive() { kill -0 "$(daemon)" 2>/dev/null; }
unit() {
  while :; do
    LD_PRELOAD=$PRELOAD "$HOST/usr/bin/duetimed" --config "$HOST/etc/duetime/duetimed.toml" 2>>"$run/log" &
    echo $! >"$run/pid"
    wait $!
    code=$?
    echo $code >>"$run/exits"
    [[ $code == 75 ]] || break
  done
}
case $1 in
  start)
    alive && exit
    unit </dev/null >/dev/null 2>&1 &
    # Type=notify: until it serves.
    for _ in $(seq 200); do [[ $(curl "$METRICS/readyz" 2>/dev/null) == ok* ]] && exit; sleep 0.05; done
    tail "$run/log"; exit 1 ;;
  stop) alive || exit 0; kill "$(daemon)"; for _ in $(seq 400); do alive || exit 0; sleep 0.05; done; exit 1 ;;
  restart) "$0" stop && "$0" start ;;
  is-active) alive ;;
  enable | disable) ;;
  *) exit 2 ;;
esac
'''
JOURNALCTL = '#!/bin/bash\ntail -n 20 "$(dirname "$0")/../run/log"\n'
SCP = '#!/bin/bash\ncp "$2" "$OTHER/home/"\n'
CURL = r'''#!/usr/bin/env python3
import sys, urllib.error, urllib.request
try:
    print(urllib.request.urlopen(sys.argv[-1]).read().decode())
except urllib.error.HTTPError as error:
    print(error.read().decode())
'''


def blocks(section: str) -> list[list[str]]:
    """The commands of each block of a page."""
    with open(os.path.join(ROOT, "deploy/RUNBOOK.md"), encoding="utf-8") as file:
        page = re.search(rf"^## {section}\n(.*?)(?=^## |\Z)", file.read(), re.DOTALL | re.MULTILINE)
    assert page, f"no page {section}"
    found = re.findall(r"```sh\n(.*?)```", page[1], re.DOTALL)
    return [[line for line in block.splitlines() if line.strip()] for block in found]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


class Machine:
    """One machine with the paths of the package, below a folder."""

    def __init__(self, folder: str, config: str = "", environment: dict[str, str] | None = None):
        self.folder = folder
        self.port, self.metrics = free_port(), free_port()
        for name in ("bin", "run", "home", "usr/bin", "etc/duetime", "var/lib", "backups"):
            os.makedirs(os.path.join(folder, name))
        for name, text in (("systemctl", SYSTEMCTL), ("journalctl", JOURNALCTL), ("scp", SCP), ("curl", CURL)):
            self.write(f"bin/{name}", text)
            os.chmod(os.path.join(folder, "bin", name), 0o755)
        for program in (DUETIMED, DUETIME):
            os.symlink(program, os.path.join(folder, "usr/bin", os.path.basename(program)))
        # What the page leaves to its reader.
        self.names = {"TOPIC": "orders", "NAME": "billing"}
        self.write("etc/duetime/duetimed.toml", self.here(
            f'data_dir = "/var/lib/duetime"\nlisten = ["127.0.0.1:{self.port}"]\nmetrics_listen = "127.0.0.1:7789"\n{config}'))
        # machine_control.h: the offset of the clock in nanoseconds, and whether the disk is full.
        self.write("run/machine", "\0" * 16)
        with open(os.path.join(folder, "run/machine"), "r+b") as file:
            self.control = mmap.mmap(file.fileno(), 16)
        self.environment = dict(
            os.environ, HOST=folder, PRELOAD=PRELOAD, METRICS=f"http://127.0.0.1:{self.metrics}",
            DUETIME_SERVER=f"127.0.0.1:{self.port}", DUETIME_CONTEXT="none",
            DUETIME_MACHINE_FILE=os.path.join(folder, "run/machine"),
            DUETIME_MACHINE_DISK=os.path.join(folder, "var/lib/duetime"),
            PATH=f"{folder}/bin:{folder}/usr/bin:{os.environ['PATH']}", **(environment or {}))

    def write(self, name: str, text: str):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, name: str) -> str:
        with open(os.path.join(self.folder, name), encoding="utf-8") as file:
            return file.read()

    def here(self, text: str) -> str:
        for path in ("/var/lib/duetime", "/etc/duetime", "/usr/bin/", "/backups"):
            text = text.replace(path, self.folder + path)
        text = text.replace("127.0.0.1:7789", f"127.0.0.1:{self.metrics}").replace("2026-12-24 09:12", "now")
        for name, value in self.names.items():
            text = re.sub(rf"\b{name}\b", value, text)
        return text

    def start(self) -> "Machine":
        os.makedirs(os.path.join(self.folder, "var/lib/duetime"), mode=0o700)
        self.write("var/lib/duetime/init", "")
        self.type("systemctl start duetimed")
        return self

    def type(self, command: str, ok: bool = True) -> str:
        result = subprocess.run(["bash", "-c", self.here(command)], env=self.environment, check=False, text=True, timeout=120,
                                cwd=os.path.join(self.folder, "home"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT)
        print(f"$ {command}\n{result.stdout}", end="", flush=True)
        assert (result.returncode == 0) == ok, f"exit {result.returncode}: {command}\n{result.stdout}"
        return result.stdout

    def run_in_background(self, *command: str) -> subprocess.Popen:
        return subprocess.Popen(command, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)

    def set_clock(self, offset_s: int):
        struct.pack_into("q", self.control, 0, offset_s * 10**9)

    def set_disk_full(self, full: bool):
        struct.pack_into("I", self.control, 8, full)

    def wait(self, command: str, text: str) -> str:
        """Until the command prints this."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            result = subprocess.run(["bash", "-c", self.here(command)], env=self.environment, capture_output=True, text=True,
                                    timeout=60, check=False)
            if re.search(text, result.stdout):
                return result.stdout
            assert time.monotonic() < deadline, f"{command}: never {text!r}\n{result.stdout}{result.stderr}"
            time.sleep(0.1)

    def metric(self, name: str) -> float:
        found = re.search(rf"^{name} (\S+)$", self.wait("curl http://127.0.0.1:7789/metrics", name), re.MULTILINE)
        assert found, name
        return float(found[1])

    def end(self):
        if os.path.exists(os.path.join(self.folder, "run/pid")):
            self.type("systemctl stop duetimed")
        self.control.close()


class RunbookTest(unittest.TestCase):
    def setUp(self):
        self.page = ""
        self.left: list[list[str]] = []
        folder = tempfile.TemporaryDirectory(prefix="duetime-runbook.")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.machines: list[Machine] = []

    def tearDown(self):
        for machine in self.machines:
            machine.end()
        self.assertEqual(self.left, [], f"blocks of {self.page} that were not typed")

    def machine(self, **options) -> Machine:
        self.machines.append(Machine(os.path.join(self.folder, str(len(self.machines))), **options))
        return self.machines[-1]

    def open(self, page: str, count: int):
        self.page, self.left = page, blocks(page)
        self.assertEqual(len(self.left), count)

    def follow(self, machine: Machine, *expected: str) -> str:
        """Types the next block of the page; expects these regular expressions in what it prints."""
        output = "".join(machine.type(line) for line in self.left.pop(0))
        for text in expected:
            self.assertRegex(output, text)
        return output

    def test_disk_full(self):
        self.open("Storage failed", 2)
        machine = self.machine().start()
        machine.type("duetime schedule orders before --in 0s")
        machine.set_disk_full(True)
        machine.type("duetime schedule orders lost --in 0s --timeout 3s", ok=False)
        self.follow(machine, "storage failed", "No space left")
        machine.set_disk_full(False)
        machine.wait("cat \"$HOST/run/exits\"", "75")
        machine.wait("duetime info", "serving")
        self.follow(machine, r"state +serving")
        machine.type("duetime schedule orders after --in 0s")
        received = machine.type("duetime subscribe orders --max 2 --for 20s")
        self.assertRegex(received, "before")

    def test_clock(self):
        self.open("Clock", 2)
        machine = self.machine().start()
        page = self.left[0]
        machine.set_clock(-3600)
        machine.wait("duetime info", "set back")
        self.follow(machine, "set back")
        self.assertEqual(machine.metric("duetime_clock_state"), 1)
        machine.set_clock(0)
        machine.wait("curl http://127.0.0.1:7789/metrics", "duetime_clock_state 0")
        machine.type("duetime schedule orders waits --in 1h")
        machine.set_clock(7200)
        machine.wait("curl http://127.0.0.1:7789/metrics", "duetime_clock_state 2")
        self.left.insert(0, page)
        self.follow(machine, "clock ahead")
        machine.type("duetime pull orders | grep waits", ok=False)
        # The clock is right: a restart accepts it.
        self.follow(machine)
        self.assertEqual(machine.metric("duetime_clock_state"), 0)
        self.assertRegex(machine.type("duetime subscribe orders --max 1 --for 20s"), "waits")

    def certificate(self, machine: Machine, name: str, made_days_ago: int):
        machine.set_clock(-86400 * made_days_ago)
        machine.type("LD_PRELOAD=$PRELOAD openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=localhost "
                     f"-addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout {name}.key -out {name}.crt 2>/dev/null")
        machine.set_clock(0)

    def test_certificate_expired(self):
        self.open("Certificate expired", 1)
        machine = self.machine(config='tls_cert = "/etc/duetime/tls.crt"\ntls_key = "/etc/duetime/tls.key"\n')
        self.certificate(machine, "old", 31)
        self.certificate(machine, "new", 0)
        # Clients trust both, as they would trust an authority.
        machine.type("cat old.crt new.crt >ca.crt && cp old.crt /etc/duetime/tls.crt && cp old.key /etc/duetime/tls.key")
        machine.environment["DUETIME_TLS_CA"] = os.path.join(machine.folder, "home/ca.crt")
        machine.start()
        self.assertLessEqual(machine.metric("duetime_tls_certificate_not_after_timestamp_seconds"), time.time())
        machine.type("duetime schedule orders refused --in 0s --timeout 2s", ok=False)
        self.follow(machine, "notAfter", "Certificate will not expire", "duetime_tls_files_stale 0")
        machine.type("duetime schedule orders accepted --in 0s --timeout 5s")
        self.assertGreater(machine.metric("duetime_tls_certificate_not_after_timestamp_seconds"), time.time() + 86400)

    def test_backlog(self):
        self.open("Backlog", 1)
        machine = self.machine().start()
        machine.type("duetime subscription create orders billing")
        machine.type("duetime schedule orders x --in 0s --count 2000 >/dev/null")
        machine.wait("curl http://127.0.0.1:7789/metrics", r"duetime_due_backlog\S* [1-9]")
        self.follow(machine, "orders +2000 +2000 .*no reader", "subscribers +0",
                    "ready +1000, and more on disk", r"duetime_streams\S* 0")
        machine.type("duetime subscribe orders --subscription billing --max 2000 --for 20s --quiet")
        machine.wait("duetime subscription get TOPIC NAME", r"ready +0")

    def test_subscriber_stuck(self):
        self.open("Subscriber stuck", 2)
        machine = self.machine().start()
        machine.type("duetime schedule orders x --in 0s --count 10 >/dev/null")
        # It keeps its stream open, gets all messages, and settles none.
        stuck = machine.run_in_background(
            "duetime", "subscribe", "orders", "--subscription", "billing", "--no-ack", "--lease", "10m")
        try:
            machine.type("duetime subscription create orders billing 2>/dev/null || true")
            machine.wait("duetime subscription get TOPIC NAME", r"in flight +10")
            stuck.send_signal(signal.SIGSTOP)
            self.follow(machine, r"in flight +10", r"acked +0", r"duetime_acks_total\S* 0")
            found = re.search(r'"id": *"([^"]+)"', machine.type("duetime streams orders --json"))
            assert found
            machine.names["ID"] = found[1]
            self.follow(machine)
            machine.wait("duetime subscription get TOPIC NAME", r"in flight +0")
        finally:
            stuck.kill()
            stuck.communicate()
        received = machine.type("duetime subscribe orders --subscription billing --max 10 --for 20s")
        self.assertEqual(len(re.findall("attempt 2", received)), 10)

    def test_one_topic_floods(self):
        self.open("One topic floods", 2)
        machine = self.machine().start()
        flood = machine.run_in_background(
            "duetime", "schedule", "orders", "x", "--in", "1h", "--count", "20000", "--label", "flood=yes")
        try:
            machine.wait("duetime top --once", r"orders +\d{4,}")
            self.follow(machine, r"orders +\d{4,}")
        finally:
            flood.kill()
            flood.communicate()
        self.assertRegex(machine.type("duetime schedule orders more --in 1h", ok=False), "TOPIC_FULL")
        # Others go on.
        machine.type("duetime schedule bills one --in 0s && duetime subscribe bills --max 1 --for 20s | grep one")
        self.follow(machine, r"changed +\d{4,}")
        machine.type("duetime schedule orders more --in 0s && duetime subscribe orders --max 1 --for 20s | grep more")

    def test_backup_and_restore(self):
        self.open("Backup", 1)
        machine = self.machine().start()
        machine.type("duetime schedule orders delivered --in 0s")
        machine.type("duetime schedule bills overdue --in 0s")
        self.follow(machine, "files")
        self.assertRegex(machine.type("duetime subscribe orders --max 1 --for 20s"), "delivered")
        machine.type("systemctl stop duetimed && rm -r /var/lib/duetime")
        self.open("Restore", 2)
        self.follow(machine, "All its topics are paused", "intact")
        self.assertRegex(machine.type("duetime subscribe bills --max 1 --for 1s", ok=False), "received 0")
        self.follow(machine, r"orders +1 +1 ", "1 messages are dropped", "bills: it delivers again")
        self.assertRegex(machine.type("duetime subscribe bills --max 1 --for 20s"), "overdue")
        self.assertRegex(machine.type("duetime subscribe orders --max 1 --for 1s", ok=False), "received 0")

    def test_move(self):
        self.open("Move to another machine", 2)
        old, new = self.machine().start(), self.machine()
        old.environment["OTHER"] = new.folder
        old.type("duetime schedule orders moved --in 0s")
        self.follow(old)
        self.follow(new, "intact", r"state +serving")
        self.assertRegex(new.read("run/log"), "copy")
        self.assertRegex(new.type("duetime subscribe orders --max 1 --for 20s"), "moved")

    def test_upgrade(self):
        self.open("Upgrade", 1)
        machine = self.machine().start()
        machine.type("duetime schedule orders before --in 0s --count 10 >/dev/null")
        for program in (DUETIMED, DUETIME):
            shutil.copy(program, os.path.join(machine.folder, "home"))
        client = machine.run_in_background("duetime", "subscribe", "orders", "--max", "11", "--for", "60s")
        machine.wait("duetime subscription get orders", r"acked +10")
        self.follow(machine, "data_dir", r"state +serving", "start 2 of")
        machine.type("duetime schedule orders after --in 0s")
        # The client was connected before, and is still there.
        self.assertIn("after", client.communicate(timeout=DEADLINE_S)[0])


if __name__ == "__main__":
    DUETIMED, DUETIME, PRELOAD = (os.path.abspath(path) for path in sys.argv[1:4])
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
