"""The ledger's tests again, on a real PostgreSQL server: other locks, other dialect, the same promises."""

import pytest

from tests.postgres import cluster
from tests.unit.test_ledger import *  # noqa: F403


@pytest.fixture(scope="module")
def fresh():
    with cluster() as new_database:
        yield new_database


@pytest.fixture
def url(fresh):
    return fresh()
