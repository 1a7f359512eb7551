"""The rooms of the house: small folders of one subject each, all of them on the map."""

from collections import Counter

import pytest

from tests.paths import ROOT, program_files

FOLDERS = Counter(str(path.parent.relative_to(ROOT)) for path in program_files())


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_says_what_it_is_for(folder):
    first = (ROOT / folder / "__init__.py").read_text("utf-8").partition("\n")[0]
    assert first.startswith('"""') and len(first) > 30
    if folder != "llm_lite":
        architecture = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
        assert f"`{folder}/`" in architecture or folder in ("core", "desktop")


def test_folders_are_small():
    assert max(FOLDERS.values()) <= 16, FOLDERS.most_common(3)
    for top in ("core", "desktop", "llm_lite"):
        assert FOLDERS[top] <= 10
