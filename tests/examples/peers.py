# SPDX-License-Identifier: Apache-2.0
"""Servers of other kinds, each with a directory of its own below a temporary folder, on a Unix socket or a loopback port."""

import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time

SECONDS_MAX = 30


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class _Server:
    """A process with an address."""

    stop_signal = signal.SIGTERM

    def __init__(self, folder: str):
        self.folder = tempfile.mkdtemp(prefix=type(self).__name__.lower() + "-", dir=folder)
        self._process: subprocess.Popen | None = None

    def _start(self, words: list[str], family: socket.AddressFamily, address: object, **options: object) -> None:
        log = os.path.join(self.folder, "log")
        with open(log, "ab") as file:
            self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=file, stderr=file, **options)
        end = time.monotonic() + SECONDS_MAX
        while True:
            with socket.socket(family) as connection:
                if connection.connect_ex(address) == 0 and self._is_ready():
                    return
            if self._process.poll() is not None or time.monotonic() > end:
                self.stop()
                with open(log, encoding="utf-8", errors="replace") as file:
                    raise RuntimeError(f"{words[0]} did not start: {file.read()[-2000:]}")
            time.sleep(0.02)

    def _is_ready(self) -> bool:
        return True

    def stop(self) -> None:
        """Not with SIGKILL, after which PostgreSQL leaves its shared memory behind."""
        if self._process is not None:
            self._process.send_signal(self.stop_signal)
            self._process.wait(SECONDS_MAX)


class Postgres(_Server):
    """PostgreSQL refuses to run as root, so root starts it as the user of Debian's package."""

    stop_signal = signal.SIGINT  # ends its sessions, too

    def __init__(self, folder: str):
        super().__init__(folder)
        options = {}
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chmod(folder, 0o711)
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            options = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        data = os.path.join(self.folder, "data")
        subprocess.run([self._program("initdb"), "--pgdata", data, "--auth", "trust", "--username", "shop", "--encoding", "UTF8",
                        "--no-locale", "--no-sync"], check=True, capture_output=True, cwd="/", **options)
        self.environment = {"PGHOST": self.folder, "PGUSER": "shop", "PGDATABASE": "postgres", "PGPORT": "5432"}
        self._start([self._program("postgres"), "-D", data, "-k", self.folder, "-c", "listen_addresses=", "-c", "fsync=off"],
                    socket.AF_UNIX, os.path.join(self.folder, ".s.PGSQL.5432"), cwd="/", **options)

    def _is_ready(self) -> bool:
        """It accepts connections before, and refuses sessions then."""
        environment = dict(os.environ, **self.environment)
        return subprocess.run(["pg_isready", "--quiet"], env=environment, check=False).returncode == 0

    @staticmethod
    def _program(name: str) -> str:
        """Debian keeps the programs of the server out of the search path."""
        found = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}")) or [shutil.which(name)]
        if found[-1] is None:
            raise RuntimeError(f"{name} is not installed")
        return found[-1]


class Redis(_Server):
    def __init__(self, folder: str):
        super().__init__(folder)
        self.socket = os.path.join(self.folder, "redis.sock")
        self._start(["redis-server", "--port", "0", "--unixsocket", self.socket, "--save", "", "--dir", self.folder],
                    socket.AF_UNIX, self.socket)


class Beanstalkd(_Server):
    """With a binlog in `binlog`, or without."""

    def __init__(self, folder: str, with_binlog: bool):
        super().__init__(folder)
        self.port = free_port()
        self.binlog = os.path.join(self.folder, "binlog")
        os.mkdir(self.binlog)
        flags = ["-b", self.binlog] if with_binlog else []
        self._start(["beanstalkd", "-l", "127.0.0.1", "-p", str(self.port), *flags], socket.AF_INET, ("127.0.0.1", self.port))
