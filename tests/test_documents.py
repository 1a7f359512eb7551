"""What the documents point at exists."""

import re

from tests.paths import ROOT

DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
FILE = re.compile(
    r"`((?:core|desktop|llm_lite|kernels_cpp|kernels_glsl|tests|tools|assets)/[\w./]+)`"
)


def test_no_link_is_dead():
    dead = [
        f"{document.relative_to(ROOT)}: {link}"
        for document in DOCUMENTS
        for link in LINK.findall(document.read_text("utf-8"))
        if "://" not in link and not (document.parent / link).exists()
    ]
    assert not dead, "\n".join(dead)


def test_files_that_are_named_exist():
    missing = [
        f"{document.relative_to(ROOT)}: {name}"
        for document in DOCUMENTS
        if document.name != "CHANGELOG.md"
        for name in FILE.findall(document.read_text("utf-8"))
        if not (ROOT / name).exists()
    ]
    assert not missing, "\n".join(missing)


def test_each_view_has_a_page_with_pictures():
    from llm_lite.desktop.features.registry import VIEWS

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
