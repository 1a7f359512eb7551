"""Whatever text comes from outside, what leaves the door can be encoded, printed and drawn."""

from hypothesis import given
from hypothesis import strategies as st

from llm_lite.core.errors import FileError
from llm_lite.core.plain_text import lines, one_line


def test_what_a_model_could_do_to_a_terminal_is_written_out():
    assert one_line("a\x1b[2Jb") == "a\\x1b[2Jb"
    assert one_line("name\nllm-lite: all is well\r") == "name\\nllm-lite: all is well\\r"
    assert one_line("\u202egpj.exe") == "\\u202egpj.exe"
    assert one_line("caf\udce9.gguf") == "caf\\xe9.gguf"  # Latin-1 in a path
    assert one_line("\ud83d") == "\\ud83d"


def test_ordinary_text_is_left_alone():
    for text in ("Grüße, 안녕, 你好", "👩‍👩‍👧 ✈️", "a b", ""):
        assert one_line(text) == text
        assert lines(text) == text
    assert lines("one\n\ttwo\x00") == "one\n\ttwo\\x00"


def test_sentences_of_errors_pass_the_door():
    error = FileError("bad\udcff\x1b.gguf", "is no\nfile")
    assert str(error) == "bad\\xff\\x1b.gguf: is no\\nfile"
    assert error.path == "bad\udcff\x1b.gguf"  # to open it again


@given(st.text(st.characters()))
def test_any_text(text: str):
    for shown in (one_line(text), lines(text)):
        shown.encode()
        assert "\x1b" not in shown and "\r" not in shown
        assert one_line(shown.replace("\n", "").replace("\t", "")) == shown.replace(
            "\n", ""
        ).replace("\t", "")
    assert "\n" not in one_line(text)
