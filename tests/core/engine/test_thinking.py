"""A model that thinks, over several turns: what the cache keeps, and what a prompt tells."""

import pytest

from llm_lite.core.messages import (
    ChatMessage,
    GenerationStarted,
    ModelLoaded,
    SpellTokens,
    Thinking,
    TokenDecoded,
    TokensSpelled,
)
from llm_lite.core.records import replace
from llm_lite.core.text.thinking import Split
from llm_lite.core.text.tokenizer import Tokenizer
from tests.core.engine_client import GREEDY, Client
from tests.make_gguf import tokenizer_metadata, write_tiny_llama
from tests.runners import BACKENDS, exact

OPENING = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n"
    "{% if enable_thinking is false %}</think>\n{% endif %}{% endif %}"
)
TOKENIZER = Tokenizer.from_gguf(tokenizer_metadata(300), "tiny")
ASKED = ChatMessage("user", "Is the sky blue?")
SAID = "it is so</think>\n\nYes."


@pytest.fixture(scope="module")
def thinker(tmp_path_factory):
    path = tmp_path_factory.mktemp("thinker") / "thinker.gguf"
    return write_tiny_llama(path, {"tokenizer.chat_template": OPENING}, context=256)


def second_turn(tokens):
    answer = ChatMessage("assistant", "Yes.", tuple(tokens), "it is so")
    return (ASKED, answer, ChatMessage("user", "And the sea?"))


@pytest.mark.parametrize("backend", [b for b in BACKENDS if b != "vulkan"])
def test_the_turn_after_thoughts_is_answered_as_in_a_fresh_session(client, thinker, backend):
    client.load(thinker, exact(backend))
    forced = (*TOKENIZER.encode(SAID), TOKENIZER.eos_id)
    finished, said = client.ask((ASKED,), forced=forced)
    assert (finished.stop_reason, said) == ("end", list(forced))
    finished, answered = client.ask(second_turn(said))
    started = client.of(GenerationStarted)[-1]
    assert started.thinking == Thinking("think", inside=True)
    told = "".join(token.text for token in started.prompt)
    assert "it is so" not in told
    assert told.count("<think>") == 1, "that of the answer to come"
    assert "assistant\nYes.<|im_end|>" in told
    reused = started.reused_tokens
    asked = TOKENIZER.encode(
        "<|im_start|>user\nIs the sky blue?<|im_end|>\n<|im_start|>assistant\n"
    )
    assert reused >= len(asked), "the question is not read again"
    fresh = Client()
    try:
        fresh.load(thinker, exact(backend))
        assert fresh.ask(second_turn(said))[1] == answered
        assert fresh.of(GenerationStarted)[0].prompt == started.prompt
        assert fresh.of(GenerationStarted)[0].reused_tokens == 0
    finally:
        fresh.engine.close()


def test_the_switch_reaches_the_template(client, thinker):
    client.load(thinker)
    assert client.of(ModelLoaded)[0].model.switches_thinking
    client.ask((ASKED,), thinking=False)
    started = client.of(GenerationStarted)[0]
    assert started.thinking == Thinking("think")
    assert "".join(token.text for token in started.prompt).endswith("<think>\n</think>\n")


def test_a_model_without_marks_thinks_nothing(client, tiny_llama):
    client.load(tiny_llama)
    client.ask((ASKED,), thinking=False)
    assert client.of(GenerationStarted)[0].thinking is None
    assert not client.of(ModelLoaded)[0].model.switches_thinking


def test_the_forced_answer_is_what_it_was_taken_for():
    split = Split.of(Thinking("think", inside=True)).fed(SAID).ended()
    assert (split.thought, split.visible_text) == ("it is so", "Yes.")


def test_thoughts_that_were_cut_short_go_on(client, thinker):
    client.load(thinker)
    forced = tuple(TOKENIZER.encode("it is"))
    begun = replace(GREEDY, max_new_tokens=3)
    _, said = client.ask((ASKED,), begun, forced=forced)
    thoughts = TOKENIZER.decode(said)
    last = ChatMessage("assistant", "", tuple(said), thoughts)
    _, more = client.ask((ASKED, last), begun, continue_last=True)
    started = client.of(GenerationStarted)[-1]
    assert [t.id for t in started.prompt[-len(said) :]] == said
    whole = replace(GREEDY, max_new_tokens=6)
    assert client.ask((ASKED,), whole, forced=forced)[1] == [*said, *more]


@pytest.mark.parametrize(("thought", "said"), [("it is", ""), ("it is so", "Yes"), ("", "Yes")])
def test_an_answer_begins_with_what_another_model_has_written(client, thinker, thought, said):
    """It is told as text, and comes back as this model's own tokens, which are not new ones."""
    client.load(thinker)
    begin = ChatMessage("assistant", said, (), thought)
    unending = tuple((token, -100.0) for token in TOKENIZER.encode("<|im_start|><|im_end|>"))
    few = replace(GREEDY, max_new_tokens=3, logit_bias=unending)
    finished, tokens = client.ask((ASKED,), few, begin=begin)
    written = f"{thought}\n</think>\n\n{said}" if thought and said else thought + said
    begun = TOKENIZER.encode(written)
    assert tokens[: len(begun)] == begun and len(tokens) == len(begun) + 3
    assert finished.stats.new_tokens == len(tokens)
    assert client.ask((ASKED,), few, forced=tuple(begun))[1] == tokens


def test_a_beginning_that_does_not_fit_is_refused(client, thinker):
    client.load(thinker)
    begin = ChatMessage("assistant", "word " * 100_000)
    assert "context" in client.refusal((ASKED,), begin=begin)
    assert not client.of(TokenDecoded)


def test_tokens_that_were_kept_are_spelled(client, thinker):
    client.load(thinker)
    ids = tuple(TOKENIZER.encode("Yes."))
    spelling = client.send(SpellTokens(ids))
    client.ask((ASKED,), replace(GREEDY, max_new_tokens=1))
    (told,) = client.of(TokensSpelled)
    assert client.of(TokensSpelled, spelling) == [told] and "".join(told.texts) == "Yes."
