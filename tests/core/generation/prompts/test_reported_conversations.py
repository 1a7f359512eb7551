"""Conversations and templates that other programs were reported to lose or refuse a part of."""

import pytest

from llm_lite.core.generation import prompt
from llm_lite.core.messages import ChatMessage, ToolCall
from llm_lite.core.text.chat_template import ChatTemplate
from tests.core.generation.prompts.test_turns import OSLO, SPEC, TOKENIZER, of
from tests.core.generation.prompts.test_turns import encoded as encode

SYSTEM = ChatMessage("system", "Be a pirate.")
HELLO, SKY = ChatMessage("user", "Hello."), ChatMessage("user", "Why is the sky blue?")
RESULT = ChatMessage("tool", "4 degrees", name="weather")
CALL = ChatMessage("assistant", "", calls=(OSLO,))


def text_of(template, *messages, **more):
    return TOKENIZER.decode(encode(template, *messages, **more).ids)


def test_a_system_s_message_alone_is_no_empty_prompt():
    """Llama 3's, in a form that begins behind the first message."""
    template = ChatTemplate(
        "{% if messages[0].role == 'system' %}{% set rest = messages[1:] %}{% set first = "
        "messages[0].content ~ '\n\n' %}{% else %}{% set rest = messages %}{% endif %}"
        "{% for m in rest %}<|im_start|>{{ m.role }}\n{{ first if loop.first }}{{ m.content }}"
        "<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
    )
    assert "<|im_start|>user\nBe a pirate.<|im_end|>" in text_of(template, SYSTEM)
    assert "<|im_start|>user\nBe a pirate.\n\nHello.<|im_end|>" in text_of(template, SYSTEM, HELLO)


def test_a_late_system_s_message_is_no_error():
    """Qwen3.5's refuses one that is not the first, which agents send as reminders."""
    talk = (SYSTEM, HELLO, ChatMessage("assistant", "Ahoy."), ChatMessage("system", "Stay."), SKY)
    text = text_of(of("qwen3_5"), *talk)
    assert "<|im_start|>user\nStay.<|im_end|>\n<|im_start|>user\nWhy is the sky blue?" in text


@pytest.mark.parametrize("name", ["mistral_v1", "mistral_v3", "mistral_v7", "gemma3", "llama2"])
def test_reminders_before_a_question_are_no_error(name):
    text = text_of(of(name), SYSTEM, ChatMessage("user", "<reminder>"), HELLO)
    assert all(words in text for words in ("Be a pirate.", "<reminder>", "Hello."))


@pytest.mark.parametrize("name", ["mistral_v3", "mistral_v7", "llama3_1", "gpt_oss", "gemma4"])
@pytest.mark.parametrize("words", ["", "I look."])
def test_a_call_that_was_cancelled_is_no_error(name, words):
    """It has no result, and the person goes on."""
    call = ChatMessage("assistant", words, calls=(OSLO,))
    text = text_of(of(name), HELLO, call, SKY, tools=(SPEC,))
    assert "Oslo" in text and words in text and "Why is the sky blue?" in text


@pytest.mark.parametrize("name", ["gpt_oss", "mistral_v3"])
def test_a_result_without_its_call_is_told(name):
    """Its call was left out, as by a client that shortens the conversation."""
    assert "4 degrees" in text_of(of(name), HELLO, RESULT, tools=(SPEC,))


def test_calls_that_a_template_writes_where_nothing_is_said():
    """DeepSeek's: a content that is a text, even an empty one, hides the calls."""
    template = ChatTemplate(
        "{{ tools | tojson if tools }}{% for m in messages %}<|im_start|>{{ m.role }}\n"
        "{% if m.role == 'assistant' and m.content is none %}{% for c in m.tool_calls %}"
        "<tool_call>{{ c.function.name + c.function.arguments }}</tool_call>{% endfor %}"
        "{% else %}{{ m.content }}{% endif %}<|im_end|>\n{% endfor %}"
    )
    text = text_of(template, HELLO, CALL, RESULT, tools=(SPEC,))
    assert '<|im_start|>assistant\n<tool_call>weather{"city": "Oslo"}</tool_call><|im_end|>' in text


def test_words_before_a_call_are_kept():
    text = text_of(of("glm4"), HELLO, ChatMessage("assistant", "I look.", calls=(OSLO,)), RESULT)
    assert "<|assistant|>\nI look.<|assistant|>weather\n" in text


def test_both_words_and_thoughts_before_a_call_are_kept():
    """gpt-oss' template refuses them together."""
    call = ChatMessage("assistant", "I look.", thought="Hm.", calls=(OSLO,))
    text = text_of(of("gpt_oss"), HELLO, call, RESULT, tools=(SPEC,))
    assert "I look." in text and "to=functions.weather" in text and "4 degrees" in text
    assert "<|channel|>analysis<|message|>Hm.<|end|>" in text


def test_several_calls_of_one_message_are_no_error():
    calls = (OSLO, ToolCall("weather", '{"city": "Rome"}'))
    talk = (HELLO, ChatMessage("assistant", "", calls=calls), RESULT, RESULT)
    text = text_of(of("llama3_1"), *talk, tools=(SPEC,))
    assert "Oslo" in text and "Rome" in text and text.count("4 degrees") == 2


def test_what_a_template_opens_for_an_answer_stays():
    template = ChatTemplate(
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{{ '' }}{% endif %}"
    )
    found = prompt.encode_chat(TOKENIZER, template, [HELLO])
    assert TOKENIZER.decode(found.ids).endswith("<|im_start|>assistant\n<think>\n")
    assert found.thinking.inside


def test_zephyr_ends_each_turn():
    text = text_of(of("zephyr"), SYSTEM, HELLO, ChatMessage("assistant", "Ahoy."), SKY)
    assert "".join(text.split()).count("Beapirate.") == 1
    template = ChatTemplate(of("zephyr").source, eos_token="<|im_end|>")
    assert text_of(template, SYSTEM, HELLO).count("<|im_end|>") == 2
