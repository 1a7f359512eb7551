"""`import llm_lite`: a model in Python, text in, arrays out."""

import base64
import io
import json
import math
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image

import llm_lite
from llm_lite.api.token_text import TokenText
from llm_lite.core.errors import FileError, RequestError
from llm_lite.core.inspect.attention_scores import SCORES
from llm_lite.core.messages import ChatMessage
from tests.core.questions.test_attention_reader import rollout_of
from tests.make_gguf import write_tiny_llama
from tests.paths import ROOT

GREEDY = {"temperature": 0.0, "repetition_penalty": 1.0}


@pytest.fixture(scope="module")
def model(smollm2):
    with llm_lite.load(smollm2, backend="cpu", context=256) as model:
        yield model


def test_tokens_and_back(model):
    ids = model.tokenize("The capital of France")
    assert ids.dtype == np.int32 and ids.ndim == 1 and len(ids) >= 4
    assert model.detokenize(ids) == "The capital of France"


def test_logits_of_a_text_and_of_its_tokens(model):
    ids = model.tokenize("The capital of France is")
    rows = model.logits(ids)
    assert rows.shape == (len(ids), model.info.vocabulary) and rows.dtype == np.float32
    np.testing.assert_array_equal(model.logits("The capital of France is"), rows)
    assert model.detokenize([rows[-1].argmax()]) == " Paris"


@pytest.mark.parametrize("mode", ["as-stored", "int4"])
def test_what_is_not_multiplied_as_it_is_stored_is_told(tmp_path, mode):
    path, said = write_tiny_llama(tmp_path / "m.gguf", dtype="nvfp4"), []
    with llm_lite.load(path, backend="cpu", mode=mode, warn=said.append) as model:
        assert np.isfinite(model.logits([70, 71])).all()
    notes = {"as-stored": "15 tensors of type nvfp4 are multiplied as int8"}
    notes["int4"] = "100% of the weights have about as few bits in the file as int4 has"
    assert [note.partition(":")[0] for note in said] == [notes[mode]]


def test_maps_are_probabilities(model):
    maps = model.attention("The cat sat.", [0, 5], [2])
    n = len(model.tokenize("The cat sat."))
    assert maps.shape == (2, 1, n, n) and maps.dtype == np.float32
    np.testing.assert_allclose(maps.sum(-1), 1.0, atol=1e-5)
    assert np.triu(maps[0, 0], 1).max() == 0.0
    whole = model.attention("The cat sat.")
    assert whole.shape[:2] == (model.info.layers, model.info.heads)
    np.testing.assert_array_equal(whole[5, 2], maps[1, 0])
    np.testing.assert_array_equal(model.attention("The cat sat.", 5, 2), whole[5, 2])
    np.testing.assert_array_equal(model.attention("The cat sat.", -1), whole[-1])
    np.testing.assert_array_equal(model.attention("The cat sat.", head=[2, -1]), whole[:, [2, 8]])


def test_a_text_longer_than_what_is_kept_has_maps_all_the_same(smollm2, model):
    """No queries are kept: a copy of the model that keeps them makes the maps."""
    with llm_lite.load(smollm2, backend="cpu", context=256, query_budget=0) as other:
        other.gains = model.gains
        maps = other.attention("The cat sat.", 5, 2)
    np.testing.assert_allclose(maps, model.attention("The cat sat.", 5, 2), atol=2e-3)


def test_an_answer_is_an_iterator_of_tokens(model):
    asked = [{"role": "system", "content": "Be brief."}, ChatMessage("user", "What is 2 + 2?")]
    answer = model.generate(asked, max_new_tokens=12, **GREEDY)
    assert answer.tokens == [] and answer.finish_reason is None
    first = next(answer)
    assert [token.id for token in answer.tokens] == [first.id]  # no more than was asked for
    tokens = list(answer)
    assert tokens[0] == first and len(tokens) > 4
    assert str(answer) == answer.text == "".join(token.text for token in tokens)
    assert answer.finish_reason in ("length", "end")
    again = model.generate(asked, max_new_tokens=12, **GREEDY)
    assert again.text == answer.text and again.ids.dtype == np.int32
    assert model.executor.backend == "cpu"


