#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Types the commands of the README and of the site's pages into a shell, line by line, and expects that each succeeds.

    tests/integration/tour_test.py DUETIMED DUETIME [DOCUMENT...]

A page gets a daemon, if it starts none. Each line of a block of text after a block of commands must be in their output.

Only what depends on the place differs: the programs, the ports and the directory. ID is the id of a message that was
scheduled, and a command that runs until Ctrl-C gets it after two seconds."""

import concurrent.futures
import glob
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

# What lines of the tours must print. Of a document without a heading, all blocks are typed.
README = {
    "duetime explain": "It is due in",
    "duetime cancel": "is cancelled: it was never delivered",
    "duetime subscribe orders": '{"order": 17}',
}
FIVE_MINUTES = {
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
PAGES = "deploy/site/pages"
# The documents with tables of their own: (heading of the part that is typed, what it must print).
TOURS = {"README.md": ("## Try it", README), PAGES + "/first-five-minutes.md": ("", FIVE_MINUTES)}
START = "duetimed --data-dir /tmp/duetime-tour --init >/tmp/duetime-tour.log 2>&1 &"


def documents() -> list[str]:
    """The README, and each page of the site that has commands itself."""
    pages = glob.glob(os.path.join(ROOT, PAGES, "**/*.md"), recursive=True)
    return ["README.md", *sorted(os.path.relpath(page, ROOT) for page in pages if "```sh" in read(page))]


def read(path: str) -> str:
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def lines_of(document: str, heading: str) -> tuple[list[str], dict[int, list[str]]]:
    """The commands, and what the output up to a command must have said."""
    text = read(document)
    if heading:
        text = re.search(rf"^{re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)[1]
    lines: list[str] = []
    said: dict[int, list[str]] = {}
    for language, block in re.findall(r"```(sh|text)\n(.*?)```", text, re.DOTALL):
        if language == "sh":
            lines += [line for line in block.splitlines() if line.strip()]
        else:
            said[len(lines) - 1] = block.splitlines()
    return lines, said


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


def faults_of(document: str, heading: str, expected: dict[str, str]) -> list[str]:
    """Types the lines, and returns what went wrong."""
    lines, said = lines_of(document, heading)
    if not any(line.startswith("duetimed") for line in lines):
        lines, said = [START, *lines], {number + 1: texts for number, texts in said.items()}
    server, metrics = free_ports()
    with tempfile.TemporaryDirectory(prefix="duetime-tour.") as scratch:
        environment = dict(os.environ, SCRATCH=scratch, DUETIME_SERVER=f"127.0.0.1:{server}", DUETIME_CONTEXT="none",
                           METRICS=f"127.0.0.1:{metrics}")
        run = subprocess.run(["bash", "-c", script(lines, scratch)], env=environment, cwd=scratch, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS_MAX, check=False)
    print(run.stdout[-20_000:])
    results = re.findall(r"^@@ (\d+)\n(.*?)^@= (\d+)$", run.stdout, re.DOTALL | re.MULTILINE)
    faults = [] if len(results) == len(lines) > 0 else [f"{len(results)} of {len(lines)} lines ended"]
    for number, output, status in results:
        line = lines[int(number)]
        if status != "0":
            faults.append(f"exit code {status}: {line}")
        for command, text in expected.items():
            if command in line and text not in output:
                faults.append(f"printed no {text!r}: {line}")
    outputs = {int(number): output for number, output, _ in results}
    begun = 0
    for number, texts in sorted(said.items()):
        output = "".join(outputs.get(one, "") for one in range(begun, number + 1))
        faults += [f"{lines[number]}: not printed: {text!r}" for text in texts if text not in output]
        begun = number + 1
    for command in expected:
        if not any(command in line for line in lines):
            faults.append(f"the tour has no {command!r}")
    print(f"{document}: {len(lines)} lines of the tour, {len(faults)} faults")
    return [f"{document}: {fault}" for fault in faults]


def main() -> int:
    os.environ["DUETIMED"], os.environ["DUETIME"] = (os.path.abspath(path) for path in sys.argv[1:3])
    chosen = sys.argv[3:] or documents()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        faults = sum(pool.map(lambda one: faults_of(one, *TOURS.get(one, ("", {}))), chosen), [])
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
