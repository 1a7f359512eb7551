"""GBNF says what may be written character by character, as llama.cpp's guide to it has it."""

import itertools
import random
import re

import numpy as np
import pytest
from llguidance import LLMatcher, LLTokenizer

from llm_lite.core.errors import RequestError
from llm_lite.core.generation.grammars.forms import form_of
from llm_lite.core.generation.grammars.grammar import Grammar, check_grammar
from llm_lite.core.messages import SamplingOptions
from llm_lite.core.text.tokenizer import Tokenizer
from tests.make_gguf import tokenizer_metadata

BYTES = LLTokenizer("byte")
JSON = r"""
# The grammar of JSON: a value is an object or a list, or stands in one.
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws     ::= | " " | "\n" [ \t]{0,20}
"""


class Reader:
    """Reads texts by one grammar, a byte at a time, as an answer of such tokens would be read."""

    def __init__(self, grammar):
        self.form = form_of("grammar", grammar)
        self._matcher = LLMatcher(BYTES, self.form, log_level=0)
        assert not self._matcher.is_error(), self._matcher.get_error()

    def reads(self, text):
        matcher = self._matcher.deep_copy()
        for byte in text.encode():
            bits = np.frombuffer(matcher.compute_bitmask(), np.uint8)
            if not bits[byte >> 3] >> (byte & 7) & 1:
                return False
            assert matcher.consume_token(byte)
        return matcher.is_accepting()


@pytest.mark.parametrize(
    ("grammar", "fits", "others"),
    [
        ('root ::= ("a"+)?', ["", "a", "aaa"], ["b", "ab"]),
        ('root ::= ("a"*)+ "b"?', ["", "aa", "aab", "b"], ["ba"]),
        ('root ::= "a"{3}', ["aaa"], ["aa", "aaaa"]),
        ('root ::= "a"{2,}', ["aa", "aaaaa"], ["", "a"]),
        ('root ::= "a"{1,2}"b"', ["ab", "aab"], ["b", "aaab"]),
        ('root ::= [ab]{0,2} "c"', ["c", "bac"], ["abac"]),
        ('root ::= "a"{ 2 , 3 }', ["aa", "aaa"], ["a"]),
        ('root ::= "x"{0}"y"', ["y"], ["xy"]),
        ('root ::= ("a" "b"){2}', ["abab"], ["ab", "aabb"]),
        ('root ::= "\\u00E9\\U0001F600\\x41"', ["é😀A"], ["e😀A"]),
        ("root ::= [\\u3041-\\u3096]+", ["ひらがな"], ["カ", ""]),
        ("root ::= [\\U0001F600-\\U0001F64F]", ["😀", "🙏"], ["🚀"]),
        ("root ::= [ぁ-ゟ]", ["ん"], ["ン"]),
        ('root ::= "\\"\\\\\\n\\r\\t"', ['"\\\n\r\t'], ['"\\\n\r ']),
        ("root ::= [\\]\\[^\\\\]+", ["]", "[^\\"], ["a"]),
        ("root ::= [^a-c\\]]+", ["d^[", "\n", "é"], ["a", "d]"]),
        ("root ::= [a-]", ["a", "-"], ["b"]),
        ("root ::= [&&~~--]", ["&", "~"], ["a", "-", "&&"]),
        ('root ::= [a-z&&[b] "]"', ["b]", "&]", "[]"], ["b", "a&]]"]),
        ("root ::= [/] [.] [$] [(]", ["/.$("], ["/a$("]),
        ("root ::= . .", ["a\n", "é😀", "\r/"], ["a", "abc"]),
        ('root ::= start end\nstart ::= "<"\nend ::= ">"', ["<>"], [">", "<"]),
        ('root ::= Ab a-b a_b AB\nAb ::= "1"\na-b ::= "2"\na_b ::= "3"\nAB ::= "4"', ["1234"], []),
        ('start ::= "b"\nroot ::= "a" start', ["ab"], ["b"]),
        ('root ::= T0 r1 null\nT0 ::= "x"\nr1 ::= "y"\nnull ::= "z"', ["xyz"], []),
        ('root ::= "a" | # the first\n  "b" |\n\n  "c"', ["a", "b", "c"], ["d", "ab"]),
        ('root ::= "a"\n  | "b"\n# and\n  | "c"\nx ::= "d"', ["a", "b", "c"], ["d"]),
        ('root ::=\n  "a" x\nx ::= ("b"\n | # nothing\n)', ["ab", "a"], ["b"]),
        ('root ::= "a" (("b" | "c") ("d" | ("e" "f")?))* "g"', ["ag", "abdcefbg"], ["abedg"]),
        ('root ::= x "y"\nx ::=\nz ::= "q"', ["y"], ["qy"]),
        ('root ::= "a"\r\nx ::= "b"\r\n', ["a"], ["b"]),
        ('root ::= x\nx ::= "a"\nx ::= "b"', ["b"], ["a"]),
        ('root ::= "a" # "b"\n', ["a"], ["ab"]),
        ('root ::= root "a" | "b"', ["b", "baa"], ["a"]),
        ('root ::= "" | "a"', ["", "a"], ["b"]),
        ('root ::= .. "no" ..', ["nonono", "éénoéé", "aanoca"], ["anoaa", "anno", "aanoaaa"]),
        ('root ::= ("x"* )* "y"', ["y", "xxy"], ["x", "yx"]),
        ('root ::= ("#" [A-F0-9]{2} ";"?){2,3}', ["#00#FF;", "#0A;#0B;#0C"], ["#00;", "#0"]),
        ('root ::= till "-"\ntill ::= [^\\-<] till | [^\\-<]', ["ab-"], ["-", "a<-", "a--"]),
        (
            "root ::= c+ v* c? (v c)*\nv ::= [aeiouy]\nc ::= [b-df-hj-np-tv-z]",
            ["so", "soyes", "brrr", "tree", "bet"],
            ["oh", "bett"],
        ),
        # A text is cut into characters, and not into the longest words that there are:
        ('root ::= word "ing"\nword ::= [a-z]+', ["testing", "inging"], ["ing", "tested"]),
        ('root ::= ("a" | "ab") "bc"', ["abc", "abbc"], ["abbbc"]),
        ('root ::= "(" root ")" | ("a" | "ab") ("" | "b")', ["(ab)", "((abb))"], ["(ab", "abbb"]),
        ('root ::= item ("," item)* ","?\nitem ::= [^,]+', ["a,b", "a,b,"], ["a,,"]),
        ('root ::= "x" root "x" | [x]* "y" [xy]?', ["xyx", "xxyxxx", "y"], ["xxxy y"]),
    ],
)
def test_what_fits_a_grammar(grammar, fits, others):
    reader = Reader(grammar)
    assert [text for text in fits if not reader.reads(text)] == []
    assert [text for text in others if reader.reads(text)] == []


