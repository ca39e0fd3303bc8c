#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Types into a real shell on a terminal, presses Tab, and looks at the words that the shell then passes to duetime.

    tests/integration/completion_test.py DUETIMED DUETIME bash|zsh|fish"""

import fcntl
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

SECONDS_MAX = 30

# How each shell starts without the files of the person at this machine, and how it learns the completion.
SHELLS = {
    "bash": (["bash", "--noprofile", "--norc", "-i"], "source <(duetime completion bash)"),
    "zsh": (["zsh", "-f", "-i"], "autoload -Uz compinit; compinit -u -D; source <(duetime completion zsh)"),
    "fish": (["fish", "--no-config", "-i"], "duetime completion fish | source"),
}

# What is typed before Tab and Return, and the words that duetime gets.
CASES = [
    ("duetime sched", ["schedule"]),
    ("duetime topic upd", ["topic", "update"]),
    ("duetime list ord", ["list", "orders"]),
    ("duetime topic get shop:", ["topic", "get", "shop:returns"]),
    ("duetime subscribe orders -s bil", ["subscribe", "orders", "-s", "billing"]),
    ("duetime subscribe orders --subscription=bil", ["subscribe", "orders", "--subscription=billing"]),
    ("duetime schedule orders --late dr", ["schedule", "orders", "--late", "drop"]),
    ("duetime list orders --lab", ["list", "orders", "--label"]),
    ("duetime schedule orders --file pay", ["schedule", "orders", "--file", "payload.txt"]),
    # Not at the beginning of the line.
    ("true; A=1 duetime list ord", ["list", "orders"]),
    # No server: nothing is completed, and the shell does not hang.
    ("duetime --server 127.0.0.1:1 list ord", ["--server", "127.0.0.1:1", "list", "ord"]),
]

# Stands for the tool: prints its words, but passes on what the completion asks.
WRAPPER = """#!/bin/sh
case $1 in completion) exec "{tool}" "$@" ;; esac
printf 'words:'
printf '<%s>' "$@"
echo
"""


class Terminal:
    """A shell on a terminal of its own."""

    def __init__(self, argv: list[str], environment: dict[str, str], folder: str):
        self.text = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvpe(argv[0], argv, environment)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def wait_for(self, pattern: str, count: int) -> list[str]:
        """The matches in all that the terminal showed, once there are `count`, or when the time is over."""
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            found = re.findall(pattern, self.text)
            left = deadline - time.monotonic()
            if len(found) >= count or left <= 0:
                return found
            if select.select([self.fd], [], [], left)[0]:
                try:
                    self.text += os.read(self.fd, 65536).decode(errors="replace")
                except OSError:  # The shell has ended.
                    return re.findall(pattern, self.text)

    def close(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


def start_daemon(duetimed: str, scratch: str) -> tuple[subprocess.Popen, str]:
    argv = [duetimed, "--data-dir", scratch + "/data", "--init", "--listen", "127.0.0.1:0", "--metrics-listen", ""]
    daemon = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in daemon.stdout:
        if ready := re.search(r"ready: .* grpc=(\S+)", line):
            return daemon, ready[1]
    sys.exit("the daemon did not start")


def failures_of(shell: str, environment: dict[str, str], folder: str) -> list[str]:
    argv, learn = SHELLS[shell]
    terminal = Terminal(argv, environment, folder)
    failures = []
    try:
        terminal.type(learn + "\r")
        terminal.type("duetime is-ready\r")
        done = len(terminal.wait_for(r"words:<is-ready>", 1))
        for typed, expected in CASES:
            terminal.type(f"{typed}\t\r")
            done += 1
            found = terminal.wait_for(r"words:((?:<[^>]*>)+)", done)
            words = re.findall(r"<([^>]*)>", found[-1]) if len(found) == done else None
            if words != expected:
                failures.append(f"{typed!r} became {words}, not {expected}")
                break
    finally:
        terminal.close()
    return failures + ([terminal.text[-5000:]] if failures else [])


def main() -> int:
    duetimed, duetime = (os.path.abspath(path) for path in sys.argv[1:3])
    with tempfile.TemporaryDirectory(prefix="duetime-completion.") as scratch:
        daemon, server = start_daemon(duetimed, scratch)
        try:
            environment = {"PATH": scratch + ":" + os.environ["PATH"], "HOME": scratch, "TERM": "xterm", "LANG": "C.UTF-8",
                           "DUETIME_SERVER": server, "DUETIME_CONTEXT": "none"}
            for words in (["topic", "create", "orders"], ["topic", "create", "shop:returns"],
                          ["subscription", "create", "orders", "billing"]):
                subprocess.run([duetime, *words], env=environment, check=True, stdout=subprocess.DEVNULL)
            with open(scratch + "/duetime", "w", encoding="utf-8") as file:
                file.write(WRAPPER.format(tool=duetime))
            os.chmod(scratch + "/duetime", 0o755)
            open(scratch + "/payload.txt", "w", encoding="utf-8").close()
            failures = failures_of(sys.argv[3], environment, scratch)
        finally:
            daemon.kill()
            daemon.wait()
    print("\n".join(failures) or f"{len(CASES)} lines completed by {sys.argv[3]}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
