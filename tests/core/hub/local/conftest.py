"""A home of its own for each test, with no model in it."""

import pytest

from tests.core.hub.local.layouts import VARIABLES


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    folder = tmp_path / "home"
    folder.mkdir()
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    for variable in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(variable, str(folder))
    return folder
