# SPDX-License-Identifier: Apache-2.0
"""gRPC does not survive os.fork: in a child of a process that had a connection, calls of old and of new ones hang or crash."""

from __future__ import annotations

import os

# By default gRPC starts threads in such a child, and these crash it, although the child uses nothing of gRPC. gRPC reads its
# setting when it is imported.
_SETTING = "GRPC_ENABLE_FORK_SUPPORT"
_unset = _SETTING not in os.environ
os.environ.setdefault(_SETTING, "0")
import grpc  # noqa: E402, F401

if _unset:
    del os.environ[_SETTING]  # other programs that this one starts decide for themselves

from duetime import errors  # noqa: E402

# The process that made the first connection.
_process: int | None = None


def begin() -> None:
    """REQUIRES: before this process makes its first connection."""
    global _process
    require_none()
    _process = os.getpid()


def happened() -> bool:
    """True in a child of a process that had a connection."""
    return _process is not None and _process != os.getpid()


def require_none() -> None:
    if happened():
        raise errors.FailedPrecondition(f"this process was forked after process {_process} had made a Client, and gRPC does "
                                        "not survive a fork. Make each Client after the fork, and none before it")
