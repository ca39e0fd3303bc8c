#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the command line tool at a terminal, as a person does: live screens, keys, colours, progress and Ctrl-C.

    tests/integration/terminal_test.py DUETIMED DUETIME

The terminal is a pseudo-terminal of this test. Nothing sleeps: each step waits for a text, with a deadline."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

# For one step on a slow and busy machine. No step takes a second on a quiet one, but for a schedule of many messages.
SECONDS_MAX = 120
# The end of the sequences that begin and end a screen of its own.
TAKEN, RETURNED = "\033[?1049h", "\033[?1049l"
COLOUR = re.compile(r"\033\[[0-9]*m")
SEQUENCE = re.compile(r"\033\[[?0-9;]*[a-zA-Z]")

DUETIMED, DUETIME = "", ""


class Terminal:
    """A program at a terminal of its own."""

    def __init__(self, words: list[str], environment: dict[str, str], rows: int = 24, columns: int = 120):
        self.output = ""
        self.status: int | None = None
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(words[0], words, environment)
        self.resize(rows, columns)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys: str) -> None:
        os.write(self.fd, keys.encode())

    def modes(self) -> list:
        return termios.tcgetattr(self.fd)

    def _read(self) -> bool:
        """Reads what is there, or waits a little for more. Returns False at the end."""
        if not select.select([self.fd], [], [], 0.05)[0]:
            return True
        try:
            more = os.read(self.fd, 65536)
        except OSError:  # Linux says so when the program has closed the terminal.
            return False
        self.output += more.decode(errors="replace")
        return bool(more)

    def wait_for(self, holds, what: str) -> None:
        deadline = time.monotonic() + SECONDS_MAX
        while not holds():
            if not self._read() and not holds():
                raise AssertionError(f"the program ended before {what}: {self.output[-2000:]!r}")
            if time.monotonic() > deadline:
                raise AssertionError(f"not in time: {what}: {self.output[-2000:]!r}")

    def expect(self, text: str) -> None:
        """Waits for the text and forgets what came before its end."""
        self.wait_for(lambda: text in self.output, text)
        self.output = self.output[self.output.index(text) + len(text):]

    def end(self) -> tuple[int, str]:
        """Waits for the end of the program. Returns its exit code and the rest of the output."""
        deadline = time.monotonic() + SECONDS_MAX
        while self._read():
            if time.monotonic() > deadline:
                os.kill(self.pid, signal.SIGKILL)
                raise AssertionError(f"does not end: {self.output[-2000:]!r}")
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status), self.output

    def text(self) -> str:
        """The output without sequences."""
        return SEQUENCE.sub("", self.output).replace("\r", "")

    def frame(self) -> str:
        """The last complete screen, without sequences."""
        frames = [frame for frame in self.output.split("\033[H") if frame.endswith("\033[J")]
        return SEQUENCE.sub("", frames[-1]).replace("\r", "") if frames else ""


