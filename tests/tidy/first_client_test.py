#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the examples of proto/FIRST_CLIENT.md as they stand there, against a daemon.

  first_client_test.py ROOT DUETIMED   needs grpcio-tools and googleapis-common-protos for the Python that runs it
"""

import os
import re
import signal
import subprocess
import sys
import tempfile

# What each Python example prints; the id of a message is <id>.
EXPECTED = [
    "scheduled <id>\nreceived remind 17 attempt 1\n",
    "received 0\nreceived 1\nreceived 2\nconfirmed 3\n",
    "INVALID_ARGUMENT INVALID_TOPIC topic\nINVALID_TOPIC\n",
]
SECONDS_MAX = 60


def start_daemon(program: str, folder: str) -> tuple[subprocess.Popen, str]:
    """The daemon, and the address that the system chose for it."""
    daemon = subprocess.Popen([program, "--data-dir", os.path.join(folder, "data"), "--init", "--listen", "127.0.0.1:0",
                               "--metrics-listen", ""], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in daemon.stdout:
        if match := re.search(r"ready: .* grpc=(\S+)", line):
            return daemon, match[1]
    raise AssertionError(f"the daemon ended with {daemon.wait()} before it was ready")


def generate(root: str, commands: str, folder: str) -> None:
    """Runs the page's own command for protoc, with the output in `folder`."""
    line = next(line for line in commands.splitlines() if "grpc_tools.protoc" in line)
    arguments = line.replace("=generated", "=" + folder).split()[1:]
    protos = "proto/duetime/v1/"
    names = [protos + name for name in sorted(os.listdir(os.path.join(root, protos))) if name.endswith(".proto")]
    subprocess.run([sys.executable, "-W", "error", *arguments[:-1], *names], cwd=root, check=True)


def main() -> int:
    root, program = sys.argv[1:]
    with open(os.path.join(root, "proto/FIRST_CLIENT.md"), encoding="utf-8") as file:
        page = file.read()
    commands = re.search(r"```sh\n(.*?)```", page, re.DOTALL)[1]
    examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(examples) == len(EXPECTED), f"{len(examples)} examples, and what {len(EXPECTED)} of them print"
    with tempfile.TemporaryDirectory() as folder:
        generate(root, commands, folder)
        daemon, address = start_daemon(program, folder)
        try:
            for example, expected in zip(examples, EXPECTED):
                assert "127.0.0.1:7788" in example
                result = subprocess.run([sys.executable, "-c", example.replace("127.0.0.1:7788", address)], text=True,
                                        capture_output=True, check=False, timeout=SECONDS_MAX,
                                        env=os.environ | {"PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"})
                printed = re.sub(r"\b[0-9a-z]{26}\b", "<id>", result.stdout)
                assert printed == expected and not result.stderr, f"{example}\nprinted:\n{result.stdout}{result.stderr}"
        finally:
            daemon.send_signal(signal.SIGTERM)
            daemon.communicate(timeout=SECONDS_MAX)
    print(f"{len(examples)} examples passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