def test_tokens_have_probabilities_and_what_else_might_have_come(model):
    answer = model.generate("Why is the sky blue?", max_new_tokens=6, **GREEDY)
    for token in answer:
        assert len(token.alternatives) == 5
        best = token.alternatives[0]
        assert best.token == token.id and best.probability == token.probability  # greedy
    p = answer.probabilities
    assert p.dtype == np.float32 and p.shape == (6,) and 0 < p.min() <= p.max() <= 1
    ids = [*answer.prompt, *answer.ids]
    logits = model.logits(ids)[len(answer.prompt) - 1 : -1].astype(np.float64)
    shares = np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))
    np.testing.assert_allclose(shares[np.arange(6), answer.ids], p, atol=0.1)


def test_a_conversation_goes_on_with_the_answer(model):
    question = {"role": "user", "content": "Name a colour."}
    answer = model.generate([question], max_new_tokens=8, **GREEDY)
    said = answer.message
    assert (said.role, said.content) == ("assistant", answer.text)
    further = model.generate([question, said, {"role": "user", "content": "Another."}], **GREEDY)
    assert tuple(answer.ids) == tuple(further.prompt[len(answer.prompt) :][: len(answer.ids)])


def test_a_text_goes_on_without_a_template(model):
    text = "The capital of France is"
    answer = model.complete(text, max_new_tokens=1, **GREEDY)
    assert answer.text == " Paris" and answer.prompt == tuple(model.tokenize(text))
    assert model.complete(model.tokenize(text), max_new_tokens=1, **GREEDY).text == " Paris"


def test_another_use_ends_an_answer_that_is_not_finished(model):
    answer = model.generate("Count to ten.", max_new_tokens=8, **GREEDY)
    next(answer)
    whole = model.generate("Count to ten.", max_new_tokens=8, **GREEDY).text
    with pytest.raises(RequestError, match="before this answer was finished"):
        next(answer)
    waiting = model.generate("Count to ten.", max_new_tokens=8, **GREEDY)
    model.logits("something else")
    assert waiting.text == whole  # it had not begun


def test_gains_are_an_array_that_acts_at_once(model):
    text = "The capital of France is"
    before = model.logits(text)
    said = model.complete(text, max_new_tokens=4, **GREEDY).text
    assert model.gains.shape == (30, 9) and model.gains.dtype == np.float32
    model.gains[23, 4] = 0
    assert np.abs(model.logits(text) - before).max() > 0.1
    held = model.gains
    model.gains = 0.0
    assert held[0, 0] == 0.0  # the same array
    assert model.complete(text, max_new_tokens=4, **GREEDY).text != said
    model.gains *= 2
    model.gains = np.ones((30, 9))
    np.testing.assert_array_equal(model.logits(text), before)
    assert model.complete(text, max_new_tokens=4, **GREEDY).text == said


def test_gains_are_those_of_a_map_too(model):
    before = model.attention("The cat sat.", 5)
    model.gains[:5] = 0
    changed = model.attention("The cat sat.", 5)
    model.gains = 1
    assert np.abs(changed - before).max() > 0.01
    np.testing.assert_array_equal(model.attention("The cat sat.", 5), before)


def test_gains_change_an_answer_while_it_is_written(model):
    options = {"max_new_tokens": 6, **GREEDY}
    usual = model.complete("one two three", **options).text
    answer = model.complete("one two three", **options)
    first = next(answer)
    model.gains = 0
    rest = answer.text
    model.gains = 1
    assert rest.startswith(first.text) and rest != usual


def test_likelihoods_are_those_of_the_logits(model):
    text = "The capital of France is Paris."
    found, ids = model.likelihood(text), model.tokenize(text)
    logits = model.logits(text).astype(np.float64)
    log_p = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    assert found.weights.shape == (len(ids),) and np.isnan(found.weights[0])
    expected = np.exp(log_p[np.arange(len(ids) - 1), ids[1:]])
    np.testing.assert_allclose(found.weights[1:], expected, rtol=1e-4)
    assert found.text == text and found.tokens == tuple(model.tokens(text))


