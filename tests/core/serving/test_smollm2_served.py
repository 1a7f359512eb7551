"""The real model on the C++ executor: texts that are the same alone, together and put off."""

from llm_lite.core.messages import ChatMessage, EngineOptions, SamplingOptions
from tests.core.serving.clients import Asked, serve

KOREAN = "안녕하세요? 서울 🙂"  # most characters are several tokens

QUESTIONS = ("Why is the sky blue?", "Name a city.", "Write a poem.", "Count to nine.", "Who?")
SAMPLING = SamplingOptions(temperature=0.0, max_new_tokens=40)
A_PAGE = 128 * 30 * 2 * (2 * 3 * 64 + 9 * 64)  # bytes: keys, values and queries, float16


def test_texts_are_the_same_alone_together_and_put_off(client, smollm2):
    client.load(smollm2, EngineOptions("cpu", mode="int4", context=512))
    service = serve(client, parallel=5)
    prompts = [
        service.prompt_tokens([ChatMessage("user", question + " Go on." * 25 * number)])
        for number, question in enumerate(QUESTIONS)
    ]
    assert {len(prompt) // 128 for prompt in prompts} >= {0, 1, 2}

    def ask(prompt):
        return Asked(service, tokens=tuple(prompt), sampling=SAMPLING)

    alone = [ask(prompt).tokens() for prompt in prompts]
    for budget in (0, 5 * A_PAGE):
        service = serve(client, parallel=5, cache_budget=budget)
        together = [ask(prompt) for prompt in prompts]
        assert [asked.tokens() for asked in together] == alone
        assert any(word in together[0].text() for word in ("light", "atmosphere"))
    assert service.status().pages == 5


def test_a_character_of_several_tokens_stands_at_the_last_of_them(client, smollm2):
    client.load(smollm2, EngineOptions("cpu", context=256))
    service = serve(client, parallel=1)
    tokens = service.tokenize(KOREAN, add_special=False)
    texts = service.token_texts(tokens)
    assert "".join(texts) == KOREAN and len(texts) == len(tokens)
    assert texts[:3] == ["", "", "안"]
    asked = Asked(service, tokens=tuple(tokens), sampling=SAMPLING)
    asked.finished()
    held = service.answer_tokens(asked.response)
    assert "".join(held.texts[: held.prompt_tokens]) == KOREAN
