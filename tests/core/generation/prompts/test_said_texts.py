"""Who says a piece of a prompt: as by looking at all messages, and without doing so."""

import json
import random

from llm_lite.core.generation import prompt
from llm_lite.core.generation.prompt import MessageTexts
from llm_lite.core.messages import ChatMessage, ToolCall
from llm_lite.core.text.chat_template import CHATML, ChatTemplate
from llm_lite.core.text.tokenizer import Tokenizer
from tests.make_gguf import tokenizer_metadata

WORDS = ["a", " a ", "b", 'say "a"', "line\nline", "", "c d"]
ARGUMENTS = ['{"a": 1}', '{"b": "a"}', '{"a": 1, "b": 2}', "{}"]


def owner_by_looking(messages, text, first):
    """The definition."""

    def says(message):
        if message.content.strip() == text.strip():
            return True
        quoted = json.dumps(message.content, ensure_ascii=False)[1:-1]
        return message.role == "tool" and quoted.strip() == text.strip()

    def calls_with(message):
        """All arguments, or one of their names or values, is the text."""
        whole = {t for call in message.calls for t in (call.arguments, *json.loads(call.arguments))}
        whole |= {v for call in message.calls for v in json.loads(call.arguments).values()}
        return text.strip() in whole

    def calls_with_part(message):
        return any(text in call.arguments for call in message.calls)

    def first_of(holds, start):
        return next((i for i in range(max(start, 0), len(messages)) if holds(messages[i])), -1)

    said = first_of(says, first)
    if said == first:
        return said
    found = [place for place in (said, first_of(calls_with, first - 1)) if place >= 0]
    if found:
        return min(found)
    # Those behind it say nothing before it does.
    following = first_of(lambda message: message.content.strip() or message.calls, first)
    callers = [place for place in (first - 1, following) if 0 <= place < len(messages)]
    return next((place for place in callers if calls_with_part(messages[place])), -1)


def conversation(rng):
    made = []
    for _ in range(rng.randrange(12)):
        role = rng.choice(("user", "assistant", "tool"))
        calls = [ToolCall("f", rng.choice(ARGUMENTS)) for _ in range(rng.randrange(3))]
        calls = tuple(calls) if role == "assistant" else ()
        made.append(ChatMessage(role, rng.choice(WORDS), calls=calls))
    return made


def test_it_is_found_as_by_looking_at_all_messages():
    rng, found = random.Random(0), set()
    for _ in range(3000):
        messages = conversation(rng)
        texts, first = MessageTexts(messages), rng.randrange(len(messages) + 2)
        text = rng.choice([*WORDS, *ARGUMENTS, '"a"', "1", 'say \\"a\\"', "line\\nline", "x"])
        owner = texts.owner(text, first)
        assert owner == owner_by_looking(messages, text, first), (messages, text, first)
        found.add(owner)
    assert found >= {-1, 0, 1, 5}


class Counted(str):
    """A text that counts how often it is looked at."""

    looked = 0

    def strip(self, *arguments):
        Counted.looked += 1
        return super().strip(*arguments)


def test_messages_are_looked_at_a_few_times_however_many_they_are():
    tokenizer = Tokenizer.from_gguf(tokenizer_metadata(300), "tiny")
    template = ChatTemplate(CHATML)
    for roles in (("user", "assistant"), ("user", "system")):
        for count in (64, 1024):
            messages = [ChatMessage(roles[i % 2], Counted("hi")) for i in range(count)]
            Counted.looked = 0
            encoded = prompt.encode_chat(tokenizer, template, messages)
            assert set(encoded.owners) == {-1, *range(count)}
            assert count <= Counted.looked <= 4 * count


def test_a_mark_that_messages_say_does_not_stand_for_an_answer():
    tokenizer = Tokenizer.from_gguf(tokenizer_metadata(300), "tiny")
    said = tuple(tokenizer.encode("ab", parse_special=False))
    spoken = ChatMessage("assistant", "ab", said)
    messages = [ChatMessage("user", prompt._MARK * 70_000 + "1"), spoken, ChatMessage("user", "c")]
    encoded = prompt.encode_chat(tokenizer, ChatTemplate(CHATML), messages)
    own = [t for t, owner in zip(encoded.ids, encoded.owners, strict=True) if owner == 1]
    assert tuple(own) == said
