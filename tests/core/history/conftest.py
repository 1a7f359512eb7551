"""A history in a folder of its own."""

import pytest

from llm_lite.core.history import History
from llm_lite.core.history.database import writer


@pytest.fixture
def history(tmp_path):
    made = History(tmp_path / "history.db")
    assert made.wait_until_open()
    yield made
    made.close()


@pytest.fixture
def quick_retries(monkeypatch):
    """Tries to save follow each other quickly."""
    monkeypatch.setattr(writer, "_FIRST_RETRY", 0.02)
    monkeypatch.setattr(writer, "_LAST_RETRY", 0.05)


@pytest.fixture
def reopened():
    """A function that closes a history and opens its file again."""
    opened = []

    def again(history: History) -> History:
        assert history.close()
        opened.append(History(history.path))
        assert opened[-1].wait_until_open()
        return opened[-1]

    yield again
    for history in opened:
        history.close()
