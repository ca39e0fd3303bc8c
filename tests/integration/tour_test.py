#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Types the tour of README.md into a shell, line by line, and expects that each command succeeds.

    tests/integration/tour_test.py DUETIMED DUETIME

Only what depends on the place differs: the programs, the ports and the directory. ID is the id of a message that was
scheduled, and a command that runs until Ctrl-C gets it after two seconds."""

import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SECONDS_MAX = 240

# The functions have the names of the programs. `ready` is true once the daemon answers.
PRELUDE = r'''
set -u
duetimed() { exec "$DUETIMED" "$@" --listen "$DUETIME_SERVER" --metrics-listen "$METRICS"; }
ready() { "$DUETIME" info >/dev/null 2>&1; }
duetime() {
  for _ in $(seq 100); do ready && break; sleep 0.1; done
  case "$*" in
    *--max*) "$DUETIME" "$@" ;;
    subscribe*) timeout --preserve-status --signal=INT 2 "$DUETIME" "$@" ;;
    schedule*)
      "$DUETIME" "$@" | tee "$SCRATCH/scheduled" &&
        grep -oE '[0-9a-z]{26}' "$SCRATCH/scheduled" | head -n 1 >>"$SCRATCH/ids" ;;
    *) "$DUETIME" "$@" ;;
  esac
}
curl() { python3 -c 'import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())' "${@: -1}"; }
trap 'kill -9 $! 2>/dev/null' EXIT
'''

# What a line of the tour must print.
EXPECTED = {
    "duetime cancel": "is cancelled: it was never delivered",
    "duetime explain": "It is due in",
    "duetime list orders": "order-17",
    "duetime pull orders": '{"order": 17}',
    "duetime dlq list": "no such customer",
    "duetime import": "scheduled 1 messages",
    "duetime export": "exported",
    "duetime bulk shift": "dry run",
    "duetime subscribe orders --max 10000": "received 10000",
    "duetime doctor": "has served for",
    "duetime top ": "TOPIC",
    "curl": "duetime_messages_accepted_total",
}


def lines_of_the_tour() -> list[str]:
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        text = file.read()
    tour = text[text.index("## Five minutes with it"):text.index("## The rooms")]
    blocks = re.findall(r"```sh\n(.*?)```", tour, re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.strip()]


def script(lines: list[str], scratch: str) -> str:
    parts = [PRELUDE]
    for number, line in enumerate(lines):
        typed = line.replace("/tmp/duetime-tour", scratch + "/tour").replace("127.0.0.1:7789", "$METRICS")
        typed = re.sub(r"^duetime cancel ID", r'duetime cancel "$(sed -n 2p "$SCRATCH/ids")"', typed)
        if line.startswith("export PATH"):
            typed = ":"
        parts.append(f'echo "@@ {number}"\n{typed}\necho "@= $?"\n')
    return "".join(parts)


def free_ports() -> list[int]:
    import socket
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def main() -> int:
    duetimed, duetime = (os.path.abspath(path) for path in sys.argv[1:3])
    lines = lines_of_the_tour()
    server, metrics = free_ports()
    with tempfile.TemporaryDirectory(prefix="duetime-tour.") as scratch:
        environment = dict(os.environ, DUETIMED=duetimed, DUETIME=duetime, SCRATCH=scratch,
                           DUETIME_SERVER=f"127.0.0.1:{server}", DUETIME_CONTEXT="none", METRICS=f"127.0.0.1:{metrics}")
        run = subprocess.run(["bash", "-c", script(lines, scratch)], env=environment, cwd=scratch, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS_MAX, check=False)
    print(run.stdout[-20_000:])
    results = re.findall(r"^@@ (\d+)\n(.*?)^@= (\d+)$", run.stdout, re.DOTALL | re.MULTILINE)
    failures = [] if len(results) == len(lines) else [f"{len(results)} of {len(lines)} lines ended"]
    for number, output, status in results:
        line = lines[int(number)]
        if status != "0":
            failures.append(f"exit code {status}: {line}")
        for command, text in EXPECTED.items():
            if command in line and text not in output:
                failures.append(f"printed no {text!r}: {line}")
    for command in EXPECTED:
        if not any(command in line for line in lines):
            failures.append(f"the tour has no {command!r}")
    print("\n".join(failures) or f"{len(lines)} lines of the tour passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
