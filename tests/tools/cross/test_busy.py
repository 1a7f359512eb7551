"""The command that runs tests beside other work tells what failed, and leaves nothing behind."""

import pytest

from tools.cross import busy

CASES = """
import os
def test_holds(): assert os.environ.get("LLM_LITE_ISA") == "avx2"
def test_falls(): assert {holds}
"""


@pytest.mark.parametrize("holds", [True, False])
def test_it_tells_what_failed_how_often(tmp_path, capsys, holds):
    path = tmp_path / "test_small.py"
    path.write_text(CASES.format(holds=holds))
    words = ["--times", "1", "--isa", "avx2", str(path), "-p", "no:cacheprovider"]
    assert busy.main(words) == int(not holds)
    told = capsys.readouterr().out
    assert ("1 of 1 passed" in told) == holds
    assert ("1 x " in told and "test_small.py::test_falls" in told) != holds
    assert "test_holds" not in told


def test_loops_run_until_the_end():
    with busy.busy(2) as loops:
        assert [loop.poll() for loop in loops] == [None, None]
    assert all(loop.poll() is not None for loop in loops)
