"""Chats by OpenAI's own client."""


def test_an_answer_comes_whole(served):
    made = served.client().chat.completions.create(
        model="scripted", messages=[{"role": "user", "content": "hello there"}]
    )
    assert made.choices[0].message.content == "You said: hello there"
    assert made.choices[0].finish_reason == "stop"
    assert made.usage.completion_tokens == 6 and made.usage.prompt_tokens > 3


def test_an_answer_streams(served):
    stream = served.client().chat.completions.create(
        model="scripted",
        messages=[{"role": "user", "content": "hello there"}],
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    said = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert said == "You said: hello there"
    assert chunks[-1].usage.completion_tokens == 6 and chunks[-1].choices == []
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"


def test_the_model_is_listed_without_its_path(served):
    found = served.client().models.list().data
    assert [one.id for one in found] == ["scripted"]
    assert "secret" not in found[0].model_dump_json()
