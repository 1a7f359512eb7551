"""The Python face of encoder-decoders, beside what transformers made of them."""

import json
from importlib import import_module

import numpy as np
import pytest
from msgspec import Struct

import llm_lite
from llm_lite.core.errors import RequestError
from llm_lite.core.messages.interventions import Scale
from llm_lite.core.questions import wire
from llm_lite.core.questions.table import QUESTIONS
from tests.seq2seq_checks import TOLERANCE, stored, write_case
from tests.seq2seq_families import NEW_TOKENS

EXACT = {"backend": "cpu", "keys": "fp32", "values": "fp32", "activations": "a32"}


@pytest.fixture(scope="module", params=["t5", "marian", "bart"])
def opened(request, tmp_path_factory):
    family = import_module(f"tests.fixtures.seq2seq.{request.param}").FAMILY
    case = next(iter(family.cases))
    folder = write_case(family, case, tmp_path_factory.mktemp(request.param) / "m")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **family.generation}))
    with llm_lite.load(folder, **EXACT) as model:
        yield model, stored(request.param, case)


def test_logits_of_a_target(opened):
    model, known = opened
    assert isinstance(model, llm_lite.Translator)
    source, target = known["source"].tolist(), known["target"].tolist()
    found = model.logits(source, target[1:])
    assert np.abs(found - known["logits"]).max() < TOLERANCE
    assert np.abs(model.logits(source) - known["logits"][:1]).max() < TOLERANCE


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda one: one.name)
def test_questions_about_a_source_are_answered_or_refused(opened, question):
    model, known = opened
    given = {one.name: getattr(question.example, one.name) for one in wire.parameters(question)}
    if "sites" in given:
        given["sites"] = ("encoder.embedding", "decoder.embedding")
    if question.name in ("rows", "scores", "attention") or question.of_pairs:
        assert isinstance(model.ask(known["source"].tolist(), question.name, **given), Struct)
        return
    with pytest.raises(RequestError, match="turns a source into a target"):
        model.ask(known["source"].tolist(), question.name, **given)


def test_activations_of_source_and_target(opened):
    """The last hidden states and the logits, and what the cross-attention reads, by its names."""
    model, known = opened
    source, target = known["source"].tolist(), known["target"].tolist()
    ends = ("encoder.output.norm", "encoder.layers.1.feed_forward.norm")
    hidden = next(one for one in ends if one in {site.name for site in model.sites()})
    names = (hidden, "lm_head", "decoder.layers.0.cross_attention.k")
    found = model.activations(source, names, target=target[1:])
    assert [len(found[name]) for name in names] == [len(source), len(target), len(source)]
    assert np.abs(found[hidden] - known["hidden"]).max() < TOLERANCE
    bias = known["logits"] - found["lm_head"]  # which Marian and BART add behind the head
    assert np.abs(bias - bias[0]).max() < TOLERANCE
    last = model.activations(source, "lm_head", len(target) - 1, target=target[1:])["lm_head"]
    np.testing.assert_array_equal(last, found["lm_head"][-1:])
    site = "decoder.layers.0.feed_forward.down"
    behind = next(
        one.name for one in reversed(model.sites()) if one.name.startswith("decoder.layers.1.")
    )
    off = model.activations(
        source, behind, target=target[1:], interventions=Scale(site, 0.0, positions=(2,))
    )[behind]
    plain = model.activations(source, behind, target=target[1:])[behind]
    np.testing.assert_allclose(off[:2], plain[:2], atol=TOLERANCE)
    assert all(np.abs(off[2:] - plain[2:]).max(axis=1) > 1e-4), "later tokens see what became of it"
    early = Scale("encoder.layers.0.feed_forward.down", 0.0)
    off = model.activations(source, (hidden, behind), target=target[1:], interventions=early)
    assert np.abs(off[hidden] - found[hidden]).max() > 1e-3
    assert np.abs(off[behind] - plain).max() > 1e-4, "the decoder sees another source"
    again = model.activations(source, hidden, target=target[1:])[hidden]
    np.testing.assert_array_equal(again, found[hidden])
    begun = model.activations(source, "decoder.embedding")["decoder.embedding"]
    assert len(begun) == 1
    with pytest.raises(RequestError, match="positions 12 to 18 are not in the cache, which holds"):
        model.activations(source, names, 12, len(source), target=target[1:])
    with pytest.raises(RequestError, match=r"no site 'layers\.0\.attention\.q': did you mean"):
        model.activations(source, "layers.0.attention.q")


def test_translations_greedy_and_by_beams(opened):
    model, known = opened
    source = known["source"].tolist()
    greedy = model.translate(source, beams=1, max_new_tokens=NEW_TOKENS)
    assert list(greedy.tokens) == known["greedy"].tolist()[1:]
    assert str(greedy) == greedy.text
    wide = model.translate(source, beams=4, max_new_tokens=NEW_TOKENS)
    assert list(wide.tokens) == known["beam.0"].tolist()[1:]
    assert len(wide.others) == 3 and wide.score >= wide.others[0].score
    with pytest.raises(RequestError, match="beams: expected 1 to"):
        model.translate(source, beams=1000)


@pytest.mark.parametrize("part", ["encoder", "decoder", "cross"])
def test_maps_of_each_part(opened, part):
    model, known = opened
    source, target = known["source"].tolist(), known["target"].tolist()
    maps = model.attention(source, target=target[1:], part=part)
    sizes = {"encoder": (source, source), "decoder": (target, target), "cross": (target, source)}
    assert maps.shape[2:] == tuple(map(len, sizes[part]))
    assert np.abs(maps - known[f"{part}_maps"]).max() < TOLERANCE
    assert model.attention(source, 0, 1, target=target[1:], part=part).shape == maps.shape[2:]


def test_a_head_that_is_ablated_changes_logits_and_comes_back(opened):
    model, known = opened
    source, target = known["source"].tolist(), known["target"].tolist()[1:]
    before = model.logits(source, target)
    for row in (0, len(model.gains) // 2, len(model.gains) - 1):  # of each part
        model.gains[row, 0] = 0
        assert np.abs(model.logits(source, target) - before).max() > 1e-6
        model.gains = 1
    np.testing.assert_array_equal(model.logits(source, target), before)
    assert model.rollout(source, 1).shape == (len(source),)
    assert model.scores(source)["entropy"].shape[1] == model.info.heads
    assert model.head_map(source, 0, 0).weights.shape == (len(source),) * 2


@pytest.mark.parametrize(
    "ask",
    [
        lambda model: model.generate("a"),
        lambda model: model.complete("a"),
        lambda model: model.likelihood("a"),
        lambda model: model.perplexity("a"),
        lambda model: model.embed("a"),
        lambda model: model.lens("a"),
        lambda model: model.trace("a"),
        lambda model: model.states("a", 0, 0),
        lambda model: model.experts("a"),
        lambda model: model.statistics("a", "key-norm"),
    ],
)
def test_it_continues_no_text(opened, ask):
    with pytest.raises(RequestError, match="continues no text: use `translate`"):
        ask(opened[0])


def test_what_is_wrong_is_told(opened):
    model, _ = opened
    with pytest.raises(RequestError, match="part: expected decoder, encoder, cross, found 'both'"):
        model.attention("a", part="both")
    with pytest.raises(RequestError, match=r"the source has|the text is empty"):
        model.translate([])
