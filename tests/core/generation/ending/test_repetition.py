"""Whether an answer loops: what does, and what repeats itself and goes on."""

import random
import re
from collections import Counter
from typing import NamedTuple

import pytest

from llm_lite.core.generation import repetition, sentences
from llm_lite.core.generation.repetition import (
    CODE,
    NEW,
    OTHER,
    PROSE,
    RUN_ON,
    SEEN,
    SHORTEST,
    STALE,
    RepetitionGuard,
    is_prose,
    repeats,
    runs_of,
    smallest_period,
)
from llm_lite.core.generation.sentences import LONGEST, words_of_sentence

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


def villanelle():
    """Two lines come back as refrains of six stanzas."""
    first, second = (
        "The sea is calm tonight and full of stars",
        "And nobody will tell us where it ends",
    )
    between = (
        "A gull cries once above the harbour bars",
        "The moon has counted all her silver friends",
        "We heard the bells that rang for distant wars",
        "The sailor mends the net his father mends",
        "He ties the rope and whispers of the scars",
        "The tide forgives whatever land offends",
        "A lantern glows behind the window bars",
        "Upon the rocks a cloud of spray descends",
        "The old man sings and tunes his two guitars",
    )
    stanzas, at = [(first, between[0], second)], 1
    for refrain in (first, second, first, second):
        stanzas.append((between[at], between[at + 1], refrain))
        at += 2
    stanzas.append((between[1], first, second))
    return "\n\n".join(",\n".join(stanza) + "." for stanza in stanzas)


def training_plan():
    """Weeks that are the same but for their number."""
    days = (
        "Monday: thirty minutes of easy running and ten minutes of stretching.",
        "Wednesday: forty minutes on the bicycle, then twenty push-ups.",
        "Friday: swimming for half an hour at a pace that feels good.",
        "Sunday: a long walk with the whole family in the forest.",
    )
    return "".join(f"Week {n}\n" + "\n".join(days) + "\n\n" for n in range(1, 13))


def fixtures():
    """Each team against each other: the same sentence, with two other names."""
    teams = ("Lions", "Tigers", "Bears", "Eagles", "Sharks", "Wolves", "Hawks", "Foxes")
    return "".join(
        f"The {home} play against the {guest} on the big field behind the old school.\n"
        for home in teams
        for guest in teams
        if home != guest
    )


FILMS = tuple(
    f"The {one} {other} of {place}"
    for one, other, place in zip(
        ("Silver", "Golden", "Broken", "Hidden", "Silent", "Burning", "Frozen", "Lonely") * 4,
        ("Road", "Crown", "Mirror", "Garden", "River", "Tower", "Letter", "Promise", "Winter") * 4,
        ("Lisbon", "Vienna", "Kyoto", "Havana", "Dublin", "Oslo", "Prague") * 5,
        strict=False,
    )
)


def sorted_films():
    """The same titles three times in other orders, and in one sentence."""
    draw = random.Random(8)
    lists = "".join(
        f"By {what}:\n" + "".join(f"{n}. {film}\n" for n, film in enumerate(order, 1)) + "\n"
        for what in ("year", "length")
        for order in (draw.sample(FILMS, len(FILMS)),)
    )
    return lists + "In one line: " + ", ".join(FILMS) + ".\n"


def recipes():
    """Three of them with equal ingredients and steps."""
    ingredients = (
        "- 2 cups of all-purpose flour\n- 2 tablespoons of sugar\n- 1 teaspoon of baking powder\n"
        "- 1/2 teaspoon of salt\n- 2 large eggs at room temperature\n- 1 cup of whole milk\n"
        "- 3 tablespoons of melted butter\n- 1 teaspoon of vanilla extract\n"
    )
    steps = (
        "1. Whisk the flour, sugar, baking powder and salt in a large bowl.\n"
        "2. Beat the eggs with the milk, the butter and the vanilla in another bowl.\n"
        "3. Pour the wet ingredients into the dry ones and stir until just combined.\n"
        "4. Let the batter rest for ten minutes.\n"
    )
    last = {
        "Pancakes": "Fry each pancake for two minutes on both sides.",
        "Waffles": "Bake each waffle until it is golden and crisp.",
        "Muffins": "Fill the tins and leave them in the oven for twenty minutes.",
    }
    return "".join(
        f"{name}\n\nIngredients:\n{ingredients}\nSteps:\n{steps}5. {step}\n\n"
        for name, step in last.items()
    )


