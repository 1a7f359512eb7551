"""Whether an answer loops: what does, and what repeats itself and goes on."""

import random
import re
from collections import Counter

import pytest

from llm_lite.core.generation import repetition
from llm_lite.core.generation.repetition import (
    CODE,
    OTHER,
    PROSE,
    RECENT,
    REPEATS,
    STALE,
    RepetitionGuard,
    is_prose,
    normalized_sentence,
    repeats,
    smallest_period,
)

WORDS = re.compile(r"\s?\w+|\s|[^\w\s]")


def cut(text):
    """Tokens and their texts: words with the space before them."""
    texts = WORDS.findall(text)
    ids = {}
    return [ids.setdefault(text, len(ids)) for text in texts], texts


def looping(text, **options):
    return repeats(*cut(text), **options)


JACK = (
    ("lay in", "the house that Jack built"),
    ("ate", "the malt"),
    ("killed", "the rat"),
    ("worried", "the cat"),
    ("tossed", "the dog"),
    ("milked", "the cow with the crumpled horn"),
    ("kissed", "the maiden all forlorn"),
    ("married", "the man all tattered and torn"),
    ("waked", "the priest all shaven and shorn"),
    ("kept", "the cock that crowed in the morn"),
    ("belonged to", "the farmer sowing his corn"),
)


def house_that_jack_built():
    stanzas = []
    for last in range(len(JACK)):
        lines = [f"This is {JACK[last][1]}"]
        lines += [f"That {JACK[at + 1][0]} {JACK[at][1]}" for at in range(last - 1, -1, -1)]
        stanzas.append("\n".join(lines) + ".")
    return "\n\n".join(stanzas)


GIFTS = (
    "a partridge in a pear tree", "two turtle doves", "three French hens", "four calling birds",
    "five gold rings", "six geese a-laying", "seven swans a-swimming", "eight maids a-milking",
    "nine ladies dancing", "ten lords a-leaping", "eleven pipers piping",
    "twelve drummers drumming",
)  # fmt: skip


def twelve_days():
    verses = []
    for day in range(12):
        lines = [f"On day {day + 1} of Christmas my true love sent to me"]
        verses.append("\n".join([*lines, *reversed(GIFTS[: day + 1])]))
    return "\n\n".join(verses)


def song():
    """A chorus of four lines behind each of eight verses."""
    words = ("river", "mountain", "silver", "morning", "garden", "window", "summer", "evening")
    draw = random.Random(1)
    chorus = "\n".join(
        ("Carry me over the water again", "Carry me home to the sea and the rain",
         "Sing me a song that I know from before", "Carry me over the water once more")
    )  # fmt: skip
    verses = (
        "\n".join(" ".join(draw.choices(words, k=7)).capitalize() for _ in range(4))
        for _ in range(8)
    )
    return "\n\n".join(f"{verse}\n\n{chorus}" for verse in verses)


GOES_ON = {
    "the house that Jack built": house_that_jack_built(),
    "the twelve days of Christmas": twelve_days(),
    "a song with a refrain": song(),
    "a round, four times": "Row, row, row your boat,\nGently down the stream.\n" * 4,
    "a line, twenty times, as asked": "I will not talk in class.\n" * 20,
    "a matrix of zeros": ("[" + ", ".join("0" * 16) + "],\n") * 16,
    "squares": "".join(f"The square of {n} is {n * n}.\n" for n in range(200)),
    "numbers": ", ".join(str(n) for n in range(1000)),
    "servers": "".join(f"- Server {n} is up and running without errors.\n" for n in range(100)),
    "a table": "| Day | Open | Note |\n| --- | --- | --- |\n"
    + "".join(f"| {n} | from nine to five | nothing to add here |\n" for n in range(60)),
    "a table of empty cells": "|" + "  |" * 8 + "\n" + ("|" + "  |" * 8 + "\n") * 20,
    "rules": ("-" * 60 + "\n") * 4,
    "code": "```python\n"
    + "".join(f"def f():\n    return value\n\n\ndef g{n}():\n    pass\n\n\n" for n in range(40))
    + "```\n",
    "the same code again and again": "```html\n" + "<tr><td></td><td></td></tr>\n" * 60 + "```\n",
    "quotes": "".join(
        f"> To be or not to be, that is the question.\n\nActor {n} speaks it in his own way, "
        f"with a {['low', 'loud', 'soft', 'clear'][n % 4]} voice and {n} gestures.\n\n"
        for n in range(20)
    ),
}

LOOPS = {
    "a sentence": "The cat sat on the mat. " * 200,
    "a line": "[Your Phone Number]\n" * 300,
    "a list that counts": "".join(
        f"{n}. Make sure that you get enough sleep every night.\n" for n in range(1, 200)
    ),
    "bullets": "Ingredients:\n" + "- 1 cup chocolate chips\n" * 200,
    "a paragraph": (
        "The key was old and heavy. It opened a door that nobody had seen before. Behind it there "
        "was a garden, and in the garden stood a tree with silver leaves. The cat climbed it and "
        "looked over the wall. There was the sea, and a ship with white sails. The cat jumped "
        "down again and ran. Nobody had told her about the ship, and nobody would believe her. "
    )
    * 20,
    "two sentences by turns without a period": "".join(
        random.Random(2).choices(
            ("I am unable to help with that matter.\n", "I would like you to help me with this.\n"),
            k=200,
        )
    ),
    "a word": " very" * 600,
    "numbers": "0, " * 900,
    "a Chinese sentence": "我们应该每天早上去公园里散步。" * 150,
    "code without an end": "```\n" + "print('hello')\n" * 900,
}