@pytest.mark.parametrize(
    ("grammar", "sentence"),
    [
        ('root ::= "a"\n\n# words\nb ::= (', "line 4: this ( is not closed"),
        ("root ::= x\nx ::= [a\\q]", "line 2: \\q stands for no character"),
        ('root ::= x\n\nx ::= "a" y', "line 3: there is no rule 'y'"),
        ("root ::= x\nx ::= [b-a]", "line 2: no character is of this class"),
        ("root ::= x\nx ::= []", "line 2: no character is of this class"),
        ('root ::= x\nx ::= "\\uD83D\\uDE00"', "line 2: \\uD83D is no character of Unicode"),
        ('root ::= x\nx ::= "\\u12"', "line 2: expected 4 hexadecimal digits behind \\u"),
        ('root ::= x\nx ::= "a"{3,2}', "line 2: expected at least 3 as the larger number"),
        ('root ::= x\nx ::= "a"{,2}', "line 2: expected a number"),
        ("root ::= x\nx ::= * y", "line 2: there is nothing that * could repeat"),
        ('root ::= x\nx ::= "a', 'line 2: this " is not closed'),
        ("root ::= x\nx ::= [a", "line 2: this [ is not closed"),
        ('root ::= x\nx ::= "a" ) y', "line 2: expected the end of the rule"),
        ("root ::= x\nx ::= 'a'", "line 2: expected a part of a rule, found"),
        ("root ::= x\nx ::= <a b>", "line 2: expected a token"),
    ],
)
def test_what_is_broken_names_the_line_of_the_person_s_own_text(grammar, sentence):
    with pytest.raises(RequestError) as error:
        check_grammar(SamplingOptions(grammar=grammar))
    assert f"the grammar is broken in {sentence}" in str(error.value)


def test_repeats_of_repeats_end_in_a_sentence_or_are_read():
    nested = "".join(("root ::= ", "(" * 5, "[^x]*", "){0,99}" * 5))
    try:
        assert Reader(nested).reads("abc")
    except (AssertionError, RequestError) as error:
        assert str(error)


