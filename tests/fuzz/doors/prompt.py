"""Conversations to token ids: any Unicode, control tokens typed, wrong tokens of answers.

What a person types never becomes a control token, whatever the template does with it.
"""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path

from llm_lite.core.generation import prompt
from llm_lite.core.messages import ChatMessage, ToolCall
from llm_lite.core.text.chat_template import CHATML, PLAIN, ChatTemplate
from llm_lite.core.text.tokenizer import Tokenizer
from tests.fuzz.door import Case, Door
from tests.fuzz.mutations import INTEGERS, odd_text
from tests.make_gguf import SPECIAL_TOKENS, tokenizer_metadata

_TRIMMED = CHATML.replace("message['content']", "message['content'] | trim")
_UPPER = CHATML.replace("message['content']", "message['content'] | upper")
_TWICE = CHATML.replace("{{ message['content'] }}", "{{ message.content }}{{ message.content }}")
_ASKS = "{% if 'x' in messages[0].content %}<|im_start|>{% endif %}" + CHATML
_ONE = "{{ messages[0]['content'] }}"
_THINKS = CHATML.replace(
    "{{ message['content'] }}",
    "<think>{{ message.reasoning_content | trim }}</think>{{ message['content'] }}",
)
_FORGETS = CHATML.replace("message['content']", "message['content'].split('</think>')[-1]")
_OPENS = CHATML.replace("assistant\n{{ '' }}", "assistant\n{{ '<think>' if enable_thinking }}")
_ALTERNATES = (  # as Gemma's first: no system, and a person's turn after each answer
    "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('alternate') }}{% endif %}<|im_start|>{{ m.role }}\n"
    "{{ m.content | trim }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
)
_PARTS = (  # as SmolVLM's
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% for part in m.content %}"
    "{% if part['type'] == 'text' %}{{ part['text'] }}{% endif %}{% endfor %}<|im_end|>\n"
    "{% endfor %}<|im_start|>assistant\n"
)
_LEAVES_OUT = "{% for m in messages if m.role != 'system' %}{{ m.content }}\n{% endfor %}"
_CALLS = (  # a call alone, as Llama 3.1's, with its arguments as JSON
    "{{ tools | tojson if tools }}{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.tool_calls %}{% if m.tool_calls | length > 1 %}{{ raise_exception('one') }}{% endif %}"
    "<tool_call>{{ m.tool_calls[0].function | tojson }}</tool_call>{% else %}{{ m.content }}"
    "{% endif %}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
)
TEMPLATES = (
    *(_ALTERNATES, _PARTS, _LEAVES_OUT, _CALLS),
    *(CHATML, PLAIN, _TRIMMED, _UPPER, _TWICE, _ASKS, _ONE, "", "{{ messages }}"),
    *(_THINKS, _FORGETS, _OPENS),
)
_CHECKED = (CHATML, _TRIMMED, _THINKS, _OPENS, _PARTS)
_WHOLE = (CHATML, _ALTERNATES, _PARTS, _LEAVES_OUT, _CALLS)  # all that is said is in their prompts
_TYPED = (
    *SPECIAL_TOKENS,
    "<|im_",
    "end|>",
    "<think>",
    "</think>",
    "\ue000",
    "\ue001",
    "\uf8ff",
    "\uf8ff0\uf8ff",
    "x",
    "Ġ",
    "▁",
)


def pieces_metadata() -> dict[str, object]:
    """A vocabulary of SentencePiece's kind: bytes, letters, a few pairs."""
    tokens = ["<unk>", "<s>", "</s>", *map("<0x{:02X}>".format, range(256)), "▁", "a", "b", "▁a"]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [-float(i) for i in range(len(tokens))],
        "tokenizer.ggml.token_type": [2, 3, 3, *[6] * 256, 1, 1, 1, 1],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.add_bos_token": True,
    }


@cache
def tokenizers() -> tuple[Tokenizer, ...]:
    level = tokenizer_metadata(300)
    pairs = {
        **pieces_metadata(),
        "tokenizer.ggml.model": "gemma4",
        "tokenizer.ggml.merges": ["▁ a"],
    }
    told = (
        level,
        {**level, "tokenizer.ggml.pre": "qwen2"},
        pieces_metadata(),
        {**pieces_metadata(), "general.architecture": "phi3"},
        pairs,
    )
    return tuple(Tokenizer.from_gguf(metadata, Path("x.gguf")) for metadata in told)


