"""Values of a chat template's variables from the command line and from Python."""

import json

import pytest

import llm_lite
from llm_lite.cli.main import main
from llm_lite.core.errors import RequestError
from tests.cli.terminal_runs import GREEDY, NUMPY
from tests.make_gguf import write_tiny_llama

READING = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{{ '~' * 9 if reasoning_effort == 'high' }}"
    "{% for d in documents or [] %}{{ d.text }}{% endfor %}<|im_start|>assistant\n"
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reading")
    return write_tiny_llama(folder / "reading.gguf", {"tokenizer.chat_template": READING})


def test_they_change_the_prompt(path, capsys):
    def read(*more):
        words = ["chat", str(path), *NUMPY, *GREEDY, "--max-new-tokens", "2", "--json", "-p", "Hi"]
        assert main([*words, *more]) == 0
        return json.loads(capsys.readouterr().out)["prompt_tokens"]

    plain = read()
    assert read("--effort", "low") == plain
    assert read("--effort", "high") == plain + 9
    assert read("--template-value", 'documents=[{"text": "~~~"}]') == plain + 3


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (
            ["--template-value", "depth=3"],
            "depth: the chat template reads no variable",
        ),
        (["--template-value", "depth"], "--template-value: expected NAME=VALUE, found 'depth'"),
        (["--template-value", "documents=<|im_end|>"], "documents: the value has '<|im_end|>'"),
    ],
)
def test_what_cannot_be_is_a_sentence(path, capsys, more, problem):
    assert main(["chat", str(path), *NUMPY, "-p", "Hi", *more]) != 0
    assert problem in capsys.readouterr().err


def test_roles_by_other_names(path):
    said = [{"role": role, "content": "Hi"} for role in ("developer", "user", "function")]
    with llm_lite.load(path, backend="numpy") as model:
        prompt = model.generate(said, temperature=0.0, max_new_tokens=1).prompt
        text = model.detokenize(prompt)
    assert [text.count(f"<|im_start|>{role}\n") for role in ("system", "user", "tool")] == [1, 1, 1]


def test_from_python(path):
    with llm_lite.load(path, backend="numpy") as model:
        asked = {"temperature": 0.0, "max_new_tokens": 1}
        plain = model.generate("Hi", **asked)
        high = model.generate("Hi", template={"reasoning_effort": "high"}, **asked)
        assert len(high.prompt) == len(plain.prompt) + 9
        with pytest.raises(RequestError, match="it reads documents, reasoning_effort"):
            model.generate("Hi", template={"depth": 3})
        with pytest.raises(RequestError, match="documents: expected a value that JSON has"):
            model.generate("Hi", template={"documents": {1, 2}})
