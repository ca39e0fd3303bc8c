#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs `duetime dev` as a person does: pastes its lines, reads its screen, and ends it in every way.

    tests/integration/dev_test.py DUETIMED DUETIME

Nothing sleeps: each step waits for a line, with a deadline."""

import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

# For one step on a slow and busy machine.
SECONDS_MAX = 60
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = "<p>the page</p>"
FREE = ("--listen", "127.0.0.1:0", "--console", "127.0.0.1:0")


class Dev:
    """A `duetime dev` whose output is read line by line."""

    def __init__(self, environment: dict[str, str], command: tuple[str, ...]):
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.output = ""

    def expect(self, pattern: str) -> re.Match:
        """Waits for the pattern and forgets what came before its end."""
        deadline = time.monotonic() + SECONDS_MAX
        while not (found := re.search(pattern, self.output)):
            wait = deadline - time.monotonic()
            more = os.read(self.process.stdout.fileno(), 65536) if select.select([self.process.stdout], [], [], wait)[0] else b""
            if not more:
                raise AssertionError(f"no {pattern!r} in {self.output!r}")
            self.output += more.decode()
        self.output = self.output[found.end():]
        return found

    def daemons(self) -> list[int]:
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as file:
            return [int(pid) for pid in file.read().split()]

    def end(self, number: int) -> tuple[int, str]:
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=SECONDS_MAX)
        return self.process.returncode, errors.decode()


def get(url: str, host: str) -> tuple[int, str]:
    request = urllib.request.Request(url, headers={"Host": host})
    try:
        with urllib.request.urlopen(request, timeout=SECONDS_MAX) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


class DevTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        """Installs the programs, and a page."""
        directory = tempfile.TemporaryDirectory(prefix="duetime-dev-test.")
        cls.addClassCleanup(directory.cleanup)
        page = directory.name + "/share/duetime/console"
        cls.programs = directory.name + "/bin"
        os.makedirs(page)
        os.mkdir(cls.programs)
        with open(page + "/index.html", "w", encoding="utf-8") as file:
            file.write(PAGE)
        # The tool looks around where it itself is, so it is a copy.
        shutil.copy(DUETIME, cls.programs)
        os.symlink(DUETIMED, cls.programs + "/duetimed")

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory(prefix="duetime-dev-test.")
        self.addCleanup(directory.cleanup)
        self.scratch = directory.name
        self.environment = {"PATH": f"{self.programs}:{os.environ['PATH']}", "TMPDIR": self.scratch, "TZ": "UTC",
                            "DUETIME_SERVER": "192.0.2.1:1"}

    def dev(self, *words: str) -> Dev:
        return self.start("duetime", "dev", *words)

    def start(self, *command: str) -> Dev:
        dev = Dev(self.environment, command)
        self.addCleanup(dev.process.stdout.close)
        self.addCleanup(dev.process.stderr.close)
        self.addCleanup(dev.process.wait)
        self.addCleanup(dev.process.kill)
        return dev

    def paste(self, line: str, *more: str) -> str:
        result = subprocess.run(["sh", "-c", line + ' "$@"', "-", *more], env=self.environment, text=True,
                                capture_output=True, timeout=SECONDS_MAX, check=False)
        self.assertEqual(result.returncode, 0, line + result.stderr)
        return result.stdout

    def test_the_pasted_lines_work_and_each_step_is_told(self):
        dev = self.dev(*FREE)
        create, schedule, subscribe = (dev.expect(rf"  (duetime {word} .*)\n")[1]
                                       for word in ("subscription create", "schedule", "subscribe"))
        dev.expect("Ctrl-C ends it")
        self.paste(create)
        self.paste(schedule.replace("--in 5s", "--in 1s"))
        dev.expect(r"\d\d:\d\d:\d\d\.\d +1  scheduled +orders\n")
        dev.expect(r" 1  due +orders  worker\n")
        self.assertIn("hello in five seconds", self.paste(subscribe, "--max", "1", "--for", "30s"))
        dev.expect(r" 1  delivered +orders  worker\n")
        dev.expect(r" 1  acked +orders  worker\n")
        self.assertEqual(dev.end(signal.SIGINT), (0, ""))
        self.assertEqual(os.listdir(self.scratch), [])

    def test_the_daemon_ends_with_the_tool(self):
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGKILL):
            with self.subTest(number):
                dev = self.dev(*FREE, "--json")
                dev.expect(r"\{.*\}\n")
                daemon = os.pidfd_open(dev.daemons()[0])
                self.addCleanup(os.close, daemon)
                code, errors = dev.end(number)
                self.assertEqual((code, errors), (-9 if number == signal.SIGKILL else 0, ""))
                self.assertTrue(select.select([daemon], [], [], SECONDS_MAX)[0], "the daemon still runs")

    def test_the_tool_ends_with_the_daemon(self):
        dev = self.dev(*FREE, "--json")
        dev.expect(r"\{.*\}\n")
        os.kill(dev.daemons()[0], signal.SIGKILL)
        _, errors = dev.process.communicate(timeout=SECONDS_MAX)
        self.assertEqual(dev.process.returncode, 128 + signal.SIGKILL)
        self.assertIn("ready: duetimed", json.loads(errors)["error"]["message"])
        self.assertEqual(os.listdir(self.scratch), [])

    def test_a_directory_stays(self):
        folder = self.scratch + "/kept"
        for round_ in range(2):
            dev = self.dev("--dir", folder, *FREE, "--json")
            place = json.loads(dev.expect(r"\{.*\}\n")[0])
            self.assertEqual(place["dir"], folder)
            listed = self.paste(f"duetime topic list --json --server {place['server']}")
            self.assertEqual("orders" in listed, round_ == 1)
            self.paste(f"duetime topic create orders --server {place['server']} || true")
            self.assertEqual(dev.end(signal.SIGINT), (0, ""))
        self.assertEqual(os.listdir(self.scratch), ["kept"])

    def test_a_taken_port_is_told(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            for words, code, text in ((("--listen", address, "--console", "127.0.0.1:0"), 69, "port 0 is any free one"),
                                      (("--listen", "127.0.0.1:0", "--console", address), 1, "is another program using")):
                dev = self.dev(*words)
                _, errors = dev.process.communicate(timeout=SECONDS_MAX)
                self.assertEqual(dev.process.returncode, code, errors)
                self.assertIn(address, errors.decode())
                self.assertIn(text, errors.decode())
                self.assertEqual(os.listdir(self.scratch), [])

    def test_other_machines_reach_it_only_if_told_so(self):
        for words in (("--listen", "0.0.0.0:0"), ("--console", "0.0.0.0:0")):
            dev = self.dev(*words)
            _, errors = dev.process.communicate(timeout=SECONDS_MAX)
            self.assertEqual(dev.process.returncode, 2)
            self.assertIn(b"--insecure-nonloopback", errors)

    def test_the_image_has_it(self):
        with open(ROOT + "/deploy/image-entry.sh", encoding="utf-8") as file:
            script = re.sub(r":77\d\d", ":0", file.read()).replace("/tmp/duetime.sock", self.scratch + "/s")
        dev = self.start("sh", "-c", script, "duetime-image", "dev")
        dev.expect("Whoever reaches these ports may do everything")
        for server in (dev.expect(r"server +(\S+)\n")[1], f"unix:{self.scratch}/s"):
            self.assertIn("SERVING", self.paste(f"duetime info --json --server {server}"))
        url, port = dev.expect(r"console  (http://127.0.0.1:([0-9]+)/)\n").groups()
        for host, code in (("127.0.0.1", 200), ("localhost", 200), ("evil.example", 403), ("0.0.0.0", 403)):
            answer = get(url, f"{host}:{port}")
            self.assertEqual(answer[0], code, host)
            self.assertEqual(answer[1] == PAGE, code == 200, host)
        self.assertEqual(dev.end(signal.SIGINT), (0, ""))


if __name__ == "__main__":
    DUETIMED, DUETIME = (os.path.abspath(path) for path in sys.argv[1:3])
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
