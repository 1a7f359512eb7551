"""An answer that goes on as the person ends there: by the marks of its template."""

import pytest

from llm_lite.core.generation.endings import Endings
from llm_lite.core.generation.prompt import Encoded, encode_chat
from llm_lite.core.generation.role_ends import RoleEnds
from llm_lite.core.generation.stop_strings import StopStrings
from llm_lite.core.generation.turn_marks import turn_ends
from llm_lite.core.messages import ChatMessage, SamplingOptions, TokenDecoded
from llm_lite.core.records import replace
from llm_lite.core.text.chat_template import CHATML, ChatTemplate
from llm_lite.core.text.tokenizer import StreamDecoder, Tokenizer
from tests.core.engine_client import GREEDY, HELLO
from tests.make_gguf import tokenizer_metadata, write_tiny_llama
from tests.paths import FIXTURES
from tests.runners import exact

FOLDER = FIXTURES / "chat_templates"
HARMONY = ("<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|return|>", "<|call|>")


def tokenizer_with(*marks):
    """A vocabulary that has these control tokens; the last of its other tokens go."""
    metadata = tokenizer_metadata(300)
    tokens, types = (metadata[f"tokenizer.ggml.{key}"] for key in ("tokens", "token_type"))
    tokens, types = [*tokens], [*types]
    for place, mark in enumerate(marks, 1):
        tokens[-place], types[-place] = mark, 3
    metadata |= {"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types}
    metadata["tokenizer.ggml.bos_token_id"] = tokens.index("<s>") if "<s>" in tokens else 1
    kept = [m for m in metadata["tokenizer.ggml.merges"] if m.replace(" ", "") in tokens]
    return Tokenizer.from_gguf({**metadata, "tokenizer.ggml.merges": kept}, "tiny")


def template_of(name):
    source = CHATML if name == "CHATML" else (FOLDER / f"{name}.jinja").read_text("utf-8")
    return ChatTemplate(source, bos_token="<s>", eos_token="</s>")


def ends_of(name, *marks):
    tokenizer = tokenizer_with(*marks)
    found = turn_ends(tokenizer, template_of(name))
    if found is None:
        return (), (), ()
    spelled = tokenizer.token_text
    runs = tuple(tuple(map(spelled, run)) for run in found.runs)
    return tuple(sorted(map(spelled, found.tokens))), found.texts, runs


@pytest.mark.parametrize(
    ("name", "marks", "tokens"),
    [
        ("CHATML", (), ("<|im_start|>",)),
        ("smolvlm", ("<end_of_utterance>",), ()),
        ("gemma1", ("<start_of_turn>", "<end_of_turn>"), ("<start_of_turn>",)),
        ("gemma4", ("<|turn>", "<turn|>", "<|channel>", "<channel|>"), ("<|turn>",)),
        (
            "llama3",
            ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
            ("<|end_header_id|>", "<|start_header_id|>"),
        ),
        ("phi3_5", ("<|user|>", "<|assistant|>", "<|end|>"), ("<|user|>",)),
        ("mistral_v3", ("[INST]", "[/INST]", "</s>", "<s>"), ("[INST]",)),
        (
            "granite3_3",
            ("<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>"),
            ("<|end_of_role|>", "<|start_of_role|>"),
        ),
        ("deepseek_r1", ("<｜User｜>", "<｜Assistant｜>", "<think>"), ("<｜User｜>",)),
        ("command_r", ("<|START_OF_TURN_TOKEN|>",), ("<|START_OF_TURN_TOKEN|>",)),
    ],
)
def test_control_tokens_of_a_person_s_turn(name, marks, tokens):
    assert ends_of(name, *marks) == (tokens, (), ())


@pytest.mark.parametrize(
    ("name", "marks", "texts"),
    [
        ("zephyr", ("</s>",), ("\n<|user|>",)),
        ("mistral_v1", ("</s>",), ("[INST]",)),
        ("alpaca", (), ("\n### Instruction:",)),
        ("vicuna", ("</s>",), ()),  # "USER:" may be said, and </s> ends what a model says
        ("ernie4_5", ("</s>",), ()),
    ],
)
def test_text_is_a_mark_where_no_token_is(name, marks, texts):
    assert ends_of(name, *marks) == ((), texts, ())


def test_a_begin_token_is_a_mark_and_the_text_behind_it_too():
    assert ends_of("llama2", "<s>", "</s>") == (("<s>",), ("[INST]",), ())


def test_channels_of_an_answer_are_no_other_s_turn():
    tokens, texts, runs = ends_of("gpt_oss", *HARMONY)
    assert (tokens, texts) == ((), ())
    assert [run[:-1] for run in runs] == [("<|end|>", "<|start|>"), ("<|start|>",)]


@pytest.mark.parametrize("source", ["{{ messages[-1].content }}", "{{ raise_exception('no') }}"])
def test_a_template_without_turns_has_no_marks(source):
    assert turn_ends(tokenizer_with(), ChatTemplate(source)) is None


def shown(tokenizer, template, ids):
    """What an answer of these tokens shows, why it ends, and how many are hidden."""
    encoded = encode_chat(tokenizer, template, [ChatMessage("user", "Hi")])
    encoded.roles = turn_ends(tokenizer, template)
    endings = Endings(SamplingOptions(repetition_guard=False), encoded)
    decoder, found = StreamDecoder(tokenizer), []
    for token in ids:
        found += endings.feed(token, token, decoder.feed(token))
        if endings.reason is not None:
            break
    found += endings.flush()
    return "".join(text for _, text in found), endings.reason, endings.dropped


@pytest.mark.parametrize("said", ["Fine.", "", "Fine.\n"])
def test_an_answer_ends_at_another_s_mark_and_quotes_its_letters(said):
    tokenizer, template = tokenizer_with(), ChatTemplate(CHATML)
    ids = tokenizer.encode(f"{said}<|im_start|>user\nAnd you?")
    assert shown(tokenizer, template, ids) == (said, "role", 1)
    quoting = f"{said} <|im_start|>user is ChatML's."
    letters = tokenizer.encode(quoting, parse_special=False)
    assert shown(tokenizer, template, letters)[:2] == (quoting, None)


def test_an_answer_in_channels_goes_on_and_ends_as_a_person():
    tokenizer, template = tokenizer_with(*HARMONY), template_of("gpt_oss")
    thought = "<|channel|>analysis<|message|>Hm.<|end|>"
    final = "<|start|>assistant<|channel|>final<|message|>Yes."
    ids = tokenizer.encode(f"{thought}{final}")
    assert shown(tokenizer, template, ids) == (f"{thought}{final}", None, 0)
    more = tokenizer.encode(f"{thought}{final}<|end|><|start|>user<|message|>So?")
    text, reason, dropped = shown(tokenizer, template, more)
    assert (text, reason, dropped) == (f"{thought}{final}", "role", 3)
    cut = tokenizer.encode(f"{thought}{final}<|end|><|start|>")
    assert shown(tokenizer, template, cut)[0] == f"{thought}{final}<|end|><|start|>"


CODE = "```\na\n<|user|>\nhi\n```"
ENDS = RoleEnds(("\n<|user|>", "[INST]"), frozenset(), begins_line=False, may_be_quoted=True)


@pytest.mark.parametrize(
    ("whole", "said"),
    [
        ("Yes.\n<|user|>\nAnd you?", "Yes."),
        ("Yes. [INST] And?", "Yes. "),
        ('She said "hi"\n<|user|>\nAnd?', 'She said "hi"'),
        ("It writes `[INST]` there. [INST] And?", "It writes `[INST]` there. "),
        ('Between "[INST]" and so on', 'Between "[INST]" and so on'),
        (f"As code:\n{CODE}\nSo.\n<|user|>\n", f"As code:\n{CODE}\nSo."),
        ("```\n[INST]\n```", "```\n[INST]\n```"),
        ("The tag <|user|> begins", "The tag <|user|> begins"),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_text_marks_are_quoted_in_code_and_behind_quotes(whole, said, size):
    stops, found = StopStrings((), None, ENDS), []
    for at in range(0, len(whole), size):
        found += stops.feed(at, whole[at : at + size])
        if stops.found:
            break
    found += stops.flush()
    assert "".join(text for _, text in found) == said
    assert stops.reason == (None if said == whole else "role")


def test_a_stop_string_in_what_was_held_back_ends_the_answer_there():
    """Tokens 1 and 2 might have become another's turn; the text of 1 is a stop string."""
    encoded = Encoded([], [])
    encoded.roles = RoleEnds((), frozenset(), False, runs=((1, 2, 3),))
    endings = Endings(SamplingOptions(repetition_guard=False, stop=("<end>",)), encoded)
    found = []
    for token, text in enumerate(("hi", "<end>", "<start>", "x", "SECRET")):
        found += endings.feed(token, token if token != 3 else 9, text)
        if endings.reason is not None:
            break
    found += endings.flush()
    assert (found, endings.reason, endings.dropped) == ([(0, "hi")], "stop string", 3)


def test_an_engine_s_answer_ends_at_the_mark(client, tmp_path):
    path = write_tiny_llama(tmp_path / "tiny.gguf", {"tokenizer.chat_template": CHATML})
    client.load(path, exact("cpu"))
    start = tokenizer_with().encode("<|im_start|>")[0]
    sampling = replace(GREEDY, logit_bias=((start, 100.0),))
    finished, _ = client.ask(HELLO, sampling)
    assert finished.stop_reason == "role"
    assert "".join(event.text for event in client.of(TokenDecoded)) == ""


def test_the_marks_of_a_template_are_looked_for_once():
    tokenizer, template = tokenizer_with(), ChatTemplate(CHATML)
    first = turn_ends(tokenizer, template)
    assert turn_ends(tokenizer, template) is first
