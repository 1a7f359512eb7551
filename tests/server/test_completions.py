"""Texts that go on, vectors of texts, and tokens: by OpenAI's own client, and plainly."""

import base64
import contextlib
import math
import threading

import httpx2 as httpx
import numpy as np
import openai
import pytest

from tests.children import PATIENCE
from tests.server.sockets import wait_until


def ask(served, **more):
    given = {"model": "scripted", "prompt": "once upon", "max_tokens": 50, **more}
    return served.client().completions.create(**given)


def test_a_text_goes_on(served):
    made = ask(served)
    assert made.choices[0].text == "You said: once upon"
    assert made.choices[0].finish_reason == "stop" and made.object == "text_completion"
    assert served.service.requests[-1].text == "once upon"
    assert not served.service.requests[-1].messages


def test_it_streams(served):
    chunks = list(ask(served, stream=True, stream_options={"include_usage": True}))
    assert "".join(c.choices[0].text for c in chunks if c.choices) == "You said: once upon"
    assert chunks[-1].usage.completion_tokens == 6
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"


def test_sixteen_tokens_are_the_default_as_with_openai(served):
    ask(served, max_tokens=None)
    assert served.service.requests[-1].sampling.max_new_tokens == 16


def test_several_prompts_and_answers_are_numbered(served):
    made = ask(served, prompt=["a", "b"], n=2)
    assert [c.index for c in made.choices] == [0, 1, 2, 3]
    assert [c.text[-1] for c in made.choices] == ["a", "a", "b", "b"]
    assert made.usage.prompt_tokens == 4  # each with its begin token, and once


@pytest.mark.parametrize("stream", [True, False])
def test_as_many_prompts_as_openai_takes(serve, stream):
    served = serve(parallel=3, most_waiting=2)
    prompts, most = [f"p{number}" for number in range(200)], 0

    def script(request):
        nonlocal most
        most = max(most, len(served.service.status().requests))
        return f"to {request.text}"

    served.service.script = script
    made = ask(served, prompt=prompts, stream=stream)
    texts = dict.fromkeys(range(200), "")
    for chunk in made if stream else [made]:
        for choice in chunk.choices:
            texts[choice.index] += choice.text
    assert list(texts.values()) == [f"to {prompt}" for prompt in prompts]
    assert most <= 6  # of those that wait, others are not held up
    with pytest.raises(openai.BadRequestError, match="1 to 2,048 items, found a list of 2049"):
        ask(served, prompt=["a"] * 2049)


def test_a_broken_one_of_many_prompts_ends_them_with_its_sentence(serve):
    served = serve(parallel=2)
    for stream in (False, True):
        with pytest.raises(openai.APIError, match="token 999999"):
            list(ask(served, prompt=[[5]] * 50 + [[999999]], stream=stream))
    wait_until(lambda: not served.service.status().requests)


def test_many_prompts_wait_where_others_do(serve):
    served, made = serve(parallel=1, most_waiting=1, delay=0.001), []
    served.service.hold.clear()
    many = threading.Thread(
        target=lambda: made.append(ask(served, prompt=["a"] * 20, max_tokens=2))
    )
    many.start()
    wait_until(lambda: served.service.status().requests)  # the first of them has its place
    stop = serve_beside(served)
    served.service.hold.set()
    many.join(PATIENCE)
    stop()
    assert len(made[0].choices) == 20


def serve_beside(served):
    """Another client that keeps the queue full, until what this returns is called."""
    ends, client = threading.Event(), served.client()

    def run():
        while not ends.is_set():
            with contextlib.suppress(openai.RateLimitError):
                client.completions.create(model="scripted", prompt="b", max_tokens=2, user="b")

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()

    def stop():
        ends.set()
        for thread in threads:
            thread.join(PATIENCE)

    return stop


def test_tokens_are_a_prompt_too(served):
    tokens = served.service.tokenize("once upon")
    made = ask(served, prompt=tokens, echo=True)
    assert made.choices[0].text == "once uponYou said: "
    assert served.service.requests[-1].tokens == tuple(tokens)
    ask(served, prompt=[tokens, tokens[:1]])
    assert [len(r.tokens) for r in served.service.requests[-2:]] == [len(tokens), 1]


def test_the_prompt_is_echoed_once_in_a_stream(served):
    said = "".join(c.choices[0].text for c in ask(served, echo=True, stream=True))
    assert said == "once uponYou said: once upon"