def test_perplexity_is_that_of_the_second_half(model):
    text = "The sun had gone down behind the hills, and the first lamps were being lit."
    p = model.likelihood(text).weights.astype(np.float64)
    second = p[len(p) // 2 + 1 :]
    assert model.perplexity(text) == pytest.approx(np.exp(-np.log(second).mean()), rel=1e-3)
    assert model.perplexity(text, 8) > 1
    with pytest.raises(RequestError, match="too few for a chunk of 64"):
        model.perplexity(text, 64)


@pytest.mark.parametrize("without_first", [False, True])
def test_rollout_multiplies_the_maps_of_all_layers(model, without_first):
    text = "The capital of France is Paris, on the Seine"
    expected = rollout_of(model.attention(text), without_first)
    n = len(expected)
    for position in (n - 1, 3):
        row = model.rollout(text, position, without_first=without_first)
        assert row.dtype == np.float32
        np.testing.assert_allclose(row, expected[position], atol=1e-5)
        column = model.rollout(text, position, to=True, without_first=without_first)
        np.testing.assert_allclose(column, expected[:, position], atol=1e-5)
    with pytest.raises(RequestError, match="two tokens or more"):
        model.rollout("The")
    with pytest.raises(RequestError, match="position 99 is not in the text"):
        model.rollout(text, 99)


def test_scores_and_statistics_are_those_of_the_maps(model):
    text = "The cat sat on the mat and the cat sat on the mat again"
    maps, ids = model.attention(text), model.tokenize(text)
    layers, heads, n, _ = maps.shape
    scores = model.scores(text)
    assert list(scores) == list(SCORES)
    for name, score in SCORES.items():
        expected = np.stack([score(layer, range(n), ids) for layer in maps])
        assert scores[name].shape == (layers, heads)
        np.testing.assert_allclose(scores[name], expected, atol=1e-5)
    received = model.statistics(text, "received")
    expected = maps.sum(axis=(1, 2)) / heads / (n - np.arange(n))
    np.testing.assert_allclose(received, expected, atol=1e-5)
    norms = [model.statistics(text, what) for what in ("key-norm", "value-norm")]
    assert all(one.shape == (layers, n) and (one > 0).all() for one in norms)
    assert np.abs(norms[0] - norms[1]).max() > 0.1
    with pytest.raises(RequestError, match="what: expected key-norm, value-norm, received, found"):
        model.statistics(text, "norm")


def test_the_lens_ends_with_what_the_model_says(model):
    text = "The capital of France is"
    lens = model.lens(text)
    assert lens.logits.shape == (30, model.info.vocabulary)
    assert lens.best(-1)[0][0] == " Paris"
    paris = int(model.tokenize(" Paris")[0])
    assert lens.probability(paris)[-1] == pytest.approx(lens.best(-1)[0][1], abs=1e-6)
    np.testing.assert_array_equal(lens.probability(" Paris"), lens.probability(paris))
    rows = model.logits(text)
    np.testing.assert_allclose(model.lens(text, 2).logits[-1], rows[2], atol=0.5)
    with pytest.raises(RequestError, match="position 9 is not in the text, which has 5 tokens"):
        model.lens(text, 9)


def test_a_trace_is_of_the_numbers_that_the_arrays_have(model):
    text = "The capital of France is"
    ids, found = model.tokenize(text), model.trace(text, 3, layer=11, head=4)
    assert (found.position, found.token, found.layer, found.head) == (3, ids[3], 11, 4)
    row = model.attention(text, 11, 4)[3]
    for score in found.opened.head.scores:
        assert score.probability == pytest.approx(row[score.position], abs=1e-4)
    last = model.trace(text)
    assert last.distribution.top[0].text == " Paris" and last.distribution.went_on is None
    best = model.logits(text)[-1].max()
    assert last.distribution.top[0].logit == pytest.approx(best, abs=0.5)
    with pytest.raises(RequestError, match="layer 30: the model has 30 layers"):
        model.trace(text, layer=30)
    with pytest.raises(RequestError, match="head 9: layer 0 has heads 0 to 8"):
        model.trace(text, head=9)


def test_embeddings_are_the_mean_hidden_state(model, smollm2):
    texts = ["A cat sleeps on the sofa.", "A kitten naps on the couch.", "Shares fell sharply."]
    vectors = model.embed(texts)
    assert vectors.shape == (3, 576) and vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.05
    np.testing.assert_array_equal(model.embed(texts[1])[0], vectors[1])
    assert model.embed([]).shape == (0, 576)
    with llm_lite.load(smollm2, backend="numpy", context=64) as reference:
        assert reference.embed("On the sofa.")[0] @ model.embed("On the sofa.")[0] > 0.99
    long = "word " * 150  # of several chunks
    assert np.isfinite(model.embed(long)).all()


def test_hidden_states_times_the_head_are_the_logits(model):
    head = model._file.file.tensors["token_embd.weight"].dequantize()
    ids = model.tokenize("The capital of France is" + " and so on" * 30)  # of two chunks
    logits = model.logits(ids).astype(np.float64).sum(axis=0)
    state = model.embed([ids])[0].astype(np.float64)
    predicted = head.astype(np.float64) @ state
    assert np.corrcoef(predicted, logits)[0, 1] > 0.999


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda m: m.attention([5]), "two tokens or more"),
        (lambda m: m.attention("a b c", [99]), "layer 99 is not in the model, which has layers"),
        (lambda m: m.attention("a b c", 0, -10), "head -10 is not in the model"),
        (lambda m: m.logits([]), "the text is empty"),
        (lambda m: m.logits([10**9]), "1000000000"),
        (lambda m: m.generate("word " * 100_000), "the prompt has"),
        (lambda m: m.complete(np.zeros(500, np.int32)), "500"),
        (lambda m: m.generate([]), "the conversation is empty"),
        (lambda m: m.generate([{"role": "robot", "content": "x"}]), "message 0: role: expected"),
        (lambda m: m.generate([{"role": "user"}]), "message 0: content: expected a text"),
        (lambda m: m.generate(["Hello"]), "message 0: expected a role and a content, found str"),
        (lambda m: m.generate("Hi", temprature=1), "there is no option 'temprature'"),
        (lambda m: m.generate("Hi", temperature="hot"), "temperature: expected a number"),
        (lambda m: m.generate("Hi", temperature=-1), "temperature: expected 0"),
        (lambda m: m.generate("Hi", max_new_tokens=2.5), "expected a whole number, found 2.5"),
        (lambda m: m.generate("Hi", logit_bias={10**8: 1}), "logit bias: token 100000000"),
        (lambda m: m.generate("Hi", stop=3), "stop: expected a text or a list of texts, found 3"),
        (lambda m: m.generate("Hi", stop=[3]), "stop: expected a text or a list of texts"),
        (lambda m: m.generate("Hi", logit_bias=3), "logit_bias: expected a dictionary"),
        (lambda m: m.generate(3), "prompt: expected a question as text, or a list of messages"),
        (lambda m: m.lens("a b").probability(10**8), "token: expected an id from 0 to 49151"),
        (lambda m: m.lens("a b").probability("a b c"), "'a b c' is 3 tokens: expected a text of"),
        (lambda m: m.generate("Hi", json_schema="{"), "the JSON schema is broken in line 1"),
        (lambda m: m.states("a b c", 0, 0), "the model has no recurrent states"),
        (lambda m: m.experts("a b c"), "the model has no experts"),
        (lambda m: setattr(m, "expert_switches", [1.0]), "expert switches: expected [0, 2, 0]"),
        (lambda m: m.highlight("a b c", [1.0]), "weights: expected"),
        (lambda m: setattr(m, "gains", [1, 2]), "gains: expected"),
        (lambda m: setattr(m, "gains", np.nan), "gains: expected finite numbers"),
        (lambda m: m.perplexity("a"), "too few for a chunk of 4"),
        (
            lambda m: llm_lite.load(backend="gpu"),
            "backend: expected one of auto, vulkan, cpu",
        ),
        (lambda m: llm_lite.load(contxt=1), "there is no option 'contxt'"),
        (lambda m: llm_lite.load(context="big"), "context: expected a whole number, found 'big'"),
    ],
)
def test_errors_are_sentences(model, wrong, sentence):
    with pytest.raises(llm_lite.LlmLiteError) as caught:
        wrong(model)
    assert sentence in str(caught.value) and "\n" not in str(caught.value)


