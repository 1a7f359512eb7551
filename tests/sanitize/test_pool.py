"""The thread pool's stress program, in its short form."""

import pytest

from tests.sanitize import native, pool

pytestmark = [
    pytest.mark.skipif(bool(native.why_not()), reason=native.why_not()),
    pytest.mark.timeout(native.PATIENCE + 300),
]


@pytest.mark.parametrize("build", ["pool_thread", "pool_address"])
def test_the_pool_orders_all_that_its_tasks_share(build):
    """Also: no task is lost or done twice where threads are put aside between two operations."""
    done = pool.stress(build, rounds=2)
    assert done.returncode == 0, done.stdout
    assert len(done.stdout.splitlines()) == pool.SCENARIOS, done.stdout