def moves(disks, source="A", goal="C", spare="B"):
    """Of the Tower of Hanoi."""
    if disks == 0:
        return []
    one = f"move disk {disks} from rod {source} to rod {goal}"
    return [*moves(disks - 1, source, spare, goal), one, *moves(disks - 1, spare, goal, source)]


def song_in_one_sentence():
    verses = song().replace("\n\n", ", ").replace("\n", ", ")
    return verses.lower() + ".\n"


def draft_and_final():
    draw = random.Random(9)
    words = ("river", "mountain", "silver", "morning", "garden", "window", "castle", "bridge")
    text = " ".join(
        "The {} {} the {} before it reached the {}.".format(*draw.choices(words, k=4))
        for _ in range(40)
    )
    return f"Draft:\n{text}\n\nFinal:\n{text}\n"


def truth_table():
    values = ("true", "false")
    return "".join(
        f"If A is {a} and B is {b} and C is {c} and D is {d}, then the whole is "
        f"{'true' if 'false' not in (a, b, c, d) else 'false'}.\n"
        for a in values
        for b in values
        for c in values
        for d in values
    )


def objects():
    """A JSON array outside of a fence."""
    names = ("Alice", "Bob", "Carol", "David")
    return "[\n" + ",\n".join(
        f'  {{"name": "{names[n % 4]}", "status": "active", "country": "Norway", "score": {n % 7}}}'
        for n in range(80)
    ) + "\n]"  # fmt: skip


