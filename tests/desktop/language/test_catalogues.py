"""Every text of the window stands in every catalogue, translated, with the same values in it."""

import ast
import gettext
import io
import locale
import re
import string
import sys
from types import SimpleNamespace

import pytest

from llm_lite.core.inspect.attention_scores import SCORES
from llm_lite.core.messages import ModeSpeed
from llm_lite.core.metrics.modes import recommend
from llm_lite.desktop.features.undo.model import OF_THE_LIST
from llm_lite.desktop.language import catalogues
from llm_lite.desktop.language.catalogues import (
    ENGLISH,
    FOLDER,
    catalogue,
    languages,
    own_name,
    system_language,
)
from llm_lite.desktop.language.core_words import SENTENCES, WORDS, translated, translated_stage
from llm_lite.desktop.language.translate import tr, trn, use
from tests.paths import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import messages

TRANSLATED = [code for code in languages() if code != ENGLISH]
KOREAN = re.compile("[가-힣]")
NAMES = {"KL", "RMS", "SNR", "dB", "ms", "tok", "GB", "px", "MCP", "JSON", "Markdown"}
NAMES |= {"Top", "Min", "Typical", "DRY"}


@pytest.fixture(scope="module")
def template():
    return messages.extracted()


@pytest.fixture(autouse=True)
def english():
    yield
    use(gettext.NullTranslations())


def _forms(message):
    """The texts of a message and, for each of its translations, the one that it stands for."""
    ids = (message.id,) if isinstance(message.id, str) else message.id
    strings = (message.string,) if isinstance(message.string, str) else message.string
    return ids, strings


def _values(text):
    """The values in a format string, with how each is written."""
    found = string.Formatter().parse(text)
    return sorted((name, how, kind) for _, name, how, kind in found if name is not None)


def test_korean_is_there():
    assert TRANSLATED == ["ko"]
    assert own_name("ko") == "한국어" and own_name("en") == "English"


@pytest.mark.parametrize("language", TRANSLATED)
def test_every_text_of_the_code_is_in_the_catalogue_and_no_other(template, language):
    """`make messages` brings new texts into it; then they are translated by hand."""
    there = {message.id for message in messages.read(language) if message.id}
    wanted = {message.id for message in template if message.id}
    assert wanted - there == set() and there - wanted == set()
    assert not messages.read(language).obsolete


@pytest.mark.parametrize("language", TRANSLATED)
def test_every_text_is_translated(language):
    assert messages.untranslated(messages.read(language)) == []


@pytest.mark.parametrize("language", TRANSLATED)
def test_translations_have_the_values_of_their_texts(language):
    """All of them, under the same names, written in the same way: "{n:,}" stays "{n:,}"."""
    catalog = messages.read(language)
    for message in catalog:
        if not message.id:
            continue
        ids, strings = _forms(message)
        assert len(strings) == (1 if len(ids) == 1 else catalog.num_plurals), ids
        for text in strings:
            assert _values(text) == _values(ids[-1]), (ids, text)
            assert text.startswith(" ") == ids[-1].startswith(" "), text
            assert "\n" not in text or "\n" in ids[-1], text


@pytest.mark.parametrize("language", TRANSLATED)
def test_the_compiled_catalogue_says_what_the_written_one_says(language):
    spoken = catalogue(language)
    assert isinstance(spoken, gettext.GNUTranslations)
    compiled = gettext.GNUTranslations(io.BytesIO(messages.as_mo(messages.read(language))))
    texts = [dict(found._catalog) for found in (spoken, compiled)]
    heads = [found.pop("") for found in texts]
    assert texts[0] == texts[1]
    assert "Plural-Forms" in heads[0]


def test_korean_texts_are_in_korean():
    """But for those of names, units and values alone."""
    for message in messages.read("ko"):
        for text in _forms(message)[1] if message.id else ():
            rest = re.sub(r"{[^}]*}", "", text)
            if not KOREAN.search(text):
                assert set(re.findall("[A-Za-z]{2,}", rest)) <= NAMES, text


def test_words_of_the_engine_are_translated():
    use(catalogue("ko"))
    assert translated_stage("reading the header") == "헤더 읽는 중"
    assert translated_stage("preparing the weights, run B") == "가중치 준비 중, 실행 B"
    assert translated_stage("int4: measuring memory") == "int4: 메모리 측정 중"
    assert (
        translated("") == translated_stage("") == tr("") == ""
    )  # gettext: the head of the catalogue
    assert (
        translated("model.gguf: ready") == "model.gguf: ready"
    )  # an error is not translated in parts
    for words in (*WORDS, *(score.label for score in SCORES.values())):
        assert KOREAN.search(tr(words)), words


def test_stages_of_the_engine_are_in_its_list():
    """What core says while it works, in quotation marks: `progress("reading the header", ...)`."""
    told = set()
    for path in (ROOT / "core").rglob("*.py"):
        found = re.findall(r'\b(?:progress|CommandProgress)\((?:\w+, )?"([^"]+)"', path.read_text())
        told |= set(found)
    assert len(told) > 10 and told <= set(WORDS), told - set(WORDS)


