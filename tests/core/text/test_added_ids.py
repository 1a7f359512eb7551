"""What tokenizers add to texts, tokens around them and a space before them: ids of whole texts,
control tokens in them, beside those of transformers and of the `tokenizers` library."""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Library

from llm_lite.core.encoding.texts import encode_text
from llm_lite.core.generation.prompt import encode_chat, encode_completion, encode_raw
from llm_lite.core.messages import ChatMessage
from llm_lite.core.text.chat_template import ChatTemplate
from llm_lite.core.text.stages import tokenized
from llm_lite.core.text.tokenizer import Tokenizer
from tests.paths import FIXTURES

MADE = FIXTURES / "added_ids"
NAMES = sorted(folder.name for folder in MADE.iterdir())
AROUND = {  # of a text, as the families have it
    "gpt2": ([], []),
    "qwen3-embedding": ([], ["<|endoftext|>"]),
    "llama3": (["<|begin_of_text|>"], []),
    "glm4": (["[gMASK]", "<sop>"], []),
    "other-names": (["<|begin|>"], ["<|sep|>", "</s>"]),
    "roberta": (["<s>"], ["</s>"]),
    "roberta-spaced": (["<s>"], ["</s>"]),
    "bert": (["[CLS]"], ["[SEP]"]),
    "llama2": (["<s>"], []),
    "llama2-first": (["<s>"], []),
    "phi3": (["<s>"], []),
    "e5-mistral": (["<s>"], ["</s>"]),
    "never": (["<|startoftext|>"], []),
    "gemma": (["<bos>"], []),
    "t5": ([], ["</s>"]),
    "xlm-roberta": (["<s>"], ["</s>"]),
    "openai-gpt": ([], []),
}
LEADING = {"llama2": 1, "llama2-first": 0, "phi3": 0, "e5-mistral": 1, "never": None}


def known(name):
    return json.loads((MADE / name / "ids.json").read_text("utf-8"))


@cache
def both(name):
    library = Library.from_file(str(MADE / name / "tokenizer.json"))
    return Tokenizer.from_huggingface(MADE / name, library.get_vocab_size() + 3), library


def plain(library, text):
    """The library's ids of a text that was typed."""
    library.encode_special_tokens = True
    try:
        return library.encode(text).ids
    finally:
        library.encode_special_tokens = False