def test_a_problem_of_the_library_names_no_line_of_a_text_that_nobody_saw():
    grammar = "root ::= " + " | ".join(f'"{"ab" * 60}" x{i}' for i in range(400))
    grammar += "".join(f'\nx{i} ::= "a" x{i} "b" | [0-9]{{1,999}}' for i in range(400))
    with pytest.raises(RequestError) as error:
        check_grammar(SamplingOptions(grammar=grammar * 8))
    assert "line" not in str(error.value)


def part(choose, depth):
    """A part of a rule at random, and the regular expression that says the same."""
    kind = choose.random()
    if depth == 0 or kind < 0.3:
        letters = "".join(choose.choice("abc") for _ in range(choose.randint(1, 2)))
        if kind < 0.15:
            return f'"{letters}"', letters
        mark = choose.choice(["", "^"])
        return f"[{mark}{letters}]", f"[{mark}{letters}]"
    several = [part(choose, depth - 1) for _ in range(choose.randint(2, 3))]
    if kind < 0.55:
        return " ".join(g for g, _ in several), "".join(e for _, e in several)
    if kind < 0.8:
        return f"({' | '.join(g for g, _ in several)})", f"(?:{'|'.join(e for _, e in several)})"
    grammar, expression = several[0]
    counts = choose.choice(["*", "+", "?", "{2}", "{1,2}", "{1,}", "{0,2}"])
    return f"({grammar}){counts}", f"(?:{expression}){counts}"


@pytest.mark.parametrize("seed", range(40))
def test_grammars_at_random_read_what_the_same_regular_expressions_do(seed):
    choose = random.Random(seed)
    (word, words), (rest, rests), (more, mores) = (part(choose, depth) for depth in (3, 2, 1))
    reader = Reader(
        f'root ::= pair rest\npair ::= "x" pair "x" | word\nword ::= {word}\n'
        f"rest ::= {rest} | {more} rest"
    )
    same = [
        re.compile("x" * deep + f"(?:{words})" + "x" * deep + f"(?:{mores})*(?:{rests})", re.DOTALL)
        for deep in range(3)
    ]
    texts = ["".join(t) for count in range(6) for t in itertools.product("abcx", repeat=count)]
    for text in choose.sample(texts, 150):
        assert reader.reads(text) == any(one.fullmatch(text) for one in same), text


def test_texts_of_json_are_read_and_its_strings_are_terminals():
    reader = Reader(JSON)
    for text in ('{"a": [1, -2.5e3, {"b": "c\\u00e9\\n"}], "d": null}', "{}", '{"a": ""}'):
        assert reader.reads(text), text
    for text in ('{"a": 01}', '{"a" 1}', "[1]", '{"a": "\n"}', '{"a": 1,}'):
        assert not reader.reads(text), text
    wide = r"\x{23}-\x{5b}"  # what a string is mostly made of
    strings = next(line for line in reader.form.splitlines() if wide in line)
    assert re.match(r"T\d+: /\(\?:\[\\x\{22\}\]", strings), "the whole string is one of them"


TOKENIZER = Tokenizer.from_gguf(tokenizer_metadata(300), "tiny")


def allowed(grammar):
    bits = np.unpackbits(grammar.mask().view(np.uint8), bitorder="little")
    return set(np.flatnonzero(bits).tolist())


def test_a_grammar_names_tokens_by_number_and_by_name():
    special = (t for t in range(TOKENIZER.vocab_size) if TOKENIZER.is_special(t))
    control = next(t for t in special if t not in TOKENIZER.end_ids)
    name = TOKENIZER.token_bytes(control).decode()
    a, b = (TOKENIZER.encode(text)[0] for text in "ab")
    for spelled in (f"<[{control}]>", name):
        grammar = Grammar(SamplingOptions(grammar=f'root ::= {spelled} "a"'), TOKENIZER)
        assert allowed(grammar) == {control}
        grammar.take(control)
        assert allowed(grammar) == {a}
    grammar = Grammar(SamplingOptions(grammar=f"root ::= (!<[{a}]>)* <[{a}]>"), TOKENIZER)
    assert {a, b, control} <= allowed(grammar) | {control}
    grammar.take(b)
    grammar.take(a)
    assert allowed(grammar) == set(TOKENIZER.end_ids)
    with pytest.raises(RequestError, match="names the token 99999: the model has 300"):
        Grammar(SamplingOptions(grammar="root ::= <[99999]>"), TOKENIZER).check()
    with pytest.raises(RequestError, match="names the token '<nothing>', which the model lacks"):
        Grammar(SamplingOptions(grammar="root ::= <nothing>"), TOKENIZER).check()
