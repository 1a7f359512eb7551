"""The words that say how an answer is chosen, and where it ends."""

import json

import pytest

from llm_lite.api.given import engine_options
from llm_lite.api.given import sampling_options as given_options
from llm_lite.cli.conversation.commands import COMMANDS, run_command
from llm_lite.cli.conversation.conversation import TerminalConversation
from llm_lite.cli.engine_words import sampling_options
from llm_lite.cli.main import _parser, main
from llm_lite.core.errors import RequestError
from llm_lite.core.messages import EngineOptions, SamplingOptions
from llm_lite.core.messages.sampling_options import NUMBERS
from tests.cli.terminal_runs import GREEDY, NUMPY, sentence
from tests.server.scripted_model import model_info

MODEL = model_info("Scripted", 512, "")


@pytest.fixture
def talk():
    return TerminalConversation(None, MODEL, None, EngineOptions(), {})


def parsed(*words):
    return sampling_options(_parser().parse_args(["chat", *words]))


def test_nothing_said_is_the_defaults():
    assert parsed() == SamplingOptions()


def test_every_number_has_a_word_and_a_command():
    for name in NUMBERS:
        word = name.replace("_", "-")
        assert getattr(parsed(f"--{word}", "1"), name) == 1
        assert word in COMMANDS


def test_words_that_may_come_again():
    options = parsed(
        *("--stop", "a", "--stop", "\n\n", "--logit-bias", "5=-100", "--logit-bias", "7=1.5"),
        *("--dry-breaker", ";"),
    )
    assert options.stop == ("a", "\n\n")
    assert options.logit_bias == ((5, -100.0), (7, 1.5))
    assert options.dry_breakers == (";",)


MINUS_ONE = {  # what it stands for where other programs have it
    "seed": None,
    "top_k": 0,
    "penalty_window": 1 << 30,
    "dry_window": 1 << 30,
    "max_new_tokens": 1 << 30,
    "max_thinking_tokens": 0,
}


@pytest.mark.parametrize("name", NUMBERS)
def test_minus_one_is_all_or_none_chosen(name, talk, capsys):
    word = name.replace("_", "-")
    if name in MINUS_ONE:
        assert getattr(parsed(f"--{word}", "-1"), name) == MINUS_ONE[name]
        assert getattr(given_options({name: -1}), name) == MINUS_ONE[name]
        run_command(talk, f"/{word} -1")
        assert getattr(talk.sampling, name) == MINUS_ONE[name]
    elif NUMBERS[name].kind == "whole":
        with pytest.raises(SystemExit):
            parsed(f"--{word}", "-1")


def test_minus_one_is_automatic_for_threads_and_context():
    arguments = _parser().parse_args(["chat", "--threads", "-1", "--ctx", "-1"])
    assert (arguments.threads, arguments.ctx) == (0, 0)
    assert engine_options({"threads": -1, "context": -1}) == EngineOptions()


def test_a_schema_is_a_text_or_a_file(tmp_path):
    path = tmp_path / "schema.json"
    path.write_text('{"type": "integer"}')
    assert parsed("--json-schema", str(path)) == parsed("--json-schema", '{"type": "integer"}')
    (tmp_path / "yes.gbnf").write_text('root ::= "yes"')
    assert parsed("--grammar", str(tmp_path / "yes.gbnf")).grammar == 'root ::= "yes"'


def test_keywords_that_are_left_to_the_model_are_named(capsys):
    parsed("--json-schema", '{"type": "array", "uniqueItems": true, "not": {"const": 1}}')
    told = "json-schema: these keywords are left to the model: uniqueItems, not"
    assert told in capsys.readouterr().err
    parsed("--json-schema", '{"type": "integer"}')
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--stop", ""], "stop strings: expected 1 to 1000 characters"),
        (["--typical-p", "2"], "typical-p: expected 0.0 to 1.0, found 2.0"),
        (["--json-schema", "{\n1}"], "the JSON schema is broken in line 2"),
        (["--json-schema", "/no/such.json"], "/no/such.json: no such file"),
        (["--grammar", "/no/such.gbnf"], "/no/such.gbnf: no such file"),
        (["--logit-bias", "300000=1"], "logit bias: token 300000 is not in 0..299"),
    ],
)
def test_what_cannot_be_is_a_sentence(tiny_llama, capsys, words, expected):
    assert main(["chat", str(tiny_llama), *NUMPY, "-p", "Hello", *words]) == 1
    assert expected in sentence(capsys)


@pytest.mark.parametrize("word", ["5", "a=1", "-1=2", "5=b", "=1", "٥=1"])
def test_a_bias_is_a_pair(word, capsys):
    with pytest.raises(SystemExit):
        parsed(f"--logit-bias={word}")
    assert "expected a token id, = and a number" in capsys.readouterr().err


def test_an_answer_ends_before_its_stop_string(tiny_llama, capsys):
    words = [
        "chat",
        str(tiny_llama),
        *NUMPY,
        *GREEDY,
        "--max-new-tokens",
        "8",
        "-p",
        "Hi",
        "--json",
    ]
    assert main(words) == 0
    whole = json.loads(capsys.readouterr().out)["text"]
    assert main([*words, "--stop", whole[2:4]]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["stop_reason"] == "stop string"
    assert answer["text"] == whole[: whole.find(whole[2:4])]


def test_commands_set_and_tell_them(talk, capsys, tmp_path):
    run_command(talk, "/stop User:")
    run_command(talk, "/stop \\n\\n")
    assert talk.sampling.stop == ("User:", "\n\n")
    run_command(talk, "/logit-bias 5=-100 7=2")
    assert talk.sampling.logit_bias == ((5, -100.0), (7, 2.0))
    run_command(talk, '/json-schema {"type": "integer"}')
    (tmp_path / "a.gbnf").write_text('root ::= "a"')
    run_command(talk, f"/grammar {tmp_path / 'a.gbnf'}")
    assert (talk.sampling.json_schema, talk.sampling.grammar) == ("", 'root ::= "a"')
    for name in ("stop", "logit-bias", "json-schema", "grammar"):
        run_command(talk, f"/{name} off")
        assert capsys.readouterr().err.splitlines()[-1].endswith(f"{name}: off")
    assert talk.sampling == SamplingOptions()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("/logit-bias 5", "/logit-bias: expected a token id, = and a number, found '5'"),
        ("/json-schema {", "the JSON schema is broken in line 1"),
        ("/dry-base 0", "DRY base: expected 1.0 to 100.0, found 0.0"),
        ("/grammar /no/such", "no such file"),
    ],
)
def test_commands_refuse_with_a_sentence(talk, line, expected):
    with pytest.raises(Exception, match=r"expected|broken|no such") as error:
        run_command(talk, line)
    assert expected in str(error.value)
    assert talk.sampling == SamplingOptions()


def test_a_refusal_is_the_program_s_own(talk):
    with pytest.raises(RequestError):
        run_command(talk, "/typical-p 7")
