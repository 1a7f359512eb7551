"""Files as attachments: their kind by content, and one sentence for what cannot be one."""

import os
from pathlib import Path

import pytest

from llm_lite.core import attachments
from llm_lite.core.attachments import (
    LARGEST_TEXT,
    FoundModelError,
    decode,
    read_attachment,
)
from llm_lite.core.errors import FileError
from llm_lite.core.text.sandbox.limits import Limits
from tests.core.attachments.pdfs import encrypted, pdf


@pytest.fixture
def file(tmp_path):
    def written(name, raw):
        path = tmp_path / name
        path.write_bytes(raw)
        return path

    return written


@pytest.fixture(scope="module", autouse=True)
def no_process_is_left():
    yield
    attachments.end_process()


TEXTS = {
    "plain": b"Some words.\nAnd more.\n",
    "korean": "안녕하세요, 세계\n".encode(),
    "utf-8 with a mark": "\ufeffwörds\n".encode(),
    "utf-16": "wörds and 말\n".encode("utf-16"),
    "utf-16 without a mark": "plain words\n".encode("utf-16-le"),
    "utf-16 the other way": "plain words\n".encode("utf-16-be"),
    "latin": "Grüße aus Köln\n".encode("latin-1"),
    "windows": "quotes “like these”\n".encode("cp1252"),
    "breaks": b"one\r\ntwo\rthree\x0cfour",
}


@pytest.mark.parametrize("name", TEXTS)
def test_text_is_known_by_its_content(name):
    expected = {
        "plain": "Some words.\nAnd more.\n",
        "korean": "안녕하세요, 세계\n",
        "utf-8 with a mark": "wörds\n",
        "utf-16": "wörds and 말\n",
        "latin": "Grüße aus Köln\n",
        "windows": "quotes “like these”\n",
        "breaks": "one\ntwo\nthree\nfour",
    }
    assert decode(TEXTS[name]) == expected.get(name, "plain words\n")


@pytest.mark.parametrize(
    "raw", [bytes(range(256)) * 8, os.urandom(4096), b"\x7fELF\x02\x01\0\0" * 50, b"\0" * 100]
)
def test_what_is_no_text_is_none(raw):
    assert decode(raw) is None


def test_control_characters_do_not_come_through():
    text = decode(b"red: \x1b[31m and a bell\n" * 40)
    assert "\x1b" not in text and "\\x1b[31m" in text


def test_kinds(file):
    kinds = {
        "a.md": b"# Title\n",
        "a.py": b"x = 1\n",
        "a.unknown": b"words\n",
        "noending": b"words\n",
        "wrongly.png": b"words in a file of another name\n",
    }
    found = {name: read_attachment(file(name, raw)).kind for name, raw in kinds.items()}
    assert found == {
        "a.md": "markdown", "a.py": "code", "a.unknown": "text", "noending": "text",
        "wrongly.png": "text",
    }  # fmt: skip


def test_of_a_picture_there_is_the_name_only(file):
    read = read_attachment(file("cat.dat", b"\x89PNG\r\n\x1a\n" + bytes(200)))
    assert (read.kind, read.name, read.text) == ("picture", "cat.dat", "")


REFUSED = {
    "empty.txt": (b"", "is empty"),
    "spaces.txt": (b" \n\t\n", "nothing but spaces"),
    "binary.bin": (bytes(range(256)) * 4, "is no text but binary data"),
    "paper.docx": (b"PK\x03\x04" + bytes(100), "ZIP archive"),
    "broken.pdf": (b"%PDF-1.7\ngarbage", "is no PDF that can be read"),
    "locked.pdf": (encrypted(pdf("secret"), "word"), "is encrypted"),
    "scan.pdf": (pdf("", ""), "has no text"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_attached_is_one_sentence(file, name):
    raw, words = REFUSED[name]
    with pytest.raises(FileError) as error:
        read_attachment(file(name, raw))
    assert words in error.value.problem and "\n" not in error.value.problem


def test_a_folder_and_a_file_that_went(tmp_path):
    with pytest.raises(FileError, match="is a folder"):
        read_attachment(tmp_path)
    with pytest.raises(FileError, match="no such file"):
        read_attachment(tmp_path / "gone.txt")


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(FileError, match="not a regular file"):
        read_attachment(tmp_path / "pipe.txt")


def test_a_large_file_is_refused_with_its_size_and_not_read(tmp_path):
    path = tmp_path / "large.txt"
    with path.open("wb") as out:
        out.write(b"words\n")
        out.truncate(100_000_000)
    with pytest.raises(FileError, match=r"has 100\.0 MB, and a text of at most 4 MB can be"):
        read_attachment(path)
    path.write_bytes(b"a" * (LARGEST_TEXT + 1))
    with pytest.raises(FileError, match="of at most"):
        read_attachment(path)


@pytest.mark.parametrize("name", ["m.gguf", "m.SAFETENSORS"])
def test_a_model_is_told_from_the_rest_by_its_name(file, name):
    with pytest.raises(FoundModelError):
        read_attachment(file(name, b"whatever"))


def test_a_model_is_known_by_its_content_and_its_folder(file, tmp_path):
    with pytest.raises(FoundModelError):
        read_attachment(file("renamed", b"GGUF" + bytes(60)))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    assert read_attachment(folder / "config.json").kind == "code", "no weights are beside it"
    (folder / "model.safetensors").write_bytes(b"")
    for path in (folder, folder / "config.json"):
        with pytest.raises(FoundModelError):
            read_attachment(path)


def test_the_pages_of_a_pdf_stand_under_their_numbers(file):
    read = read_attachment(file("two.pdf", pdf("The first page", "The second page")))
    assert (read.kind, read.name, read.whole) == ("pdf", "two.pdf", 0)
    assert read.text == "[Page 1]\nThe first page\n\n[Page 2]\nThe second page"


def test_a_pdf_without_a_password_opens_though_it_is_encrypted(file):
    assert "open" in read_attachment(file("empty.pdf", encrypted(pdf("open"), ""))).text


def test_a_pdf_that_takes_too_much_ends_alone(file, monkeypatch):
    path = file("bomb.pdf", pdf("words"))
    tight = Limits(cpu_seconds=60.0, wall_seconds=600.0, memory_bytes=1 << 20)
    with pytest.raises(FileError) as error:
        attachments.pdf_text(path, path.read_bytes() + bytes(40 << 20), tight)
    assert "bomb.pdf" in str(error.value)
    assert read_attachment(path).text, "the next one is read by another process"


def test_a_long_pdf_is_cut_between_pages_and_that_is_known(file, monkeypatch):
    monkeypatch.setattr(attachments, "PAGES", 2)
    read = read_attachment(file("four.pdf", pdf("one", "two", "three", "four")))
    assert read.text.endswith("two") and read.is_cut and read.whole > len(read.text)


def test_a_folder_that_may_not_be_entered_is_a_sentence(tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_file", refuse)
    with pytest.raises(FileError, match="cannot be read: Permission denied"):
        read_attachment(tmp_path)
