"""The window with real encoders: MiniLM beside its reference, masked tokens whose candidates make
sense, and examples in a language that the vocabulary has."""

import gettext

import numpy as np
import pytest

from llm_lite.core.engine.engine import Engine
from llm_lite.core.inspect.attention import head_maps
from llm_lite.core.messages import EncodeText, TextEncoded
from llm_lite.core.messages.encoding import EncodedToken
from llm_lite.core.records import replace
from llm_lite.desktop.app.settings import restore
from llm_lite.desktop.features.encoder.model import ENCODED, SIMILARITIES, ChooseEncoding, spelling
from llm_lite.desktop.features.encoder.state import SENTENCES, TEXT, spelled
from llm_lite.desktop.features.program.model import OpenModel
from llm_lite.desktop.features.program.settings import Settings
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import use
from tests.desktop.headless import Headless
from tests.paths import FIXTURES
from tests.runners import exact

MAPPED = "The weather is lovely today."  # as tests/fixtures/make_minilm.py has it


@pytest.fixture
def opened():
    """Opens an encoder in the window, exact on the CPU, in a language."""
    apps = []

    def open_it(source, language="en"):
        state = restore(Settings(language=language), AppState(options=exact("cpu")))
        app = Headless(replace(state, less_motion=True), settings=Settings(language=language))
        apps.append(app)
        app.program.start(Engine(None, lambda: None))
        app.program.do(OpenModel(str(source)))
        app.driver.wait("the model", lambda s: s.model is not None and s.load is None)
        app.driver.wait("the text", is_encoded)
        return app

    yield open_it
    for app in apps:
        app.close()
    use(gettext.NullTranslations())


def is_encoded(state):
    return ENCODED.waiting(state) is None and ENCODED.answer(state) is not None


def choose(app, **changes):
    app.program.do(ChooseEncoding(replace(app.state.encoding, **changes)))
    app.driver.frames(2)
    app.driver.wait("the text", is_encoded)


def test_minilm_in_the_window_beside_its_reference(opened):
    app = opened("all-minilm-l6-v2")
    choose(app, text=MAPPED)
    with np.load(FIXTURES / "minilm.npz") as arrays:
        maps, vectors = arrays["maps"], arrays["vectors"]
    source = app.program.engine.attention()
    found = np.empty_like(maps)
    for layer in range(len(maps)):
        head_maps(source, layer, range(maps.shape[1]), found[layer])
    assert np.abs(found - maps).max() < 1e-4
    choose(app, mode="pairs")
    app.driver.wait("cosines", lambda s: SIMILARITIES.answer(s) is not None)
    expected = vectors[2:5] @ vectors[2:5].T
    assert np.abs(np.array(SIMILARITIES.answer(app.state).similarities) - expected).max() < 1e-4
    assert app.state.encoding.shown_sentences == SENTENCES


def test_examples_are_in_a_language_that_the_vocabulary_has(opened):
    """MiniLM's knows parts of Korean characters at most; the tiny model's has Korean words."""
    app = opened("all-minilm-l6-v2", "ko")
    assert app.state.encoding.shown_text == TEXT
    assert "encoding.unreadable" not in app.ui.rects
    choose(app, text="파리는 프랑스의 수도입니다.")
    app.driver.frames(2)
    assert spelling(app.state) == "parts" and "encoding.unreadable" in app.ui.rects
    app.program.do(OpenModel(str(FIXTURES / "fill")))
    app.driver.wait("the model", lambda s: s.model.name == "fill" and is_encoded(s))
    choose(app, text=None, mode="fill")
    assert app.state.encoding.shown_filled("[MASK]") == "파리는 프랑스의 [MASK]입니다."
    assert ENCODED.answer(app.state).masks[0].candidates[0].text == "수도"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Paris is the [MASK] of France.", {"capital", "heart", "pride", "centre"}),
        ("The [MASK] sat on the mat.", {"cat", "dog", "child", "bird"}),
        ("The animal was [MASK].", set()),
    ],
)
def test_candidates_are_sensible_and_sum_to_less_than_1(opened, text, words):
    app = opened(FIXTURES / "fill")
    choose(app, mode="fill", filled=text)
    told = ENCODED.answer(app.state).masks[0].candidates
    assert words <= {one.text for one in told}
    shares = [one.probability for one in told]
    assert shares == sorted(shares, reverse=True) and 0 < sum(shares) <= 1
    app.driver.frames(3)
    app.driver.click("encoding.word.0.0")
    assert app.state.encoding.filled == text.replace("[MASK]", told[0].text)


WORD, UNKNOWN = EncodedToken(5, "word"), EncodedToken(1, "[UNK]", True, unknown=True)
CLS = EncodedToken(2, "[CLS]", True)


@pytest.mark.parametrize(
    ("text", "tokens", "expected"),
    [
        ("some words", (CLS, WORD, WORD, CLS), "words"),
        ("a b c", (CLS, WORD, UNKNOWN, UNKNOWN), "unknown"),
        ("a b c", (CLS, WORD, WORD, UNKNOWN), "words"),
        ("지쳐서", (CLS, *9 * (WORD,)), "words"),
        ("지쳐서요", (CLS, *9 * (WORD,)), "parts"),
        ("", (CLS, CLS), "words"),
    ],
)
def test_how_a_text_is_spelled(text, tokens, expected):
    assert spelled(EncodeText(text), TextEncoded(tokens)) == expected
