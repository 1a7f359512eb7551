"""What the documents point at exists."""

import re

import pytest

from tests.paths import ROOT

DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
FILE = re.compile(
    r"`((?:core|desktop|llm_lite|kernels_cpp|kernels_glsl|tests|tools|assets)/[\w./]+)`"
)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_no_link_is_dead(document):
    text = document.read_text("utf-8")
    links = [link for link in LINK.findall(text) if "://" not in link]
    assert [link for link in links if not (document.parent / link).exists()] == []


@pytest.mark.parametrize(
    "document", [path for path in DOCUMENTS if path.name != "CHANGELOG.md"], ids=lambda p: p.name
)
def test_files_that_are_named_exist(document):
    named = FILE.findall(document.read_text("utf-8"))
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 150


def test_each_view_has_a_page_with_pictures():
    from llm_lite.desktop.views import VIEWS

    index = (ROOT / "docs" / "see-inside.md").read_text("utf-8")
    for view in VIEWS:
        page = ROOT / "docs" / "views" / f"{view.name}.md"
        text = page.read_text("utf-8")
        assert text.startswith(f"# {view.title}\n")
        assert re.search(r"!\[.+\]\(\.\./pictures/[\w-]+\.png\)", text), page
        assert f"[{view.title}](views/{view.name}.md)" in index


def test_no_picture_is_left_over():
    from tools.doc_pictures import SHOWN

    shown = {
        name
        for page in DOCUMENTS
        for name in re.findall(r"pictures/([\w-]+)\.png", page.read_text("utf-8"))
    }
    there = {path.stem for path in (ROOT / "docs" / "pictures").glob("*.png")}
    assert there == shown
    assert set(SHOWN) <= shown
