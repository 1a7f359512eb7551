"""Calls and thoughts are split by work that grows as the answer does: each character is looked at a
few times, however many marks there are and in however many pieces the answer comes."""

import pytest

from llm_lite.core.messages import Thinking
from llm_lite.core.text import thinking
from llm_lite.core.text.thinking import Split
from llm_lite.core.tools import calls
from llm_lite.core.tools.calls import CallSplit

looked = 0


def look(characters):
    global looked
    looked += max(characters, 0)


class Visited(str):
    """A text that counts the characters that are looked at in it, and in what is made of it."""

    def __add__(self, other):
        return Visited(str.__add__(self, other))

    def __radd__(self, other):
        return Visited(str.__add__(other, self))

    def __getitem__(self, place):
        part = str.__getitem__(self, place)
        look(len(part))
        return Visited(part)

    def find(self, part, first=0, *last):
        at = str.find(self, part, first, *last)
        look((at + len(part) if at >= 0 else len(self)) - first)
        return at

    def rfind(self, part, first=0, *last):
        look((last[0] if last else len(self)) - first)
        return str.rfind(self, part, first, *last)

    def startswith(self, part, *places):
        look(len(part))
        return str.startswith(self, part, *places)

    def endswith(self, part, *places):
        look(len(part))
        return str.endswith(self, part, *places)

    def partition(self, mark):
        look(len(self))
        return tuple(map(Visited, str.partition(self, mark)))

    def lstrip(self, *characters):
        look(len(self))
        return Visited(str.lstrip(self, *characters))

    def strip(self, *characters):
        look(len(self))
        return Visited(str.strip(self, *characters))


class CountedPattern:
    def __init__(self, pattern):
        self.pattern = pattern

    def search(self, text, first=0):
        found = self.pattern.search(text, first)
        look((found.end() if found else len(text)) - first)
        return found

    def match(self, text, first=0):
        found = self.pattern.match(text, first)
        look(found.end() - first if found else 0)
        return found

    def finditer(self, text, first, last):
        look(last - first)
        return self.pattern.finditer(text, first, last)


@pytest.fixture(autouse=True)
def counted(monkeypatch):
    for name in ("_SOMETHING", "_BEGUN_LLAMA", "_JSON_QUOTES"):
        monkeypatch.setattr(calls, name, CountedPattern(getattr(calls, name)))
    for name in ("_OPENINGS", "_QUOTES"):
        patterns = {style: CountedPattern(one) for style, one in getattr(calls, name).items()}
        monkeypatch.setattr(calls, name, patterns)
    monkeypatch.setattr(thinking, "_SHOWN", CountedPattern(thinking._SHOWN))
    monkeypatch.setattr(calls, "_read", lambda style, body: look(len(body)) or ())


def work(make, text, size):
    global looked
    looked, split = 0, make()
    for at in range(0, len(text), size):
        split = split.fed(Visited(text[at : at + size]))
    split.ended()
    return looked


def grows_as_the_text_does(make, text_of, size):
    first, second = (work(make, text_of(n), size or 10**9) for n in (400, 800))
    assert second <= 2.2 * first + 500, (first, second)
    assert second <= 200 * len(text_of(800)), "each character a bounded number of times"


CALLS = {
    "empty calls": ("tags", lambda n: "<tool_call></tool_call>" * n),
    "empty calls of Harmony": ("harmony", lambda n: "<|channel|>commentary to=<|call|>" * n),
    "half marks": ("harmony", lambda n: "<|channel|>commentary t" * n),
    "a long call": ("tags", lambda n: '<tool_call>{"name": "a", "x": "' + "y" * 9 * n),
    "marks in a text": ("tags", lambda n: '<tool_call>{"x": "' + "</tool_call>" * n),
    "marks and quotes": ("tags", lambda n: '<tool_call>{"x": "</tool_call>" ' * n),
    "escapes": ("tags", lambda n: '<tool_call>"' + "\\" * n + "</tool_call>" * 9),
    "python": ("python", lambda n: "<|tool_call_start|>[a(x='<|tool_call_end|>')" * n),
    "gemma": ("gemma", lambda n: '<|tool_call>call:a{x:<|"|><tool_call|>' * n),
    "words": ("tags", lambda n: "some words < and <tool" * n),
    "whitespace": ("llama", lambda n: " \n" * n),
    "objects": ("llama", lambda n: "{ " * n),
    "no end": ("mistral", lambda n: "[TOOL_CALLS]" * n),
}
THOUGHTS = {
    "empty thoughts": ("think", lambda n: "<think></think>" * n),
    "blank thoughts": ("think", lambda n: "<think> \n</think>\n" * n),
    "many thoughts": ("think", lambda n: "<think>a</think>\n\n" * n),
    "marks alone": ("harmony", lambda n: "<|start|>assistant" * n),
    "whitespace": ("think", lambda n: " \n" * n),
    "whitespace and words": ("granite", lambda n: "<think></think>" + " \n" * n + "x" * n),
    "half marks": ("think", lambda n: "<think>" + "</thin" * n),
    "endings": ("granite", lambda n: "<think></think><response>" + "</response>" * n),
    "channels": ("gemma", lambda n: "<|channel>thought\na<channel|><|channel>final\n" * n),
}


@pytest.mark.parametrize("size", [0, 3, 40])
@pytest.mark.parametrize("case", CALLS)
def test_calls(case, size):
    style, text_of = CALLS[case]
    grows_as_the_text_does(lambda: CallSplit(style), text_of, size)


@pytest.mark.parametrize("size", [0, 3, 40])
@pytest.mark.parametrize("case", THOUGHTS)
def test_thoughts(case, size):
    style, text_of = THOUGHTS[case]
    grows_as_the_text_does(lambda: Split.of(Thinking(style)), text_of, size)