def test_a_gain_that_is_no_number_is_a_sentence_where_it_is_used(model):
    model.gains[0, 0] = np.nan
    with pytest.raises(RequestError, match="gains: expected finite numbers"):
        model.logits("Hello")
    model.gains = 1
    assert np.isfinite(model.logits("Hello")).all()


def test_a_model_that_is_closed_says_so(smollm2, tmp_path):
    with pytest.raises(FileError, match="no such file"):
        llm_lite.load(tmp_path / "missing.gguf")
    closed = llm_lite.load(smollm2, backend="cpu", context=64)
    answer = closed.generate("Hello", max_new_tokens=4)
    next(answer)
    closed.close()
    closed.close()
    for call in (lambda: closed.logits("Hello"), answer.__next__, lambda: closed.embed("Hello")):
        with pytest.raises(RequestError, match="the model is closed"):
            call()
    assert "SmolLM2" in repr(closed)


def test_threads_wait_for_each_other(model):
    texts = ["The cat sat", "on the mat", "and looked", "at the dog"] * 2
    alone = [model.logits(text) for text in texts]
    with ThreadPoolExecutor(4) as pool:
        for rows, expected in zip(pool.map(model.logits, texts), alone, strict=True):
            np.testing.assert_array_equal(rows, expected)


def test_the_name_alone_imports_no_engine():
    code = "import llm_lite, sys; print('numpy' in sys.modules, callable(llm_lite.load))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True)
    assert done.stdout == b"False True\n"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = llm_lite.nothing


