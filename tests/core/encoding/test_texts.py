"""WordPiece of three kinds of files beside the library; pairs, cuts, and what masks could be."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from llm_lite.core.encoding.masked import fill, filled
from llm_lite.core.encoding.pooling import Pooler
from llm_lite.core.encoding.session import packs
from llm_lite.core.encoding.texts import encode_pair, encode_text, encode_texts
from llm_lite.core.errors import LlmLiteError, RequestError
from llm_lite.core.models.model import POOLINGS, TextEmbedding
from llm_lite.core.text.tokenizer import Tokenizer
from tests.encoder_checks import SPECIAL, spelled_in_gguf, started, words, write_case
from tests.encoder_families import VOCABULARY, family_of
from tests.make_huggingface import tokenizer_json

BERT, ROBERTA = family_of("bert"), family_of("roberta")
PAIR = "[CLS] $A [SEP] $B:1 [SEP]:1"
TEXTS = st.text(
    st.sampled_from("thecaing onsTHEÉé.,!? \t\u00a0\u200b日本語ab##[MASK]19"), max_size=30
)


def library(folder, *, lowercase=True):
    names = words()
    made = Library(models.WordPiece({n: i for i, n in enumerate(names)}, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    special = [("[CLS]", 2), ("[SEP]", 3)]
    made.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", PAIR, special)
    made.add_special_tokens(list(SPECIAL))
    folder.mkdir(exist_ok=True)
    made.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"unk_token": "[UNK]"}))
    return made


def gguf_keys():
    return {
        "general.architecture": "bert",
        "tokenizer.ggml.model": "bert",
        "tokenizer.ggml.tokens": list(map(spelled_in_gguf, words())),
        "tokenizer.ggml.bos_token_id": 2,
        "tokenizer.ggml.seperator_token_id": 3,
        "tokenizer.ggml.unknown_token_id": 1,
        "tokenizer.ggml.mask_token_id": 4,
    }


@pytest.fixture(scope="module")
def kinds(tmp_path_factory):
    """The same vocabulary from tokenizer.json, vocab.txt and GGUF, and the library's own."""
    place = tmp_path_factory.mktemp("words")
    known = library(place / "json")
    (place / "txt").mkdir()
    (place / "txt" / "vocab.txt").write_text("\n".join(words()) + "\n")
    folders = (Tokenizer.from_huggingface(place / name, VOCABULARY) for name in ("json", "txt"))
    return known, [*folders, Tokenizer.from_gguf(gguf_keys(), place / "m.gguf")]


@settings(max_examples=60, deadline=None)
@given(text=TEXTS, other=TEXTS)
def test_ids_are_those_of_the_library(kinds, text, other):
    known, found = kinds
    expected = known.encode(text).ids
    known.encode_special_tokens = True
    plain = known.encode(text).ids
    pair = known.encode(text, other).ids
    known.encode_special_tokens = False
    for tokenizer in found:
        assert tokenizer.encode(text, add_special=True) == expected
        assert encode_text(tokenizer, text, 99) == plain
        assert encode_texts(tokenizer, [other, text], 99)[1] == plain
        assert encode_pair(tokenizer, text, other, 200) == pair


def test_what_is_too_long_is_cut_before_its_last_special_token(kinds):
    _, found = kinds
    for tokenizer in found:
        whole = encode_text(tokenizer, "the cat sat on the cat", 99)
        assert encode_text(tokenizer, "the cat sat on the cat", 5) == [*whole[:4], 3]
        pair = encode_pair(tokenizer, "the cat sat on", "the", 7)
        assert pair == [2, *whole[1:4], 3, whole[1], 3]
        assert tokenizer.mask_id == 4 and tokenizer.around_pair == ((2,), (3,), (3,))


def test_a_cased_vocabulary_is_known_by_its_capitals(tmp_path):
    names = words()
    names[-1] = "Paris"
    (tmp_path / "vocab.txt").write_text("\n".join(names))
    tokenizer = Tokenizer.from_huggingface(tmp_path, VOCABULARY)
    assert tokenizer.encode("Paris") == [VOCABULARY - 1]
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    assert len(Tokenizer.from_huggingface(tmp_path, VOCABULARY).encode("Paris")) == 5


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("strip", [True, False, None])
def test_gguf_files_say_how_texts_are_made_plain(lower, strip, tmp_path):
    """By newer keys; what of accents is not said goes by the case, as BERT has it."""
    known = library(tmp_path)
    known.normalizer = normalizers.BertNormalizer(lowercase=lower, strip_accents=strip)
    keys = {**gguf_keys(), "tokenizer.ggml.normalizer.lowercase": lower}
    if strip is not None:
        keys["tokenizer.ggml.normalizer.strip_accents"] = strip
    tokenizer = Tokenizer.from_gguf(keys, tmp_path / "m.gguf")
    for text in ("The CAT sat", "é É a", "the cat"):
        assert tokenizer.encode(text, add_special=True) == known.encode(text).ids