def test_likelihoods_have_their_older_form(served):
    found = ask(served, logprobs=2).choices[0].logprobs
    assert "".join(found.tokens) == "You said: once upon"
    assert found.text_offset[:3] == [0, 3, 8]
    assert found.token_logprobs[0] == pytest.approx(math.log(0.5))
    assert len(found.top_logprobs[0]) <= 2 and found.tokens[0] in found.top_logprobs[0]


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"suffix": "x"}, "suffix"),
        ({"best_of": 2}, "best_of"),
        ({"echo": True, "logprobs": 1}, "logprobs"),
        ({"prompt": []}, "prompt"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": [-1]}, "prompt[0]"),
        ({"prompt": ["a", 1]}, "prompt[1]"),
        ({"prompt": [[1], "a"]}, "prompt[1]"),
        ({"prompt": [1, "a"]}, "prompt[1]"),
        ({"prompt": [True]}, "prompt[0]"),
        ({"prompt": {}}, "prompt"),
    ],
)
def test_what_cannot_be_is_named(served, more, param):
    with pytest.raises(openai.BadRequestError) as refused:
        ask(served, **more)
    assert refused.value.param == param


def test_unknown_tokens_are_refused(served):
    with pytest.raises(openai.BadRequestError, match="token 999999"):
        ask(served, prompt=[999999])


def test_vectors_are_the_same_as_numbers_and_as_base64(served):
    client = served.client().embeddings
    decoded = client.create(model="scripted", input=["one text", "another"])  # base64 underneath
    plain = client.create(model="scripted", input=["one text", "another"], encoding_format="float")
    for a, b in zip(decoded.data, plain.data, strict=True):
        assert np.allclose(a.embedding, b.embedding) and len(a.embedding) == 32
        assert np.linalg.norm(a.embedding) == pytest.approx(1, abs=1e-5)
    raw = client.create(model="scripted", input="one text", encoding_format="base64")
    values = np.frombuffer(base64.b64decode(raw.data[0].embedding), "<f4")
    assert np.allclose(values, plain.data[0].embedding)
    assert decoded.usage.prompt_tokens == len(served.service.tokenize("one text")) + 2


def test_vectors_of_as_many_texts_as_openai_takes(served):
    texts = [f"text {number}" for number in range(2048)]
    for form in ("float", "base64"):
        made = served.client().embeddings.create(model="s", input=texts, encoding_format=form)
        assert [one.index for one in made.data] == list(range(2048))
    alone = served.client().embeddings.create(model="s", input=texts[-1], encoding_format=form)
    assert made.data[-1].embedding == alone.data[0].embedding
    with pytest.raises(openai.BadRequestError, match="found a list of 2049"):
        served.client().embeddings.create(model="s", input=[*texts, "one more"])


def test_vectors_of_tokens_are_those_of_their_text(served):
    tokens = served.service.tokenize("one text")
    client = served.client().embeddings
    one, other = (
        client.create(model="scripted", input=given).data[0].embedding
        for given in (tokens, "one text")
    )
    assert one == other
    with pytest.raises(openai.BadRequestError, match="have 32"):
        client.create(model="scripted", input="x", dimensions=8)


def post(served, path, **body):
    return httpx.post(f"{served.url}{path}", json=body).json()


def test_texts_become_tokens_and_back(served):
    made = post(served, "/tokenize", content="hello there", with_pieces=True)
    assert made["tokens"] == served.service.tokenize("hello there", False)
    assert made["pieces"] == ["hello", " there"] and made["count"] == 2
    assert post(served, "/detokenize", tokens=made["tokens"])["content"] == "hello there"
    both = post(served, "/tokenize", content="hello", add_special=True)["tokens"]
    assert both == served.service.tokenize("hello", True)
    assert post(served, "/tokenize", prompt="hello")["tokens"] == both  # as vLLM has it


def test_conversations_become_tokens_in_the_template(served):
    messages = [{"role": "user", "content": "hi"}]
    made = post(served, "/tokenize", messages=messages)
    chat = served.client().chat.completions.create(model="scripted", messages=messages)
    assert made["count"] == chat.usage.prompt_tokens
    assert "error" in post(served, "/tokenize", messages=messages, content="x")
    assert "error" in post(served, "/tokenize")