def test_an_answer_of_a_schema_and_one_that_stops(model):
    schema = {"type": "object", "properties": {"sky": {"enum": ["blue", "red"]}}}
    schema |= {"required": ["sky"], "additionalProperties": False}
    asked = {"temperature": 1.0, "seed": 1, "json_schema": schema}
    text = model.generate("What color is the sky?", **asked).text
    assert json.loads(text)["sky"] in ("blue", "red")
    free = model.generate("Count to five.", **GREEDY, max_new_tokens=24).text
    stop = free[10:13]
    stopped = model.generate("Count to five.", **GREEDY, max_new_tokens=24, stop=stop)
    assert stopped.text == free[: free.find(stop)] and stopped.finish_reason == "stop string"
    assert "".join(token.text for token in stopped) == stopped.text
    token = int(model.tokenize(free)[0])
    other = model.generate("Count to five.", **GREEDY, max_new_tokens=1, logit_bias={token: -100.0})
    assert not free.startswith(other.text)


class Marks(HTMLParser):
    """The elements and texts of HTML, with a check that every tag is closed."""

    def __init__(self, html):
        super().__init__()
        self.open, self.names, self.texts, self.titles = [], set(), [], []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.titles += [value for name, value in attrs if name == "title"]
        assert not any(name.startswith("on") for name, _ in attrs)
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.names.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


HOSTILE = '<script>alert("1")</script> & \x1b[2J\u202e\n"quoted"'


def test_tokens_in_a_notebook_are_tinted_and_escaped():
    texts = [HOSTILE, " certain", " rare", " none"]
    shown = TokenText(
        texts, [0.5, 1.0, 1e-9, math.nan], likelihood=True, notes=["", HOSTILE, "", ""]
    )
    html = shown._repr_html_()
    marks = Marks(html)
    assert marks.names == {"div", "span"}
    assert marks.texts[1:] == texts[1:] and "\x1b" not in html and "\u202e" not in html
    assert marks.texts[0].startswith('<script>alert("1")</script> & ')
    assert marks.titles[1].startswith("100.00%\n<script>") and marks.titles[3] == ""
    tints = re.findall(r"rgba\(245, 158, 11, ([\d.]+)\)", html)
    assert [float(tint) for tint in tints] == [pytest.approx(0.06), 0.6]  # none for the certain one
    assert "color:" not in html.replace("background-color:", "")  # text is the notebook's own
    assert len(repr(shown)) < 120


def test_weights_in_a_notebook_are_told_beside_the_largest():
    html = TokenText(["a", "b", "c"], [0.0, 2.0, -1.0])._repr_html_()
    assert re.findall(r"rgba\(59, 130, 246, ([\d.]+)\)", html) == ["0.60", "0.30"]
    assert TokenText(["a"], [0.0])._repr_html_().count("rgba") == 0


def test_pictures_in_a_notebook_are_well_formed(model):
    text = "The cat <b> & sat.\nOn the mat."
    answer = model.generate("Say hi.", max_new_tokens=4, **GREEDY)
    assert "not finished" in repr(answer)
    for shown in (model.head_map(text, 5, 2), model.lens(text), answer):
        marks = Marks(shown._repr_html_())
        assert marks.names <= {"svg", "title", "image", "rect", "text", "table", "tr", "th", "td",
                               "div", "span"}  # fmt: skip
        assert len(repr(shown)) < 160 and "\n" not in repr(shown)
    assert answer.finish_reason is not None


def test_a_map_is_a_picture_of_its_weights(model):
    map_ = model.head_map("The cat sat on the mat.", 5, -7)
    assert (map_.layer, map_.head) == (5, 2)
    np.testing.assert_array_equal(
        np.asarray(map_), model.attention("The cat sat on the mat.", 5, 2)
    )
    png = base64.b64decode(re.search(r"base64,([^\"]+)", map_.svg())[1])
    with Image.open(io.BytesIO(png)) as image:
        opacity = np.asarray(image)[..., 3]
    np.testing.assert_allclose(opacity / 255, np.sqrt(map_.weights), atol=1 / 255)
    many = model.head_map("word " * 60, 5, 2).svg()
    assert "<text" not in many and len(many) < 40_000