@pytest.mark.parametrize("name", GOES_ON)
def test_what_repeats_itself_for_a_reason_goes_on(name):
    assert looping(GOES_ON[name]) is None


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_is_noticed(name):
    text = LOOPS[name]
    at = looping(text)
    assert at is not None
    most = {"numbers": OTHER.tokens + OTHER.stride, "code without an end": CODE.tokens + 300}
    assert at <= most.get(name, 900)


def test_a_text_before_the_loop_changes_nothing_but_the_place():
    """A story, then a loop: noticed as soon as its window holds nothing else."""
    before = song()
    count = len(cut(before)[0])
    at = looping(before + "\n\n" + LOOPS["a line"])
    assert count < at <= count + PROSE[0].tokens + 2 * PROSE[0].stride


def test_what_keeps_to_a_grammar_repeats_as_code_does():
    """Lists of a schema may hold the same again and again."""
    text = '{"name": "none", "value": 0},\n' * 80
    assert looping(text, in_grammar=True) is None
    assert looping("The cat sat on the mat. " * 100, in_grammar=True) is None


def test_the_smallest_period_is_the_smallest():
    draw = random.Random(3)
    for _ in range(2000):
        unit = [draw.randrange(3) for _ in range(draw.randint(1, 6))]
        tokens = (unit * 6)[: draw.randint(1, 24)]
        if draw.random() < 0.3:
            tokens[draw.randrange(len(tokens))] = draw.randrange(3)
        expected = next(
            p
            for p in range(1, len(tokens) + 1)
            if all(a == b for a, b in zip(tokens, tokens[p:], strict=False))
        )
        assert smallest_period(tokens) == expected


def sentences(texts):
    """(tokens, words, whether in a fence) of the whole text's sentences, found at once."""
    found, text, size, line, fence = [], "", 0, "", False
    for piece in texts:
        text, size = text + piece, size + 1
        while (end := repetition._END.search(text)) or len(text) > repetition.LONGEST:
            at = end.end() if end else repetition.LONGEST
            sentence, text = text[:at], text[at:]
            line += sentence
            is_fence = line.lstrip().startswith(("```", "~~~"))
            fence ^= is_fence and sentence.endswith("\n")
            if not (fence or is_fence) and (words := normalized_sentence(sentence)):
                found.append((size, words))
            line, size = "" if sentence.endswith("\n") else line[:8], 0
    return found, fence


def loops_by_definition(tokens, texts):
    """The definition in the module's first lines, of a whole answer, in a plain way."""
    found, in_fence = sentences(texts)
    said, rated = Counter(), []
    for size, words in found:
        rated.append((size, said[words] >= REPEATS))
        said[words] += 1
    total = stale = 0
    for size, is_stale in reversed(rated):
        if total >= RECENT:
            break
        total, stale = total + size, stale + size * is_stale
    if stale >= STALE:
        return True
    for window in (CODE,) if in_fence else (*PROSE, OTHER, CODE):
        if len(tokens) < window.tokens or len(tokens) % window.stride:
            continue
        last = tokens[-window.tokens :]
        for period in range(1, window.longest + 1):
            if all(a == b for a, b in zip(last, last[period:], strict=False)):
                if window not in PROSE or is_prose("".join(texts[-period:])):
                    return True
                break
    return False


@pytest.mark.parametrize("seed", range(12))
def test_the_guard_says_what_the_definition_says(seed):
    """Of texts made of prose, loops, fences, tables and numbers, cut into tokens of any length."""
    draw = random.Random(seed)
    parts = [*GOES_ON.values(), *LOOPS.values()]
    text = "\n\n".join(part[: draw.randint(0, 1500)] for part in draw.sample(parts, 4))
    texts = []
    while text:
        size = draw.choice((1, 2, 3, 5, 8))
        texts.append(text[:size])
        text = text[size:]
    ids = {}
    tokens = [ids.setdefault(piece, len(ids)) for piece in texts]
    guard = RepetitionGuard()
    for count, (token, piece) in enumerate(zip(tokens, texts, strict=True), 1):
        found = guard.feed(token, piece)
        if count % 32 == 0 or found:
            assert found == loops_by_definition(tokens[:count], texts[:count]), count
        if found:
            break


def test_its_work_is_linear(monkeypatch):
    """Tokens searched for periods, and sentences that are kept, by the length of the answer."""
    searched = [0]
    plain = smallest_period

    def counted(tokens):
        searched[0] += len(tokens)
        return plain(tokens)

    monkeypatch.setattr(repetition, "smallest_period", counted)
    draw = random.Random(4)
    for length in (4096, 8192):
        guard, searched[0] = RepetitionGuard(), 0
        for _ in range(length):
            assert not guard.feed(draw.randrange(5000), f" w{draw.randrange(5000)}")
        assert searched[0] <= 4 * 8 * length  # four windows, each eight times over
        assert len(guard._recent) <= RECENT and len(guard._tokens) <= CODE.tokens
        assert len(guard._sentence) <= repetition.LONGEST + 16
