"""What a model is told of attached files."""

import pytest

from llm_lite.core.attached_text import Attachment, attachment_text, message_text


def test_files_come_before_the_words():
    text = message_text(
        "What is it?", [Attachment("a.txt", "one\n"), Attachment("b.py", "x", kind="code")]
    )
    assert text == (
        "Attached file: a.txt\n\n```\none\n```\n\n"
        "Attached file: b.py\n\n```python\nx\n```\n\nWhat is it?"
    )
    assert message_text("Only words", []) == "Only words"
    assert message_text("", [Attachment("a", "b")]).endswith("```")


@pytest.mark.parametrize("inside", ["```", "text\n````\nmore", "`" * 9, "a ``` b `````` c"])
def test_the_fence_is_longer_than_any_within(inside):
    said = attachment_text(Attachment("a.md", inside, kind="markdown"))
    fence = said.split("\n")[2].removesuffix("markdown")
    assert set(fence) == {"`"} and fence not in inside
    assert said.endswith(f"\n{fence}")


def test_a_cut_is_told_and_of_a_picture_the_name_only():
    cut = Attachment("a.txt", "12345", whole=12_000)
    assert "(the first 5 of 12,000 characters)" in attachment_text(cut) and cut.is_cut
    picture = attachment_text(Attachment("cat.png", kind="picture"))
    assert picture == "Attached picture: cat.png (its content is not given)"


def test_a_name_cannot_break_its_line():
    assert "\n" not in attachment_text(Attachment("a\nb\x1b" * 100, kind="picture"))