BAD_WORDS = [
    ("\n".join(words()[:3]), "vocab.txt: has no token '[SEP]', the sep_token"),
    ("", "has no tokens"),
]


@pytest.mark.parametrize(("text", "message"), BAD_WORDS)
def test_bad_vocabularies(text, message, tmp_path):
    (tmp_path / "vocab.txt").write_text(text)
    with pytest.raises(LlmLiteError, match=message.replace("[", r"\[")):
        Tokenizer.from_huggingface(tmp_path, VOCABULARY)


def test_masks_are_filled_with_what_the_logits_say(tmp_path):
    runner = started(write_case(BERT, "masked", tmp_path), "numpy")
    try:
        tokenizer, session = runner.model_file.tokenizer, runner.session
        text = "the [MASK] sat on [MASK]."
        tokens, masks = fill(session, tokenizer, text, 3)
        assert [tokens[mask.position] for mask in masks] == [tokenizer.mask_id] * 2
        logits = session.logits(tokens).astype(np.float64)
        for mask in masks:
            row = np.exp(logits[mask.position] - logits[mask.position].max())
            row /= row.sum()
            assert [one.token for one in mask.candidates] == np.argsort(-row)[:3].tolist()
            best = [one.probability for one in mask.candidates]
            assert best == pytest.approx(np.sort(row)[::-1][:3].tolist(), rel=1e-4)
        assert filled(tokenizer, text, ["cat", "##ing"]) == "the cat sat oning."
        with pytest.raises(RequestError, match=r"the text has no \[MASK\]"):
            fill(session, tokenizer, "the cat", 3)
        with pytest.raises(RequestError, match="expected a text of 1 to 40 tokens, found 64"):
            fill(session, tokenizer, "[MASK] " + "cat " * 61, 3)
    finally:
        runner.close()
        runner.model_file.close()


def test_robertas_mask_takes_the_space_before_it(tmp_path):
    """As its tokenizer.json says; pairs have two separators between."""
    folder = write_case(ROBERTA, "masked", tmp_path)
    (folder / "vocab.txt").unlink()
    made = tokenizer_json(VOCABULARY)
    ids = {one["content"]: one["id"] for one in made["added_tokens"]}
    first, last = list(ids.items())[:2]
    made["added_tokens"][2] |= {"content": "<mask>", "lstrip": True}
    made["model"]["vocab"]["<mask>"] = made["model"]["vocab"].pop(list(ids)[2])
    made["post_processor"] = {
        "type": "RobertaProcessing",
        "sep": list(last),
        "cls": list(first),
        "trim_offsets": True,
        "add_prefix_space": False,
    }
    (folder / "tokenizer.json").write_text(json.dumps(made))
    (folder / "tokenizer_config.json").write_text('{"mask_token": "<mask>"}')
    tokenizer = Tokenizer.from_huggingface(folder, VOCABULARY)
    known = Library.from_file(str(folder / "tokenizer.json"))
    for text in ("a <mask> b", "a<mask>", "<mask>"):
        assert tokenizer.encode(text, add_special=True) == known.encode(text).ids
    pair = known.encode("a", "b").ids
    assert encode_pair(tokenizer, "a", "b", 99) == pair
    assert pair[2:4] == [last[1]] * 2


def test_poolings():
    states = np.random.RandomState(0).standard_normal((5, 4)).astype(np.float32)
    weights = np.arange(1, 6)[:, None] / 15
    expected = {
        "cls": states[0],
        "max": states.max(axis=0),
        "mean": states.mean(axis=0),
        "mean_sqrt_len": states.sum(axis=0) / 5**0.5,
        "weighted_mean": (states * weights).sum(axis=0),
        "last": states[4],
    }
    assert tuple(expected) == POOLINGS
    for name, vector in expected.items():
        found = Pooler(TextEmbedding((name,), False, 9), {})(states)
        assert np.allclose(found, vector, atol=1e-6)
        unit = Pooler(TextEmbedding((name,), True, 9), {})(states)
        assert np.allclose(unit, vector / np.linalg.norm(vector), atol=1e-6)


def test_texts_are_packed_into_steps():
    texts = [[0] * n for n in (5, 5, 130, 3, 400, 1, 1, 1)]
    found = [[len(text) for text in pack] for pack in packs(texts, 400, 3, 4)]
    assert found == [[5, 5, 130], [3], [400], [1, 1, 1]]
