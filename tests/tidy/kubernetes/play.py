#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plays the pod of rendered Kubernetes objects on this machine, with its paths in a folder and its addresses on the loopback.

  play.py DUETIMED DUETIME OBJECTS.yaml...

For each file: without consent, the init container creates nothing and the daemon refuses to start. With it, the daemon starts,
its probes answer, and a client schedules and receives with the credentials of the configuration, but not without them.
"""

import os
import re
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
import urllib.request

DUETIMED, DUETIME = sys.argv[1:3]  # also of play_cell.py, which has the same first arguments
DEADLINE_S = 30
RULE = 'who = {}\nmay = ["schedule", "cancel", "read_payloads", "subscribe", "admin", "operate"]\ntopics = ["*"]\n'


def run(*command: str, ok: bool = True) -> str:
    result = subprocess.run(command, text=True, capture_output=True, check=False, timeout=60)
    text = result.stdout + result.stderr
    assert (result.returncode == 0) == ok, f"{command}: exit {result.returncode}\n{text}"
    return text


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def block(objects: str, head: str) -> str:
    """The text of the literal block below this head, a regular expression."""
    match = re.search(rf"^( *){head} ?\|-?\n((?:\1 +.*\n|\n)+)", objects, re.MULTILINE)
    assert match, f"{head}: not in the objects"
    return textwrap.dedent(match[2])


def probe_paths(objects: str) -> dict[str, str]:
    """The path of each probe."""
    found = re.findall(r"(\w+)Probe:\n(?: +\w+: \d+\n)* +httpGet:(?: \{|\n +)path: ([\w/]+)", objects)
    assert len(found) == 3, found
    return dict(found)


class Pod:
    """The paths of the pod, below a folder."""

    def __init__(self, folder: str, objects: str):
        self.folder = folder
        self.port, self.metrics_port = free_port(), free_port()
        self.data = os.path.join(folder, "data")
        for name in ("data", "consent", "tls", "access"):
            os.mkdir(os.path.join(folder, name))
        self.secure = "tls_cert" in objects
        self.tokens = "tokens_file" in objects
        self.make_secrets()
        self.config = os.path.join(folder, "duetimed.toml")
        with open(self.config, "w", encoding="utf-8") as file:
            text = self.here(block(objects, "duetimed[.]toml:"))
            file.write(text.replace("0.0.0.0:7788", f"127.0.0.1:{self.port}")
                       .replace("0.0.0.0:7789", f"127.0.0.1:{self.metrics_port}"))
        # As it is, too: the addresses are what must be allowed.
        with open(os.path.join(folder, "pod.toml"), "w", encoding="utf-8") as file:
            file.write(text)
        run(DUETIMED, "--config", file.name, "--check-config")
        self.init = self.here(block(objects, "- sh\n +- -ec\n *-"))

    def here(self, text: str) -> str:
        for path, name in (("/var/lib/duetime", "data"), ("/etc/duetime", "."), ("/consent", "consent"),
                           ("/tmp/duetime.sock", "duetime.sock")):
            text = text.replace(path, os.path.join(self.folder, name))
        return text

    def make_secrets(self):
        tls, access = os.path.join(self.folder, "tls"), os.path.join(self.folder, "access")
        run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
            "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", f"{tls}/tls.key", "-out", f"{tls}/tls.crt")
        run("cp", f"{tls}/tls.crt", f"{tls}/ca.crt")
        with open(f"{access}/token", "w", encoding="utf-8") as file:
            file.write(run(DUETIME, "token", "create", "orders", "--file", f"{access}/tokens.toml").split("\n")[0])
        with open(f"{access}/access.toml", "w", encoding="utf-8") as file:
            file.write("[[rule]]\n" + RULE.format('["orders"]'))

    def client(self, credentials: bool) -> list[str]:
        options = ["--server", f"127.0.0.1:{self.port}", "--timeout", "5s"]
        tls = os.path.join(self.folder, "tls")
        if self.secure:
            options += ["--tls-ca", f"{tls}/ca.crt"]
        if credentials and self.tokens:
            options += ["--token-file", os.path.join(self.folder, "access/token")]
        elif credentials and self.secure:
            options += ["--tls-cert", f"{tls}/tls.crt", "--tls-key", f"{tls}/tls.key"]
        return options

    def probe(self, path: str) -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}{path}", timeout=5) as answer:
                return answer.status
        except OSError:
            return 0


def play(path: str):
    with open(path, encoding="utf-8") as file:
        objects = file.read()
    with tempfile.TemporaryDirectory() as folder:
        pod = Pod(folder, objects)
        start = [DUETIMED, "--config", pod.config]
        run("sh", "-ec", pod.init)
        refused = subprocess.run(start, text=True, capture_output=True, check=False, timeout=60)
        assert refused.returncode == 66, refused

        with open(os.path.join(folder, "consent/yes"), "w", encoding="utf-8"):
            pass
        run("sh", "-ec", pod.init)
        with open(os.path.join(folder, "log"), "w", encoding="utf-8") as log:
            daemon = subprocess.Popen(start, stderr=log)
        try:
            probes = probe_paths(objects)
            deadline = time.monotonic() + DEADLINE_S
            while pod.probe(probes["readiness"]) != 200:
                assert daemon.poll() is None and time.monotonic() < deadline, open(log.name, encoding="utf-8").read()
                time.sleep(0.05)
            assert pod.probe(probes["liveness"]) == pod.probe(probes["startup"]) == 200
            assert not os.path.exists(os.path.join(pod.data, "store/init"))
            run(DUETIME, "schedule", "orders", "hello", "--in", "0s", *pod.client(True))
            run(DUETIME, "schedule", "orders", "x", "--in", "0s", *pod.client(False), ok=not pod.secure)
            assert "hello" in run(DUETIME, "subscribe", "orders", "--max", "1", "--for", "20s", *pod.client(True))
            # The init container of a later start changes nothing.
            run("sh", "-ec", pod.init)
            assert not os.path.exists(os.path.join(pod.data, "store/init"))
        finally:
            daemon.terminate()
            assert daemon.wait(DEADLINE_S) == 0
    print(f"{os.path.basename(path)}: refused an empty volume, then started, answered its probes, and let in those it should")


if __name__ == "__main__":
    for name in sys.argv[3:]:
        play(name)
