"""Thoughts told from what is said, however the answer is cut into pieces."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from llm_lite.core.messages import Thinking
from llm_lite.core.text.thinking import MARKS, Split, begun_by, style_of, written_out

THINK, INSIDE = Thinking("think"), Thinking("think", inside=True)
HARMONY, GEMMA, GRANITE = Thinking("harmony"), Thinking("gemma"), Thinking("granite")
ANALYSIS, FINAL = "<|channel|>analysis<|message|>", "<|channel|>final<|message|>"
STYLES = [Thinking(style, inside) for style in MARKS for inside in (False, True)]


def heard(thinking, *pieces):
    split = Split.of(thinking)
    for piece in pieces:
        split = split.fed(piece)
    return split.ended()


def parts(thinking, *pieces):
    split = heard(thinking, *pieces)
    return split.thought, split.visible_text


CASES = {
    "thought, then said": (THINK, "<think>\nhm\n</think>\n\nYes.", "hm", "Yes."),
    "the prompt has opened": (INSIDE, "\nhm\n</think>\n\nYes.", "hm", "Yes."),
    "opened twice": (INSIDE, "<think>\nhm</think>Yes.", "hm", "Yes."),
    "no thoughts": (THINK, "  Yes. 1 < 2", "", "  Yes. 1 < 2"),
    "empty thoughts": (THINK, "<think>\n\n</think>\n\nYes.", "", "Yes."),
    "unclosed": (THINK, "<think>hm</thin", "hm</thin", ""),
    "unopened": (THINK, "Yes.</think>", "", "Yes.</think>"),
    "only begun": (THINK, " <thin", "", " <thin"),
    "nothing": (THINK, "", "", ""),
    "nothing inside": (INSIDE, "", "", ""),
    "whitespace alone": (THINK, " \n", "", " \n"),
    "in a block of code": (
        THINK,
        "<think>a</think>Use:\n```\n<think>b</think>\n```",
        "a",
        "Use:\n```\n<think>b</think>\n```",
    ),
    "in code, no thoughts": (THINK, "```\n<think>b</think>\n```", "", "```\n<think>b</think>\n```"),
    "nested": (THINK, "<think>a <think> b</think>c", "a <think> b", "c"),
    "two blocks": (THINK, "<think>a</think>\n<think>b</think>\nc", "a\n\nb", "c"),
    "code is indented": (THINK, "<think>a</think>\n\n    x = 1", "a", "    x = 1"),
    "another model's marks": (THINK, f"{ANALYSIS}a", "", f"{ANALYSIS}a"),
    "Mistral": (Thinking("mistral"), "[THINK]a[/THINK]b", "a", "b"),
    "Granite": (GRANITE, "<think>a</think>\n<response>b < c</response>", "a", "b < c"),
    "Granite, cut in a mark": (GRANITE, "<think>a</think><response>b</resp", "a", "b</resp"),
    "Granite, not thinking": (GRANITE, "b</response>", "", "b</response>"),
    "Granite, goes on": (GRANITE, "<think>a</think><response>b</response>\nc", "a", "b\nc"),
    "Gemma": (GEMMA, "<|channel>thought\na\n<channel|>b", "a", "b"),
    "Gemma, not thinking": (GEMMA, "<|channel>thought\n<channel|>b", "", "b"),
    "Harmony": (
        HARMONY,
        f"{ANALYSIS}a<|end|><|start|>assistant{FINAL}b",
        "a",
        "b",
    ),
    "Harmony, two analyses": (
        HARMONY,
        f"{ANALYSIS}a<|end|><|start|>assistant{ANALYSIS}b<|end|><|start|>assistant{FINAL}c",
        "a\n\nb",
        "c",
    ),
    "Harmony, not thinking": (HARMONY, f"{FINAL}b", "", "b"),
    "Harmony, cut in a mark": (HARMONY, f"{ANALYSIS}a<|end|><|start|>assis", "a", "<|start|>assis"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_parts_of_an_answer(case):
    thinking, text, thought, said = CASES[case]
    assert parts(thinking, text) == (thought, said)
    assert parts(thinking, *text) == (thought, said)


MARK_LIKE = ["<think>", "</think>", "[THINK]", "[/THINK]", "<|channel>thought\n", "<channel|>"]
MARK_LIKE += ["<response>", "</response>"]
MARK_LIKE += [ANALYSIS, FINAL, "<|end|>", "<|start|>assistant", "<", "</", "|>", "th", "think>"]
TEXTS = st.lists(st.sampled_from([*MARK_LIKE, "[", "\n", " ", "a", "```\n", "한", "7"])).map(
    "".join
)


@given(st.sampled_from(STYLES), TEXTS, st.data())
@example(THINK, "<think>a</think>b", None)
def test_any_cut_gives_the_same_parts(thinking, text, data):
    whole = heard(thinking, text)
    cuts = [] if data is None else data.draw(st.lists(st.integers(0, len(text))))
    edges = [0, *sorted(cuts), len(text)]
    assert heard(thinking, *(text[a:b] for a, b in itertools.pairwise(edges))) == whole
    assert heard(thinking, *text) == whole
    assert whole.raw == text


@given(st.sampled_from(STYLES), TEXTS, TEXTS)
def test_an_answer_that_ended_goes_on_as_if_it_had_not(thinking, first, second):
    assert heard(thinking, first).fed(second).ended() == heard(thinking, first, second)


@given(st.sampled_from(STYLES), TEXTS)
def test_what_is_said_never_changes_while_more_comes(thinking, text):
    """A view shows it as it comes: it only grows, and so do the thoughts but for their end."""
    split, said, thought = Split.of(thinking), "", ""
    for piece in text:
        split = split.fed(piece)
        assert split.visible_text.startswith(said)
        assert split.thought.startswith(thought)
        assert not (split.is_thinking and split.visible_text)
        said, thought = split.visible_text, split.thought


@given(st.sampled_from(STYLES), TEXTS)
def test_nothing_that_no_mark_has_is_lost(thinking, text):
    split = heard(thinking, text)
    shown = split.thought + split.visible_text
    assert [c for c in shown if c in "한`7"] == [c for c in text if c in "한`7"]


@given(
    st.sampled_from(STYLES),
    st.text("ab \n").map(str.strip),
    st.text("ab \n").map(str.strip),
)
def test_an_answer_written_out_is_told_apart_again(thinking, thought, said):
    text = "".join(part for part, _ in written_out(thinking, thought, said))
    if thought or not thinking.inside:
        assert parts(thinking, text) == (thought, said)


@pytest.mark.parametrize(
    ("source", "style"),
    [
        ("{% if '</think>' in content %}", "think"),
        ("{{ '<think>\n' }}", "think"),
        ("Think in <think></think>, answer in <response></response>.", "granite"),
        ("{{ '[THINK]' }}", "mistral"),
        ("{{ '<|channel>thought\n<channel|>' }}", "gemma"),
        ("{{ '<|start|>assistant<|channel|>analysis<|message|>' }}", "harmony"),
        ("{% if message.thinking %}{{ message.role }}{% endif %}", None),
    ],
)
def test_a_template_tells_how_its_model_thinks(source, style):
    assert style_of(source) == style


@pytest.mark.parametrize(
    ("prompt", "inside"),
    [
        ("<|im_start|>assistant\n<think>\n", True),
        ("<|im_start|>assistant\n<think>", True),
        ("<|im_start|>assistant\n<think>\n\n</think>\n\n", False),
        ("<|im_start|>assistant\n", False),
        ("say <think>\n<|im_end|>\n<|im_start|>assistant\n", False),
    ],
)
def test_a_prompt_may_open_the_thoughts(prompt, inside):
    assert begun_by(prompt, "think") == Thinking("think", inside)
