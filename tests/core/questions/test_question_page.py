"""The page of questions lists what the table has."""

import sys

from tests.paths import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import question_page


def test_the_page_is_as_the_table_says():
    page = question_page.PLACE.read_text("utf-8")
    assert question_page.written(page) == page, "`make questions` writes the list"