GOES_ON = {
    "a villanelle": villanelle(),
    "a training plan": training_plan(),
    "fixtures": fixtures(),
    "a truth table": truth_table(),
    "a JSON array": objects(),
    "a form of addresses": "".join(
        f"Name: Person {n}\nStreet: Long Road {n}\nCity: Springfield\nCountry: United States of "
        "America\n\n"
        for n in range(60)
    ),
    "a litany": "".join(
        f"For the gift of {word}, we give thanks and praise to the maker of all that is.\n"
        for word in re.findall(
            r"[a-z]+",
            " ".join(
                f"{a}{b}"
                for a in ("sun", "sea", "tree", "star", "field", "river", "stone", "bird")
                for b in ("light", "song", "rise", "shine", "fall")
            ),
        )
    ),
    "a conversation of a play": "".join(
        f"ROMEO: I will not leave this garden before the sun is up, my {word}.\nJULIET: Then stay "
        f"and tell me of the {word} once more.\n"
        for word in (
            "love",
            "sword",
            "rose",
            "letter",
            "father",
            "ship",
            "moon",
            "ring",
            "dream",
            "horse",
            "cloak",
            "lute",
        )
    ),
    "films in two orders and in one sentence": sorted_films(),
    "three recipes with equal ingredients": recipes(),
    "moves of a puzzle, numbered": "".join(
        f"{n}. {move.capitalize()}.\n" for n, move in enumerate(moves(6), 1)
    ),
    "moves of a puzzle in one sentence": ", ".join(moves(6)) + ".\n",
    "a song in one sentence": song_in_one_sentence(),
    "a text that was drafted": draft_and_final(),
    "an answer key": "".join(
        f"{n}. {random.Random(n).choice(('True', 'False'))}\n" for n in range(1, 201)
    ),
    "sentences that are all positive": "".join(f"{n}. Positive\n" for n in range(1, 121)),
    "tosses of a coin in one sentence": "They are "
    + ", ".join(random.Random(10).choices(("heads", "tails"), k=400))
    + ".\n",
    "a contract's sentence": "The seller shall deliver, "
    + ", ".join(
        f"at the expense of the buyer, the {part} of the building"
        for part in ("roof", "walls", "doors", "windows", "floors", "stairs", "pipes", "locks")
    )
    + ", free of any charge.\n",
    "a JSON array in one line": "["
    + ", ".join(f'{{"country": "United States of America", "score": {n % 7}}}' for n in range(80))
    + "]\n",
    "names in a list of Python": "colours = ["
    + ", ".join(
        random.Random(11).choices(("'dark olive green'", '"light goldenrod yellow"'), k=100)
    )
    + "]\n",
    "four equal parts of an address": (
        "- `(?:[0-9]{1,3})` matches one part of the address, where the first number says how many "
        "digits there must be at the least and the other one how many there may be at the most. "
        "Each part but the last is followed by a dot.\n"
    )
    * 4
    + "- `$` matches the end.\n",
    "numbered log lines": "".join(
        f"2024-05-{n % 28 + 1:02d} 12:{n % 60:02d}:07 INFO worker finished the job without errors\n"
        for n in range(120)
    ),
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

ASKED = {
    "a line, 50 times": (
        "Repeat this sentence 50 times: I will not talk in class.",
        "I will not talk in class.\n" * 50,
    ),
    "a line, 300 times, numbered": (
        "Write 'I will not talk in class' 300 times, with numbers.",
        "".join(f"{n}. I will not talk in class.\n" for n in range(1, 301)),
    ),
    "a word, as often as it likes": ("Say the word banana over and over again.", "banana " * 900),
    "an emoji": ("Print 🎉 one thousand times please", "🎉 " * 500),
    "a poem of its own": (
        "Write a haiku about frogs and say it 20 times.",
        "An old silent pond.\nA frog jumps into the pond.\nSplash! Silence again.\n\n" * 20,
    ),
    "a line, 50 times, in one sentence": (
        "Write 'I will not talk in class' 50 times, with commas between.",
        ", ".join(["I will not talk in class"] * 50) + ".\n",
    ),
    "a short line, 300 times, numbered": (
        "Count to 3 again and again, please, 300 times.",
        "".join(f"{n}. One, two, three\n" for n in range(1, 301)),
    ),
    "in Korean": ("'안녕하세요 여러분' 이라고 100번 써 줘", "안녕하세요 여러분\n" * 100),
    "a paragraph that was pasted": (
        "Copy the following text ten times. The key was old and heavy. It opened a door that "
        "nobody had seen before. Behind it there was a garden, and in it stood a tree with silver "
        "leaves.",
        "The key was old and heavy. It opened a door that nobody had seen before. Behind it there "
        "was a garden, and in it stood a tree with silver leaves.\n\n" * 10,
    ),
}

LOOPS = {
    "paragraphs with small changes": "".join(
        f"In ancient {land}, bread was considered as one of the seven sacred ingredients to gods. "
        "They would eat bread made from wheat and they used it in their rituals. They also had a "
        f"tradition of eating bread with meat on special occasions. The {people} people believed "
        "that eating bread is not just food but a way of life.\n\n"
        for land, people in random.Random(5).choices(
            (("Rome", "Roman"), ("China", "Chinese"), ("India", "Indian")), k=16
        )
    ),
    "two paragraphs by turns": (
        "In modern times, the sea has become a symbol of freedom and adventure. The games "
        "have been held on its shores for many years, and sailors from all over the world "
        "come to see them. They sing the songs that their fathers sang, and light a "
        "fire upon the highest hill.\n\n"
        "In modern times, the sea has become a symbol of peace and tranquility. The games "
        "have been held on its shores for many years, and children from all over the world "
        "come to see them. They hear the songs that their mothers heard, and count "
        "the boats along the quiet bay.\n\n"
    )
    * 8,
    "a sentence without an end": (
        "The rain on my soul, it is a melody I have been blessed to hear, one that has brought me "
        "joy and comfort over many years, a song that speaks of love, peace, and harmony, a song "
        "that reminds me of the beauty of nature, a song that holds the secrets of the universe, "
    )
    * 12,
    "Korean paragraphs with small changes": "".join(
        f"옛날 {land}에서는 빵을 신에게 바치는 일곱 가지 거룩한 음식 가운데 하나로 여겼습니다. "
        f"사람들은 밀로 만든 빵을 먹었고 그것을 의식에 썼습니다. {land} 사람들은 빵이 음식일 뿐 "
        "아니라 삶의 방식이라고 믿었습니다.\n\n"
        for land in random.Random(6).choices(("로마", "중국", "인도"), k=30)
    ),
    "a chapter again and again": "".join(
        f"Chapter {n}\n\nThe old captain stood at the wheel and looked out over the dark water. "
        "Nobody on board had slept for three nights, and the food was almost gone. He thought of "
        "his daughter, who was waiting for him in the little house behind the lighthouse. Then the "
        "wind turned, and the sails began to fill. He shouted his orders, and the men ran to the "
        "ropes as if they were young again. By morning they could see the coast. It was not the "
        "coast that he had hoped for.\n\n"
        for n in range(1, 12)
    ),
    "a list of ingredients in one line": "Optional ingredients: "
    + "".join(
        f"1 tsp of {spice}, "
        for spice in random.Random(12).choices(
            ("chai tea", "chai coffee", "chai", "chocolate chips", "vanilla extract"), k=200
        )
    ),
    "exercises in one Chinese sentence": "".join(
        f"然后我们再做{what}、"
        for what in random.Random(13).choices(("三次深呼吸", "五次俯卧撑", "两次仰卧起坐"), k=200)
    ),
    "a short item with numbers": "".join(f"{n}. Grey - Grey\n" for n in range(1, 200)),
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


@pytest.mark.parametrize("name", ASKED)
def test_what_a_person_asks_to_be_repeated_goes_on(name):
    asked, text = ASKED[name]
    assert looping(text, request=asked) is None


@pytest.mark.parametrize("name", ASKED)
def test_what_nobody_asked_for_does_not(name):
    """The same answers to another question; those within a window say nothing."""
    _, text = ASKED[name]
    more = text * (1 + 3000 // len(cut(text)[0]))
    assert looping(more, request="Tell me about your day.") is not None


def test_more_than_was_asked_for_is_a_loop():
    asked = "Write 'I will not talk in class' 100 times."
    at = looping("I will not talk in class.\n" * 2000, request=asked)
    line = len(cut("\nI will not talk in class.")[0])
    assert at is not None and repetition.ANY_NUMBER * line < at <= CODE.tokens + CODE.stride


def test_a_question_that_is_said_again_and_again_was_not_asked_for():
    asked = "What is the capital of France?"
    assert looping("What is the capital of France?\n" * 200, request=asked) is not None


def test_a_very_long_message_is_read_at_its_ends():
    asked = "Say 'I will not talk in class' fifty times. " + "Rules: none.\n" * 100_000
    assert looping("I will not talk in class.\n" * 50, request=asked) is None


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


class Found(NamedTuple):
    tokens: int
    text: str
    run_on: int | None  # which sentence it is a part of, if that runs on


def found_in(texts):
    """The whole text's sentences outside of fences, found at once, and whether the end is in a
    fence."""
    found, text, before, begins, line, fence, run_on, count = [], "", 0, [], "", False, None, 0
    for piece in texts:
        begins.append(before + len(text))
        text += piece
        while True:
            end = (sentences._END if run_on is None else sentences._PART_END).search(text)
            if not end and len(text) <= LONGEST:
                break
            if not end and run_on is None:
                run_on, count = count, count + 1
                continue
            spaces = [at for at in range(LONGEST) if text[at : at + 1].isspace()]
            at = end.end() if end else (spaces[-1] + 1 if spaces else LONGEST)
            sentence, text, before = text[:at], text[at:], before + at
            size = sum(begin < before for begin in begins)
            begins = begins[size:]
            line += sentence
            is_fence = line.lstrip().startswith(("```", "~~~"))
            fence ^= is_fence and sentence.endswith("\n")
            if not (fence or is_fence):
                found.append(Found(size, sentence, run_on))
            if end and end[0][0] in ".!?…。！？\n":
                run_on = None
            line = "" if sentence.endswith("\n") else line[:8]
    return found, fence


def counts(sentence, words):
    text = sentence.text.strip()
    is_value = text.startswith("'") or set(text) & set('"{}[]<>=`')
    is_long = len(" ".join(words).encode()) >= SHORTEST and is_prose(text)
    return is_long and (sentence.run_on is None or not is_value)


def stale_tokens(found, repeats, *, run_on=None):
    """(tokens, stale tokens) of each sentence that counts; with `run_on`, of its parts alone, as it
    had said them before."""
    words_said, said, runs_said, rated = set(), Counter(), Counter(), []
    for sentence in found:
        words = words_of_sentence(sentence.text)
        whole = " ".join(words)
        is_new, stale = bool(set(words) - words_said), [False] * len(words)
        words_said.update(words)
        if run_on is not None and sentence.run_on != run_on:
            continue
        runs = [(begin, end, " ".join(words[begin:end])) for begin, end in runs_of(words)]
        for begin, end, run in runs:
            if runs_said[run] >= repeats:
                stale[begin:end] = [True] * (end - begin)
        part = sum(stale) / max(1, len(words)) * (1 if said[whole] else repetition.UNSAID)
        part = 1 if said[whole] >= repeats else part
        if is_new:
            rated.append((max(sentence.tokens, NEW), 0))
        elif counts(sentence, words):
            rated.append((sentence.tokens, round(sentence.tokens * part)))
        if counts(sentence, words):
            said[whole] += 1
            runs_said.update(run for _, _, run in runs)
    return rated


def is_stale(row, rated):
    total = stale = 0
    for size, of_it in reversed(rated):
        if total >= row.recent:
            break
        total, stale = total + size, stale + of_it
    return stale >= row.stale


def follows_itself(found):
    said = [(sentence.tokens, words_of_sentence(sentence.text)) for sentence in found]
    while said and not said[-1][1]:
        said.pop()
    times = tokens = 0
    for size, words in reversed(said):
        if words and words != said[-1][1]:
            break
        times, tokens = times + bool(words), tokens + size
    return times >= OTHER.tokens // OTHER.longest and tokens >= OTHER.tokens


def loops_by_definition(tokens, texts):
    """The definition in the module's first lines, of a whole answer, in a plain way."""
    found, in_fence = found_in(texts)
    if any(is_stale(row, stale_tokens(found, row.repeats)) for row in STALE):
        return True
    last = found[-1] if found else Found(0, "", None)
    runs_on = last.run_on is not None and not sentences._END.search(last.text)
    if runs_on and is_stale(RUN_ON, stale_tokens(found, RUN_ON.repeats, run_on=last.run_on)):
        return True
    if follows_itself(found):
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
        assert searched[0] <= 5 * 8 * length  # five windows, each eight times over
        for recent in (*guard._recent, guard._run_on.recent):
            assert len(recent._sentences) <= recent.row.recent
        assert len(guard._tokens) <= CODE.tokens
        assert len(guard._splitter.text) <= LONGEST + SEEN
        assert len(guard._splitter._begins) <= LONGEST + SEEN


@pytest.mark.parametrize("text", [".", '…"', "-", "> ", "1. ", "a", "\n", "가", "、", "( "])
def test_the_work_of_a_token_does_not_grow_with_its_text(text, monkeypatch):
    """Characters that are looked at: a vocabulary may have a token of thousands of dots, with which
    the guard took 37 s for 51 tokens."""
    looked = [0]

    class Counted:
        """A pattern that counts what it is given."""

        def __init__(self, pattern):
            self.pattern = pattern

        def __getattr__(self, name):
            def called(text, *rest):
                looked[0] += len(text)
                return getattr(self.pattern, name)(text, *rest)

            return called

    for name in ("_END", "_PART_END", "_NUMBER", "_WORD", "_LAST_SPACE"):
        monkeypatch.setattr(sentences, name, Counted(getattr(sentences, name)))
    monkeypatch.setattr(repetition, "_DATA", Counted(repetition._DATA))
    work = {}
    for size in (8_000, 800_000):
        looked[0] = 0
        guard = RepetitionGuard()
        for token in range(50):
            guard.feed(token, text * (size // len(text)))
        work[size] = looked[0]
    assert work[8_000] == work[800_000] <= 50 * 400 * SEEN