@cache
def templates(tokenizer: Tokenizer) -> tuple[ChatTemplate, ...]:
    return tuple(ChatTemplate.of(source, tokenizer) for source in TEMPLATES)


def use(case: Case) -> None:
    rng = case.rng
    tokenizer = rng.choice(tokenizers())
    template = rng.choice(templates(tokenizer))
    messages = conversation(tokenizer, rng)
    if rng.random() < 0.2:
        encoded = prompt.encode_raw(tokenizer, messages)
    else:
        goes_on = rng.random() < 0.3
        thinks = rng.random() < 0.7
        encoded = prompt.encode_chat(
            tokenizer, template, messages, continue_last=goes_on, thinking=thinks
        )
        if template.source in _CHECKED and not goes_on:
            check_control(tokenizer, template, messages, encoded)
        if template.source in _WHOLE and not goes_on:
            check_whole(tokenizer, template, messages)
    own = {token for message in messages for token in message.tokens}  # the session checks these
    assert len(encoded.ids) == len(encoded.owners)
    assert all(0 <= token < tokenizer.vocab_size for token in encoded.ids if token not in own)
    assert all(-1 <= owner < len(messages) for owner in encoded.owners)
    tokenizer.decode(token for token in encoded.ids if token < tokenizer.vocab_size)


def check_control(
    tokenizer: Tokenizer, template: ChatTemplate, messages: list[ChatMessage], found: prompt.Encoded
) -> None:
    """As many control tokens as the template itself writes."""
    if any(m.tokens for m in messages):
        return
    plain = [ChatMessage(m.role, "y", (), "y" if m.thought else "") for m in messages]
    expected = prompt.encode_chat(tokenizer, template, plain)
    special = [sum(map(tokenizer.is_special, each.ids)) for each in (found, expected)]
    assert special[0] == special[1], f"{special[0]} control tokens, expected {special[1]}"


def check_whole(tokenizer: Tokenizer, template: ChatTemplate, messages: list[ChatMessage]) -> None:
    """All that is said is in the prompt; results and calls by what of them is not JSON's own."""
    segments = prompt.chat_segments(tokenizer, template, messages)
    text = "".join(part for part, _ in segments)
    for message in messages:
        assert message.content.strip() in text, f"{message.role} is left out"
        for call in message.calls:
            assert "zqcity" in text, f"a call is left out: {call}"


def conversation(tokenizer: Tokenizer, rng: random.Random) -> list[ChatMessage]:
    roles = ["system", "user", "assistant", "user", "assistant"]
    start = rng.randint(0, 2)
    if rng.random() < 0.3:  # in any order
        roles = rng.choices(("system", "user", "assistant", "tool", "calls"), k=5)
    return [_message(role, tokenizer, rng) for role in roles[start : rng.randint(start, 5)]]


def _message(role: str, tokenizer: Tokenizer, rng: random.Random) -> ChatMessage:
    content = "".join(
        rng.choice(_TYPED) if rng.random() < 0.4 else odd_text(rng)
        for _ in range(rng.randint(0, 3))
    )
    if rng.random() < 0.8:
        content = content.encode(errors="replace").decode()
    if role == "calls":
        call = ToolCall("weather", json.dumps({"city": f"zqcity {rng.random()}"}))
        return ChatMessage("assistant", content, calls=(call,) * rng.choice((1, 1, 2)))
    if role == "tool" and rng.random() < 0.7:
        return ChatMessage("tool", content, name="weather")
    tokens: tuple[int, ...] = ()
    if role == "assistant" and rng.random() < 0.5:
        try:
            tokens = tuple(tokenizer.encode(content))
        except Exception:
            tokens = (5,)
        if rng.random() < 0.1:
            tokens += (rng.choice(INTEGERS),)
    thought = ""
    if role == "assistant" and rng.random() < 0.4:
        thought = rng.choice(_TYPED) if rng.random() < 0.5 else odd_text(rng)
    return ChatMessage(role, content, tokens, thought)  # type: ignore[arg-type]


def prepare() -> None:
    for tokenizer in tokenizers():
        templates(tokenizer)
        prompt.encode_chat(tokenizer, templates(tokenizer)[0], [ChatMessage("user", "a")])


DOOR = Door("prompt", use, prepare)
