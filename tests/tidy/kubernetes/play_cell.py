#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plays the three pods of a rendered cell and its proxy on this machine, on brokers that run already.

  play_cell.py DUETIMED DUETIME HAPROXY BROKERS OBJECTS.yaml

All members become ready, and one of them leads. A client that knows the proxy only schedules and receives. Then the leader is
killed, and the pods are replaced as an update of the StatefulSet does it: the highest number first, each after the one before
it is ready. The client is served after each of these. A member that reaches no broker is not ready.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import play
from play import DEADLINE_S, DUETIME, DUETIMED

HAPROXY, BROKERS, OBJECTS = sys.argv[3:6]
LEADS = "/readyz"


def wait(what: str, condition):
    deadline = time.monotonic() + DEADLINE_S
    while not (result := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.05)
    return result


class Member:
    """A pod of the cell, and its process."""

    def __init__(self, folder: str, objects: str, number: int, brokers: str = BROKERS):
        self.name = f"duetime-{number}"
        os.mkdir(os.path.join(folder, self.name))
        self.pod = play.Pod(os.path.join(folder, self.name), objects)
        pods = next(part for part in objects.split("\n---\n") if re.search(r"^kind: StatefulSet$", part, re.MULTILINE))
        self.readiness = play.probe_paths(pods)["readiness"]
        if number > 0:
            # All pods have the Secrets of the first one.
            for secret in ("tls", "access"):
                shutil.copytree(os.path.join(folder, "duetime-0", secret), os.path.join(self.pod.folder, secret),
                                dirs_exist_ok=True)
        shutil.copy(os.path.join(self.pod.folder, "access/token"), os.path.join(self.pod.folder, "access/member.token"))
        os.mkdir(os.path.join(self.pod.folder, "kafka"))
        with open(os.path.join(self.pod.folder, "kafka/kafka.properties"), "w", encoding="utf-8") as file:
            file.write("security.protocol=PLAINTEXT\n")
        flags = re.findall(r"^ +- (--cell-[\w-]+=\S+)$", pods, re.MULTILINE)
        assert len(flags) >= 5, flags
        text = "\n".join(flags)
        # The name is in the address, too, which is another one here.
        text, count = re.subn(r"(?<=--cell-address=)\$\(POD_NAME\)[.][\w.$()-]+[.]svc:7788", f"127.0.0.1:{self.pod.port}", text)
        assert count == 1, text
        text = re.sub(r"(?<=--cell-brokers=)\S+", brokers, text)
        # Each file has a cell of its own.
        text = re.sub(r"(?<=--cell-topic=)\S+", f"duetime.{os.path.basename(OBJECTS)}", text)
        text = text.replace("$(POD_NAME)", self.name)
        assert "$" not in text, text
        self.start_command = [DUETIMED, "--config", self.pod.config, *self.pod.here(text).splitlines()]
        with open(os.path.join(self.pod.folder, "consent/yes"), "w", encoding="utf-8"):
            pass
        self.process: subprocess.Popen | None = None

    def start(self):
        play.run("sh", "-ec", self.pod.init)
        with open(os.path.join(self.pod.folder, "log"), "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(self.start_command, stderr=log)  # pylint: disable=consider-using-with

    def end(self, kill: bool = False):
        if self.process is None:
            return
        if kill:
            self.process.kill()
        else:
            self.process.terminate()
        code = self.process.wait(DEADLINE_S)
        assert kill or code == 0, code
        self.process = None

    def ready(self) -> bool:
        return self.pod.probe(self.readiness) == 200

    def leads(self) -> bool:
        return self.pod.probe(LEADS) == 200


class Proxy:
    """HAProxy with the configuration of the objects, and the addresses of the members here."""

    def __init__(self, folder: str, objects: str, members: list[Member]):
        self.port = play.free_port()
        text = play.block(objects, "haproxy[.]cfg:")
        text = text.replace("bind :7788", f"bind 127.0.0.1:{self.port}")
        text = text.replace("bind :7780", f"bind 127.0.0.1:{play.free_port()}")
        self.config = os.path.join(folder, "haproxy.cfg")
        # As it is, too.
        self.check(text)
        for member in members:
            here = f"127.0.0.1:{member.pod.port} port {member.pod.metrics_port}"
            text, count = re.subn(rf'(server {member.name}) "\S+"', rf"\1 {here}", text)
            assert count == 1, text
        # There is no DNS here.
        text = text.replace(" resolvers cluster init-addr none", "")
        self.check(text)
        self.process = subprocess.Popen([HAPROXY, "-db", "-f", self.config], stdout=subprocess.DEVNULL,  # pylint: disable=R1732
                                        stderr=subprocess.DEVNULL)

    def check(self, text: str):
        with open(self.config, "w", encoding="utf-8") as file:
            file.write(text)
        environment = {"POD_NAMESPACE": "queues", "CLUSTER_DOMAIN": "cluster.local"}
        checked = subprocess.run([HAPROXY, "-c", "-f", self.config], env=environment, text=True, capture_output=True, check=False)
        assert checked.returncode == 0, checked.stderr

    def end(self):
        self.process.kill()
        self.process.wait()


def serves(members: list[Member], proxy: Proxy):
    """One member leads, and a client of the proxy schedules and receives."""
    wait("one leader", lambda: sum(member.leads() for member in members) == 1)
    options = members[0].pod.client(True)
    options[1] = f"127.0.0.1:{proxy.port}"
    schedule = [DUETIME, "schedule", "orders", "hello", "--in", "0s", *options]
    # The proxy asks twice a second who leads.
    wait("the proxy's leader", lambda: subprocess.run(schedule, capture_output=True, check=False).returncode == 0)
    assert "hello" in play.run(DUETIME, "subscribe", "orders", "--max", "1", "--for", "20s", *options)


def replace(member: Member, members: list[Member]):
    member.end()
    assert not member.ready()
    member.start()
    wait(f"{member.name} is ready", lambda: all(each.ready() for each in members))


def main():
    with open(OBJECTS, encoding="utf-8") as file:
        objects = file.read()
    with tempfile.TemporaryDirectory() as folder:
        members = [Member(folder, objects, number) for number in range(3)]
        alone = Member(folder, objects, 3, f"127.0.0.1:{play.free_port()}")
        proxy = Proxy(folder, objects, members)
        try:
            for member in (*members, alone):
                member.start()
            wait("all are ready", lambda: all(member.ready() for member in members))
            serves(members, proxy)
            leader = next(member for member in members if member.leads())
            leader.end(kill=True)
            serves([member for member in members if member is not leader], proxy)
            leader.start()
            wait("the killed member is ready", lambda: all(member.ready() for member in members))
            for member in reversed(members):
                replace(member, members)
                serves(members, proxy)
            assert alone.pod.probe("/healthz") == 200 and not alone.ready()
        except BaseException:
            for member in members:
                with open(os.path.join(member.pod.folder, "log"), encoding="utf-8") as log:
                    print(member.name, log.read(), sep="\n")
            raise
        finally:
            proxy.end()
            for member in (*members, alone):
                member.end(kill=True)
    print(f"{os.path.basename(OBJECTS)}: served through its proxy, after the leader was killed, and after each pod was replaced")


main()