def test_every_kind_is_here():
    assert AROUND.keys() == {*NAMES}
    assert all(len(known(name)) == 40 for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_ids_are_those_of_transformers(name):
    ours, _ = both(name)
    for one in known(name):
        assert ours.encode(one["text"], add_special=True) == one["ids"], one["text"]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_typed_is_no_control_token(name):
    ours, library = both(name)
    texts = [one["text"] for one in known(name)]
    for text, ids in zip(texts, ours.encode_texts(texts), strict=True):
        before, after = ours.around
        inside = ids[len(before) : len(ids) - len(after)]
        assert not any(ours.is_special(i) and not ours.is_unknown(i) for i in inside), text
        expected = plain(library, text)
        own = expected[len(before) : len(expected) - len(after)]
        if all(ours.is_unknown(i) or not ours.is_special(i) for i in own):
            assert ids == expected, text


@pytest.mark.parametrize("name", NAMES)
def test_what_stands_around_a_text(name):
    ours, _ = both(name)
    assert tuple([ours.token_text(i) for i in ids] for ids in ours.around) == AROUND[name]


@settings(deadline=None, max_examples=200)
@given(st.sampled_from(NAMES), st.data())
def test_ids_of_any_pieces_are_the_library_s(name, data):
    ours, library = both(name)
    marks = sorted(ours.control_tokens)
    pieces = ["a", " ", "the cat", " cat", "\n", "  ", "12", "안녕", "🎉", *marks]
    text = "".join(data.draw(st.lists(st.sampled_from(pieces), max_size=8)))
    assert ours.encode(text, add_special=True) == library.encode(text).ids


@pytest.mark.parametrize("name", LEADING)
def test_a_space_stands_before_a_text_and_not_within_it(name):
    """Behind a control token only where the library puts it there too."""
    ours, _ = both(name)
    first = ours.encode("a")
    space = "" if LEADING[name] is None else " "
    assert ours.decode(first, skip_special=True) == f"{space}a"
    assert ours.decode(ours.encode("a", behind=first)) == "a"
    mark = ours.encode(sorted(ours.control_tokens)[0])
    assert ours.decode(ours.encode("a", behind=mark)) == (" a" if LEADING[name] else "a")
    whole = ours.encode("the cat sat")
    begun = ours.encode("the cat")
    assert ours.decode([*begun, *ours.encode(" sat", behind=begun)]) == ours.decode(whole)


@pytest.mark.parametrize("name", NAMES)
def test_stages_are_those_of_the_same_ids(name):
    ours, _ = both(name)
    for one in known(name):
        told = tokenized(ours, name, [(one["text"], True)])
        inside = [piece.id for word in told.words for piece in word.pieces]
        before, after = ([piece.id for piece in pieces] for pieces in (told.before, told.after))
        assert [*before, *inside, *after] == one["ids"]


def test_gpt_1_reads_its_words_back():
    ours, library = both("openai-gpt")
    for one in known("openai-gpt"):
        assert ours.decode(one["ids"]) == library.decode(one["ids"], skip_special_tokens=False)


def test_gpt_1_s_two_files_are_its_tokenizer(tmp_path):
    """vocab.json and merges.txt, as it was published."""
    library = both("openai-gpt")[1]
    library.model.save(str(tmp_path))
    rows = library.get_vocab_size()
    ours = Tokenizer.from_huggingface(tmp_path, rows)
    for one in known("openai-gpt"):
        text = one["text"]
        assert ours.encode(text, parse_special=False) == plain(library, text)
        if "<x>" not in text:
            assert ours.encode(text) == one["ids"]
            assert ours.decode(one["ids"]) == library.decode(one["ids"], skip_special_tokens=False)


def test_an_end_token_that_only_the_config_asks_for(tmp_path):
    """e5-mistral: its post-processor puts <s> alone, and it was trained with </s>, which
    transformers 4.57 puts there by `add_eos_token`."""
    shutil.copytree(MADE / "llama2-first", tmp_path / "m")
    rows = both("llama2-first")[0].vocab_size
    plain = Tokenizer.from_huggingface(tmp_path / "m", rows).encode("the cat", add_special=True)
    config = json.loads((tmp_path / "m" / "tokenizer_config.json").read_text())
    for changes, ends in (
        ({"add_eos_token": True, "tokenizer_class": "LlamaTokenizer"}, [2]),
        ({"add_eos_token": True, "tokenizer_class": "LlamaTokenizerFast"}, [2]),
        ({"add_eos_token": False, "tokenizer_class": "LlamaTokenizer"}, []),
        ({"add_eos_token": True, "tokenizer_class": "Qwen2Tokenizer"}, []),
    ):
        file = tmp_path / "m" / "tokenizer_config.json"
        file.write_text(json.dumps({**config, **changes}))
        found = Tokenizer.from_huggingface(tmp_path / "m", rows)
        assert found.encode("the cat", add_special=True) == [*plain, *ends]


@pytest.mark.parametrize("name", ["qwen3-embedding", "other-names", "e5-mistral", "bert"])
def test_a_text_that_is_cut_keeps_what_stands_around_it(name):
    """The last token is what is pooled: without the end token it would be a word's."""
    ours, library = both(name)
    library = Library.from_str(library.to_str())
    text = "the cat sat on the mat, and it's 12 degrees"
    for most in (5, 8, 200):
        library.enable_truncation(most)
        assert encode_text(ours, text, most) == library.encode(text).ids


GLM = "[gMASK]<sop>{% for m in messages %}<|user|>{{ m.content }}{% endfor %}"


@pytest.mark.parametrize("begins", [True, False])
def test_what_begins_every_text_stands_once_in_a_chat(begins):
    """Whether the template writes it, both tokens of it, or leaves it to the tokenizer."""
    ours, library = both("glm4")
    source = GLM if begins else GLM.removeprefix("[gMASK]<sop>")
    template = ChatTemplate.of(source, ours)
    found = encode_chat(ours, template, [ChatMessage("user", "the cat")])
    assert found.ids == library.encode("<|user|>the cat").ids
    assert [ours.token_text(i) for i in found.ids[:3]] == ["[gMASK]", "<sop>", "<|user|>"]


@pytest.mark.parametrize(
    "name", ["llama2-first", "phi3", "e5-mistral", "llama2", "qwen3-embedding"]
)
def test_a_prompt_goes_on_behind_an_answer(name):
    """Texts behind an answer's tokens begin with no space of their own, and no end token stands in
    the middle of what is to be continued."""
    ours, library = both(name)
    begin = list(ours.around[0])
    answer = tuple(ours.encode(" sat on", behind=ours.encode("the cat")))
    messages = [
        ChatMessage("text", "the cat"),
        ChatMessage("assistant", " sat on", answer),
        ChatMessage("text", " the mat"),
    ]
    whole = ours.decode([*begin, *ours.encode("the cat sat on the mat")])
    for made in (encode_completion(ours, messages), encode_raw(ours, messages)):
        assert ours.decode(made.ids) == whole
    assert library.encode("the cat", add_special_tokens=False).ids == ours.encode("the cat")


@pytest.mark.parametrize("name", ["llama2-first", "phi3"])
def test_a_chat_with_answers_has_the_ids_of_its_whole_text(name):
    ours, library = both(name)
    mark = "<|user|>" if name == "phi3" else "</s>"
    source = "{% for m in messages %}" + mark + "{{ m.content }}{% endfor %}" + mark
    messages = [ChatMessage("user", "the cat"), ChatMessage("user", "sat on the mat")]
    found = encode_chat(ours, ChatTemplate.of(source, ours), messages).ids
    whole = f"{mark}the cat{mark}sat on the mat{mark}"
    assert found == library.encode(whole).ids


@cache
def alone(name):
    """Both with control tokens that are none within a word: one of letters, one of signs."""
    source = json.loads((MADE / name / "tokenizer.json").read_text("utf-8"))
    folder = Path(mkdtemp())
    ids = [*source["model"]["vocab"].values()] if name in ("gpt2", "llama2") else []
    first = max([*ids, *(row["id"] for row in source["added_tokens"])]) + 1
    for number, (token, strips) in enumerate(ALONE.items(), first):
        flags = {"special": True, "normalized": False, "single_word": True}
        sides = {"lstrip": strips, "rstrip": strips}
        source["added_tokens"].append({"id": number, "content": token, **flags, **sides})
    (folder / "tokenizer.json").write_text(json.dumps(source))
    library = Library.from_file(str(folder / "tokenizer.json"))
    return Tokenizer.from_huggingface(folder, library.get_vocab_size() + 3), library


ALONE = {"MASK": False, "<alone>": False, "[X]": True}
BESIDE = ["a", " ", "_", "1", "é", "\u0301", "안", "²", "½", "Ⅳ", "ⓐ", "\u200d", "🎉", "-", "."]


@settings(deadline=None, max_examples=300)
@given(st.sampled_from(["gpt2", "llama2"]), st.data())
def test_tokens_that_are_none_within_a_word(name, data):
    ours, library = alone(name)
    pieces = st.sampled_from([*ALONE, *ALONE, *BESIDE])
    text = "".join(data.draw(st.lists(pieces, max_size=9)))
    assert ours.encode(text) == library.encode(text, add_special_tokens=False).ids, repr(text)
