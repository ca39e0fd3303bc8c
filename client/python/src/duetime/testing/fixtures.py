# SPDX-License-Identifier: Apache-2.0
"""The fixture `duetime_server` for pytest. A conftest.py has: pytest_plugins = ["duetime.testing.fixtures"]"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from duetime.testing import TestServer


@pytest.fixture
def duetime_server() -> Iterator[TestServer]:
    """A server of its own for each test, with a clock that stands still."""
    with TestServer.start() as server:
        yield server