class TerminalTest(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory(prefix="duetime-terminal.")
        self.addCleanup(directory.cleanup)
        self.data_dir = directory.name + "/data"
        address = f"unix:{directory.name}/s"
        with open(directory.name + "/log", "wb") as log:
            daemon = subprocess.Popen([DUETIMED, "--data-dir", self.data_dir, "--init", "--listen", address,
                                       "--metrics-listen", "", "--shards", "1"], stderr=log, stdout=log)
        self.addCleanup(daemon.wait)
        self.addCleanup(daemon.kill)
        self.environment = {"PATH": os.environ["PATH"], "TERM": "xterm", "DUETIME_SERVER": address}
        deadline = time.monotonic() + SECONDS_MAX
        while self.run_tool("topic", "list", "--timeout", "1s").returncode != 0:
            self.assertLess(time.monotonic(), deadline, "the daemon does not answer")

    def run_tool(self, *words: str, **changes: str) -> subprocess.CompletedProcess:
        return subprocess.run([DUETIME, *words], env=self.environment | changes, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=SECONDS_MAX, check=False)

    def out(self, *words: str) -> str:
        result = self.run_tool(*words)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def terminal(self, *words: str, rows: int = 24, **changes: str) -> Terminal:
        return Terminal([DUETIME, *words], self.environment | changes, rows)

    def schedule(self, topic: str, count: int, delay: str = "1h") -> None:
        self.out("schedule", topic, "p", "--in", delay, "--count", str(count))

    # ---- doctor

    def test_doctor_looks_at_the_machine_of_the_server(self):
        levels = {}
        # Clock, disk and limits are the machine's: what doctor finds there, and so its exit code, is not known here.
        for line in self.run_tool("doctor", "--json", "--data-dir", self.data_dir).stdout.splitlines():
            finding = json.loads(line)
            levels[finding["check"]] = finding["level"]
        self.assertLessEqual({"server", "version", "clock", "offset", "access", "disk", "fsync", "open files", "memory"},
                             levels.keys())
        self.assertEqual([levels[name] for name in ("server", "version", "access")], ["ok"] * 3)
        self.assertEqual(sorted(os.listdir(self.data_dir)), ["db", "witness"])

    def test_colours_at_a_terminal_only(self):
        self.assertIn("\033[32mok\033[0m", self.terminal("doctor").end()[1])
        for words, changes in ((("doctor", "--no-color"), {}), (("doctor",), {"NO_COLOR": "1"}), (("doctor",), {"TERM": "dumb"})):
            self.assertNotRegex(self.terminal(*words, **changes).end()[1], COLOUR)
        self.assertNotRegex(self.run_tool("doctor").stdout, COLOUR)

    # ---- top

    def test_top_prints_one_screen(self):
        self.schedule("waits", 3)
        self.schedule("late", 2, "0s")
        lines = [json.loads(line) for line in self.out("top", "--once", "--json", "--interval", "100ms").splitlines()]
        counts = {line["topic"]: (line["pending"], line["due"], line["note"]) for line in lines}
        self.assertEqual(counts, {"waits": (3, 0, ""), "late": (2, 2, "no subscription")})
        screen = self.out("top", "w", "--once", "--interval", "100ms")
        self.assertRegex(screen, r"\nwaits +3 +0 ")
        self.assertNotIn("\nlate ", screen)
        self.assertNotIn("\033", screen)

    def test_top_counts_deliveries(self):
        self.schedule("t", 1, "0s")
        reader = subprocess.Popen([DUETIME, "subscribe", "t", "--quiet"], env=self.environment,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(reader.wait)
        self.addCleanup(reader.kill)
        terminal = self.terminal("top", "--interval", "100ms")
        rate = re.compile(r"^t +\d+ +\d+ +\d+ +[1-9]", re.MULTILINE)

        def has_rate() -> bool:
            # Again and again, because a rate needs deliveries between two pictures.
            self.schedule("t", 10, "0s")
            return bool(rate.search(terminal.text()))

        terminal.wait_for(has_rate, "a rate")
        terminal.type("q")
        self.assertEqual(terminal.end()[0], 0)

    def test_top_orders_resizes_and_gives_the_terminal_back(self):
        for topic, count in (("few", 1), ("many", 9), ("some", 5)):
            self.schedule(topic, count)
        terminal = self.terminal("top", "--interval", "100ms", "--order", "pending")

        def order() -> list[str]:
            return re.findall(r"^(few|many|some) ", terminal.frame(), re.MULTILINE)

        terminal.wait_for(lambda: order() == ["many", "some", "few"], "the order by pending")
        terminal.type("n")
        terminal.wait_for(lambda: order() == ["few", "many", "some"], "the order by name")
        terminal.resize(rows=8, columns=120)
        terminal.wait_for(lambda: "and 1 more topics" in terminal.frame(), "a smaller screen")
        self.assertEqual(len(terminal.frame().splitlines()), 8)
        terminal.type("q")
        code, shown = terminal.end()
        self.assertEqual(code, 0)
        self.assertTrue(shown.endswith(RETURNED), shown[-40:])

    def test_top_restores_the_modes_of_the_terminal(self):
        for keys, how in (("q", "the key"), ("\x03", "Ctrl-C")):
            with self.subTest(how):
                # The shell keeps the terminal open, so that its modes can be compared.
                script = 'trap : INT; echo ready; read x; "$0" top; echo "ended $?"; read x'
                shell = Terminal(["/bin/sh", "-c", script, DUETIME], self.environment)
                shell.expect("ready")
                before = shell.modes()
                shell.type("\n")
                shell.expect("q ends")
                self.assertFalse(shell.modes()[3] & termios.ICANON)
                shell.type(keys)
                shell.expect(RETURNED)
                shell.expect("ended 0")
                self.assertEqual(shell.modes(), before)
                shell.type("\n")
                self.assertEqual(shell.end()[0], 0)

    def test_top_stops_and_continues(self):
        terminal = self.terminal("top")
        terminal.expect("q ends")
        terminal.type("\x1a")
        terminal.expect(RETURNED)
        _, status = os.waitpid(terminal.pid, os.WUNTRACED)
        self.assertTrue(os.WIFSTOPPED(status))
        os.kill(terminal.pid, signal.SIGCONT)
        terminal.expect(TAKEN)
        terminal.expect("q ends")
        terminal.type("q")
        self.assertEqual(terminal.end()[0], 0)

    # ---- bench

    def topics(self) -> str:
        return self.out("topic", "list", "--json")

    def test_bench_measures_and_removes_its_topic(self):
        figures = json.loads(self.out("bench", "--count", "600", "--payload-bytes", "10", "--json"))
        self.assertEqual(figures.pop("payload_bytes"), 10)
        self.assertEqual(figures.keys(), {"schedule_per_second", "deliver_per_second", "one_schedule_p50_ms",
                                          "one_schedule_p99_ms", "lateness_p50_ms", "lateness_p99_ms"})
        self.assertGreater(figures["schedule_per_second"], 0)
        self.assertGreater(figures["deliver_per_second"], 0)
        counts = json.loads(self.out("info", "--json"))["counts"]
        self.assertEqual(counts["accepted"], str(600 + 200 + 2000))
        self.assertEqual(counts["acked"], counts["accepted"])
        self.assertEqual(self.topics(), "")

    def test_bench_ends_in_time_and_removes_its_topic(self):
        result = self.run_tool("bench", "--count", "1000000", "--for", "100ms")
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("ended after the time of --for", result.stderr)
        self.assertRegex(result.stdout, r"schedule +\d+ messages/s")
        self.assertIn("lateness      not measured", result.stdout)
        self.assertEqual(self.topics(), "")

    def test_bench_removes_its_topic_after_ctrl_c(self):
        terminal = self.terminal("bench", "--count", "1000000")
        terminal.wait_for(lambda: "duetime-bench" in self.topics(), "the topic")
        terminal.type("\x03")
        code, shown = terminal.end()
        self.assertEqual(code, 130, shown)
        self.assertIn("interrupted", shown)
        self.assertEqual(self.topics(), "")

    def test_bench_leaves_an_existing_topic_alone(self):
        self.schedule("orders", 3)
        result = self.run_tool("bench", "--topic", "orders")
        self.assertEqual(result.returncode, 1)
        self.assertIn("topic orders exists", result.stderr)
        self.assertEqual(json.loads(self.out("topic", "get", "orders", "--json"))["counts"]["pending"], "3")

    # ---- progress and Ctrl-C

    def test_ctrl_c_during_a_long_schedule(self):
        terminal = self.terminal("schedule", "t", "p", "--in", "1h", "--count", "100000000")
        terminal.expect(" of 100000000 messages")
        terminal.type("\x03")
        code, shown = terminal.end()
        self.assertEqual(code, 128 + signal.SIGINT)
        last = re.search(r"interrupted; scheduled (\d+) of 100000000 messages, or a batch more\s*$", shown)
        self.assertTrue(last, shown)
        self.assertLessEqual(int(last[1]), int(json.loads(self.out("info", "--json"))["counts"]["accepted"]))

    def test_ctrl_c_ends_the_wait_and_not_the_operation(self):
        self.schedule("t", 400_000)  # a purge takes seconds
        terminal = self.terminal("bulk", "purge", "t", "--all", "--wait", "--name", "p1")
        terminal.expect(" changed so far")
        terminal.type("\x03")
        code, shown = terminal.end()
        self.assertEqual(code, 128 + signal.SIGINT)
        self.assertIn("the server goes on. To see the progress: duetime bulk get p1; to end it: duetime bulk stop p1", shown)
        self.assertIn(json.loads(self.out("bulk", "get", "p1", "--json"))["state"], ("STATE_RUNNING", "STATE_DONE"))
        self.run_tool("bulk", "stop", "p1")  # refused if the operation has ended
        self.schedule("few", 10)
        silent = self.run_tool("bulk", "purge", "few", "--all", "--wait")
        self.assertEqual((silent.returncode, silent.stderr), (0, ""))

    def test_states_have_colours(self):
        self.schedule("t", 1)
        self.out("topic", "pause", "t")
        for words, painted in ((("topic", "list"), "\033[33mpaused\033[0m  -"), (("info",), "\033[32mserving\033[0m"),
                               (("topic", "get", "t"), "paused        \033[33myes"), (("get", "x"), "\033[31mduetime:\033[0m ")):
            self.assertIn(painted, self.terminal(*words).end()[1])


if __name__ == "__main__":
    DUETIMED, DUETIME = (os.path.abspath(path) for path in sys.argv[1:3])
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
