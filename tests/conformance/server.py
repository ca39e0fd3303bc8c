# SPDX-License-Identifier: Apache-2.0
"""What the clients talk to: a daemon, a relay between client and daemon that can misbehave, and certificates."""

import collections
import os
import re
import select
import signal
import socket
import ssl
import subprocess
import tempfile
import threading

READY_SECONDS = 60


class Daemon:
    """A daemon on a directory and a port of its own, which can be killed and started again."""

    def __init__(self, program: str, folder: str, flags: tuple[str, ...] = ()):
        self._program, self._folder, self._flags = program, folder, flags
        self.address = "127.0.0.1:0"
        self._process: subprocess.Popen | None = None
        self.start()

    def start(self) -> None:
        """Starts it, on the same port as before."""
        with open(os.path.join(self._folder, "log"), "ab+") as log:
            begin = log.seek(0, os.SEEK_END)
            self._process = subprocess.Popen(
                [self._program, "--data-dir", os.path.join(self._folder, "data"), "--init", "--listen", self.address,
                 "--metrics-listen", "", *self._flags], stdout=log, stderr=log)
            # The end of the process ends the wait.
            for _ in range(READY_SECONDS * 50):
                log.seek(begin)
                if match := re.search(rb"ready: .* grpc=(\S+)", log.read()):
                    self.address = match[1].decode()
                    return
                try:
                    self._process.wait(0.02)
                    break
                except subprocess.TimeoutExpired:
                    pass
        self.kill()
        raise RuntimeError(f"the daemon did not start: {self.log()}")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def begin_stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)

    def stop(self) -> None:
        self.begin_stop()
        self.end_stop()

    def end_stop(self) -> None:
        """Waits for the end. A second SIGTERM would end the time in which clients may settle."""
        try:
            self._process.wait(READY_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def log(self) -> str:
        with open(os.path.join(self._folder, "log"), encoding="utf-8", errors="replace") as log:
            return log.read()[-4000:]


class Relay:
    """Forwards TCP connections to the server, until it is told to hold bytes back."""

    def __init__(self, target: str, tls: ssl.SSLContext | None = None):
        self._target = (target.rpartition(":")[0], int(target.rpartition(":")[2]))
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._changed = threading.Condition()
        # What clients sent over TLS.
        self.sent_up = bytearray()
        self._sockets: list[socket.socket] = []
        # The connections (by their number) that hold back bytes, in each direction.
        self._held = {"up": set(), "down": set()}
        # How many pieces of held bytes may pass nevertheless.
        self._pieces = {"up": 0, "down": 0}
        self._connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def connections(self) -> int:
        with self._changed:
            return self._connections

    def hold(self, *directions: str) -> None:
        """The present connections carry nothing more in these directions, "up" to the server and "down". New ones do."""
        with self._changed:
            for direction in directions or ("up", "down"):
                self._held[direction].update(range(self._connections + 1))

    def pass_piece(self, direction: str) -> None:
        """Lets one piece of what is held pass, of at most 64 KiB."""
        with self._changed:
            self._pieces[direction] += 1
            self._changed.notify_all()

    def _may_pass(self, direction: str, number: int) -> bool:
        if number not in self._held[direction]:
            return True
        if self._pieces[direction] == 0:
            return False
        self._pieces[direction] -= 1
        return True

    def release(self) -> None:
        with self._changed:
            for held in self._held.values():
                held.clear()
            self._changed.notify_all()

    def cut(self) -> None:
        """Closes the present connections."""
        with self._changed:
            sockets, self._sockets = self._sockets, []
        for connection in sockets:
            self._close(connection)
        self.release()

    def close(self) -> None:
        self._close(self._listener)
        self.cut()

    @staticmethod
    def _close(connection: socket.socket) -> None:
        try:
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        connection.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        try:
            if self._tls is not None:
                client = self._tls.wrap_socket(client, server_side=True)
            server = socket.create_connection(self._target)
        except OSError:
            client.close()
            return
        with self._changed:
            self._connections += 1
            number = self._connections
            self._sockets += [client, server]
        if self._tls is not None:
            self._copy_tls(client, server)
            return
        for arguments in (("up", number, client, server), ("down", number, server, client)):
            threading.Thread(target=self._forward, args=arguments, daemon=True).start()

    def _copy_tls(self, client: ssl.SSLSocket, server: socket.socket) -> None:
        """Copies both ways on one thread, because a TLS connection is for one thread."""
        try:
            while True:
                ready = [client] if client.pending() else select.select([client, server], [], [])[0]
                for source in ready:
                    data = source.recv(65536)
                    if not data:
                        return
                    if source is client:
                        self.sent_up += data
                    (server if source is client else client).sendall(data)
        except (OSError, ValueError):
            pass
        finally:
            self._close(client)
            self._close(server)

    def _passes(self, direction: str, number: int, data: bytes) -> bool:
        """False ends the connection instead of forwarding this."""
        return True

    def _forward(self, direction: str, number: int, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                with self._changed:
                    self._changed.wait_for(lambda: self._may_pass(direction, number))
                    if not self._passes(direction, number, data):
                        break
                sink.sendall(data)
        except OSError:
            pass
        self._close(source)
        self._close(sink)


class LosingRelay(Relay):
    """A relay that reads the frames of HTTP/2 (RFC 9113): it knows the calls of its clients, and loses an answer on request."""

    _PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    _DATA, _HEADERS = 0, 1

    def __init__(self, target: str):
        # The body of each call, in the order of their begins, and the number of its connection.
        self.calls: list[tuple[bytearray, int]] = []
        self._of_stream: dict[tuple[int, int], bytearray] = {}
        self._unread = collections.defaultdict(bytearray)
        self._armed = False
        super().__init__(target)

    def lose_next_answer(self) -> None:
        """Cuts the connection when the server begins the next answer, before any of it reaches the client."""
        with self._changed:
            self._armed = True

    def _passes(self, direction: str, number: int, data: bytes) -> bool:
        unread = self._unread[direction, number]
        unread += data
        if unread.startswith(self._PREFACE):
            del unread[:len(self._PREFACE)]
        while len(unread) >= 9:
            size, kind, stream = int.from_bytes(unread[:3]), unread[3], int.from_bytes(unread[5:9]) & 0x7fffffff
            if len(unread) < 9 + size:
                break
            body = bytes(unread[9:9 + size])
            del unread[:9 + size]
            if direction == "down" and kind == self._HEADERS and self._armed:
                self._armed = False
                return False
            if direction == "up" and kind == self._HEADERS:
                self.calls.append((self._of_stream.setdefault((number, stream), bytearray()), number))
            if direction == "up" and kind == self._DATA:
                self._of_stream[number, stream].extend(body)
        return True


class Certificates:
    """Files of a certificate authority, a server, a client, and an authority that nobody trusts; by the openssl program."""

    def __init__(self, folder: str):
        self.folder = tempfile.mkdtemp(dir=folder)
        for name in ("ca", "stranger"):
            self._run("req", "-x509", "-days", "2", *self._new_key(name), "-out", self.path(name + ".pem"))
        for name, extension in (("server", "subjectAltName=IP:127.0.0.1,DNS:localhost"),
                                ("client", "extendedKeyUsage=clientAuth")):
            with open(self.path("extensions"), "w", encoding="ascii") as file:
                file.write(extension + "\n")
            self._run("req", *self._new_key(name), "-out", self.path("request"))
            self._run("x509", "-req", "-in", self.path("request"), "-CA", self.path("ca.pem"), "-CAkey",
                      self.path("ca.key"), "-CAcreateserial", "-days", "2", "-extfile", self.path("extensions"),
                      "-out", self.path(name + ".pem"))

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def server_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.path("server.pem"), self.path("server.key"))
        context.set_alpn_protocols(["h2"])
        return context

    def _new_key(self, name: str) -> list[str]:
        return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj",
                "/CN=" + {"ca": "authority"}.get(name, name), "-keyout", self.path(name + ".key")]

    @staticmethod
    def _run(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)