def test_labels_of_what_is_undone_are_in_its_list():
    source = (ROOT / "core/history/journal.py").read_text()
    told = set(re.findall(r'(?:_do|JournalEntry)\("([^"]+)"', source))
    for pair in re.findall(r'label = "([^"]+)" if \w+ else "([^"]+)"', source):
        told |= set(pair)
    known = {*OF_THE_LIST, *WORDS}
    assert len(told) >= 8 and told <= known, told - known


def _templates():
    """Every text of core, and of errors of X11, with {} for the values in it."""
    for path in (*(ROOT / "core").rglob("*.py"), ROOT / "desktop/render/x11_errors.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
            elif isinstance(node, ast.JoinedStr):
                parts = (
                    part.value if isinstance(part, ast.Constant) else "{}" for part in node.values
                )
                yield "".join(parts)


def test_sentences_of_core_are_as_core_says_them():
    plain = {re.sub(r"{\w+}", "{}", sentence) for sentence in SENTENCES}
    recommended = {sentence for sentence in plain if "nearly as fast" in sentence}
    assert plain - recommended <= set(_templates())


def test_the_recommended_mode_is_told_in_korean():
    use(catalogue("ko"))
    for speeds in ((9.0, 9.5), (9.5, 9.0)):
        for first, second in (("int8", "int4"), ("fp16", "as-stored"), ("as-stored", "int8")):
            for sizes in ((1, 2), (2, 1)):
                rows = [
                    ModeSpeed(mode, "a8", size, 1.0, speed)
                    for mode, size, speed in zip((first, second), sizes, speeds, strict=True)
                ]
                best, reason = recommend(rows)
                assert translated(reason) != reason and rows[best].mode in translated(reason)


def test_values_of_a_sentence_stay():
    use(catalogue("ko"))
    told = translated("the Vulkan device is only software (llvmpipe (LLVM 15.0.6, 256 bits))")
    assert KOREAN.search(told) and "llvmpipe (LLVM 15.0.6, 256 bits)" in told
    assert translated("Blocks of 32 weights in 18 bytes: 4.5 bits a weight.").count("4.5") == 1
    measured = translated("AMD EPYC, avx512vnni, 2 threads")
    assert measured.startswith("AMD EPYC, avx512vnni, ") and "threads" not in measured
    refused = translated("The X server refused request 12.0 of this program: error 8.")
    assert "12.0" in refused and "refused" not in refused
    use(gettext.NullTranslations())
    assert translated("the device has no compute queue") == "the device has no compute queue"


def test_forms_of_plural():
    assert trn("{n} token", "{n} tokens", 1).format(n=1) == "1 token"
    use(catalogue("ko"))
    assert trn("{n} token", "{n} tokens", 1).format(n=1) == "토큰 1개"


@pytest.mark.parametrize(
    ("told", "language"),
    [
        ({"LANG": "ko_KR.UTF-8"}, "ko"),
        ({"LANG": "en_US.UTF-8"}, "en"),
        ({"LANG": "fr_FR.UTF-8"}, "en"),
        ({"LANG": "C"}, "en"),
        ({"LANG": "en_US.UTF-8", "LANGUAGE": "fr:ko:en"}, "ko"),
        ({"LANG": "ko_KR", "LC_ALL": "C"}, "en"),
        ({"LANG": "de_DE@euro", "LC_MESSAGES": "KO"}, "ko"),
        ({"LANG": "../../../etc"}, "en"),
    ],
)
def test_the_system_says_its_language(monkeypatch, told, language):
    for name in ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    assert system_language() == language


def test_where_no_variable_says_it_the_locale_does(monkeypatch):
    for name in ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(locale, "getlocale", lambda: ("ko_KR", "UTF-8"))
    assert system_language() == "ko"
    monkeypatch.setattr(locale, "getlocale", lambda: (None, None))
    assert system_language() == "en"


def test_windows_says_it_by_a_number(monkeypatch):
    kernel = SimpleNamespace(GetUserDefaultUILanguage=lambda: 0x412)
    monkeypatch.setattr(catalogues.sys, "platform", "win32")
    monkeypatch.setattr(
        catalogues.ctypes, "windll", SimpleNamespace(kernel32=kernel), raising=False
    )
    assert system_language() == "ko"


def test_a_damaged_catalogue_is_english_and_a_line_on_the_terminal(monkeypatch, tmp_path, caplog):
    place = tmp_path / "ko" / "LC_MESSAGES"
    place.mkdir(parents=True)
    whole = (FOLDER / "ko" / "LC_MESSAGES" / "llm_lite.mo").read_bytes()
    monkeypatch.setattr(catalogues, "FOLDER", tmp_path)
    for data in (b"", b"nonsense", whole[:1000], whole[:20] + b"\xff" * 400):
        (place / "llm_lite.mo").write_bytes(data)
        caplog.clear()
        assert catalogue("ko").gettext("Settings") == "Settings"
        assert "llm_lite.mo" in caplog.text
    assert catalogue("nowhere").gettext("Settings") == "Settings"


def test_the_wheel_takes_catalogues_along():
    """They lie in assets/, all of which pyproject.toml brings into a wheel."""
    assert FOLDER.resolve().is_relative_to(ROOT / "assets")
    assert '"llm_lite/assets" = "assets"' in (ROOT / "pyproject.toml").read_text("utf-8")
