"""Templates of our own that do what those of reasoning models do: a switch, thoughts, marks."""

from __future__ import annotations

import pytest

from llm_lite.core.text.chat_template import ChatTemplate
from llm_lite.core.text.thinking import begun_by

# As Qwen3: thoughts behind the last question stay, the switch closes them at once.
QWEN = (
    "{%- set ns = namespace(looking=true, last=messages | length - 1) %}\n"
    "{%- for message in messages[::-1] %}\n"
    "    {%- set index = (messages | length - 1) - loop.index0 %}\n"
    "    {%- if ns.looking and message.role == 'user' %}\n"
    "        {%- set ns.looking = false %}{%- set ns.last = index %}\n"
    "    {%- endif %}\n"
    "{%- endfor %}\n"
    "{%- for message in messages %}\n"
    "    {{- '<|im_start|>' + message.role + '\\n' }}\n"
    "    {%- set content = message.content.split('</think>')[-1].lstrip('\\n') %}\n"
    "    {%- if message.reasoning_content is string and loop.index0 > ns.last %}\n"
    "        {{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' }}\n"
    "    {%- endif %}\n"
    "    {{- content + '<|im_end|>\\n' }}\n"
    "{%- endfor %}\n"
    "{%- if add_generation_prompt %}\n"
    "    {{- '<|im_start|>assistant\\n' }}\n"
    "    {%- if enable_thinking is defined and enable_thinking is false %}\n"
    "        {{- '<think>\\n\\n</think>\\n\\n' }}\n"
    "    {%- endif %}\n"
    "{%- endif %}\n"
)
# As SmolLM3: a word in the system's message is stronger than the switch.
SMOLLM = (
    "{%- set mode = '/think' if enable_thinking is not defined or enable_thinking "
    "else '/no_think' -%}\n"
    "{%- if messages[0].role == 'system' -%}\n"
    "    {%- if '/no_think' in messages[0].content -%}{%- set mode = '/no_think' -%}\n"
    "    {%- elif '/think' in messages[0].content -%}{%- set mode = '/think' -%}\n"
    "    {%- endif -%}\n"
    "    {%- set own = messages[0].content.replace('/no_think', '').replace('/think', '') -%}\n"
    "{%- endif -%}\n"
    "{{- 'Mode: ' + mode + '\\n' + (own | default('')).rstrip() + '\\n' -}}\n"
    "{%- for message in messages if message.role != 'system' -%}\n"
    "    {%- if message.role == 'assistant' -%}\n"
    "        {% generation %}\n"
    "        {{ '<think>\\n\\n</think>\\n' if mode == '/no_think' }}{{ message.content }}<end>\n"
    "        {%- endgeneration %}\n"
    "    {%- else %}{{ message.role + ': ' + message.content }}<end>{% endif -%}\n"
    "{%- endfor -%}\n"
    "{%- if add_generation_prompt -%}\n"
    "    {{ 'assistant: ' + ('<think>\\n\\n</think>\\n' if mode == '/no_think' else '') }}\n"
    "{%- endif -%}\n"
)
# As Gemma 4: thoughts are asked for in the system's turn, and closed at once where they are not.
GEMMA = (
    "{{- '<|turn>system\\n' + ('<|think|>' if enable_thinking else '') }}"
    "{{- messages[0].content + '<turn|>\\n' }}"
    "{%- for message in messages[1:] %}"
    "{%- set role = 'model' if message.role == 'assistant' else message.role %}"
    "{{- '<|turn>' + role + '\\n' }}"
    "{%- set thought = message.get('reasoning_content') %}"
    "{%- if thought and loop.last %}"
    "{{- '<|channel>thought\\n' + thought + '<channel|>' }}{% endif %}"
    "{{- message.content | trim }}{{- '<turn|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|turn>model\\n' }}"
    "{%- if not enable_thinking | default(false) %}"
    "{{- '<|channel>thought\\n<channel|>' }}{% endif %}"
    "{%- endif %}"
)
# As Harmony: an analysis is a message of its own, of the last answer alone.
HARMONY = (
    "{{- 'Today: ' + strftime_now('%Y-%m-%d')[:0] + '<|end|>' }}"
    "{%- for message in messages %}{%- if message.role == 'assistant' %}"
    "{%- if 'thinking' in message and loop.last %}"
    "{{- '<|start|>assistant<|channel|>analysis<|message|>' + message.thinking + '<|end|>' }}"
    "{%- endif %}"
    "{{- '<|start|>assistant<|channel|>final<|message|>' + message.content }}"
    "{{- '<|return|>' if loop.last and not add_generation_prompt else '<|end|>' }}"
    "{%- else %}{{- '<|start|>' + message.role + '<|message|>' + message.content + '<|end|>' }}"
    "{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|start|>assistant' }}{% endif %}"
)
# As Ministral 3: thoughts are chunks of a message's content; messages of text have none.
MISTRAL = (
    "{{- bos_token }}{%- set users = namespace(n=0) %}"
    "{%- for message in messages if message.role != 'system' %}"
    "{%- if (message.role == 'user') != (users.n % 2 == 0) %}"
    "{{- raise_exception('roles must alternate') }}{%- endif %}"
    "{%- set users.n = users.n + 1 %}"
    "{%- if message.role == 'user' %}{{- '[INST]' + message.content + '[/INST]' }}"
    "{%- elif message.content is string %}{{- message.content + eos_token }}"
    "{%- else %}{%- for block in message.content if block['type'] == 'thinking' %}"
    "{{- '[THINK]' + block['thinking'] + '[/THINK]' }}{%- endfor %}{%- endif %}"
    "{%- endfor %}"
)
# As Granite 3.3: the switch asks in a sentence, which names the marks.
GRANITE = (
    "{%- if tools and documents %}{%- set ask = 'by these documents' %}"
    "{%- elif thinking %}{%- set ask = 'Think between <think></think>, then answer between "
    "<response></response>.' %}"
    "{%- else %}{%- set ask = 'Answer.' %}{%- endif %}"
    "{{- '<|role|>system<|of|>' + ask + '<|end|>\\n' }}"
    "{%- for message in messages %}"
    "{{- '<|role|>' + message.role + '<|of|>' + message.content + '<|end|>\\n' }}"
    "{%- if loop.last and add_generation_prompt %}{{- '<|role|>assistant<|of|>' }}{%- endif %}"
    "{%- endfor %}"
)
TALK = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "2+2?"},
    {"role": "assistant", "content": "Four.", "thought": "two and two"},
    {"role": "user", "content": "3+3?"},
]
# key, switch and style; what the prompt ends with where the model is to think and where not.
CASES = {
    "Qwen 3": (
        QWEN,
        ("reasoning_content", "enable_thinking", "think"),
        "3+3?<|im_end|>\n<|im_start|>assistant\n",
        "<|im_start|>assistant\n<think>\n\n</think>\n\n",
    ),
    "SmolLM3": (
        SMOLLM,
        ("", "enable_thinking", "think"),
        "Four.<end>user: 3+3?<end>assistant: ",
        "Four.<end>user: 3+3?<end>assistant: <think>\n\n</think>\n",
    ),
    "Gemma 4": (
        GEMMA,
        ("reasoning_content", "enable_thinking", "gemma"),
        "3+3?<turn|>\n<|turn>model\n",
        "<|turn>model\n<|channel>thought\n<channel|>",
    ),
    "Harmony": (
        HARMONY,
        ("thinking", "", "harmony"),
        "<|message|>Four.<|end|><|start|>user<|message|>3+3?<|end|><|start|>assistant",
        "<|start|>assistant",
    ),
    "Ministral 3": (
        MISTRAL,
        ("thinking", "", "mistral"),
        "<s>[INST]2+2?[/INST]Four.</s>[INST]3+3?[/INST]",
        "[INST]3+3?[/INST]",
    ),
    "Granite 3.3": (
        GRANITE,
        ("", "thinking", "granite"),
        "Four.<|end|>\n<|role|>user<|of|>3+3?<|end|>\n<|role|>assistant<|of|>",
        "<|role|>assistant<|of|>",
    ),
}


def template_of(case):
    return ChatTemplate(CASES[case][0], bos_token="<s>", eos_token="</s>")


def talk_of(template, talk=TALK):
    """With thoughts where the template looks for them."""
    found = []
    for message in talk:
        thought = {template.thought_key: message["thought"]} if "thought" in message else {}
        plain = {key: text for key, text in message.items() if key != "thought"}
        found.append({**plain, **(thought if template.thought_key else {})})
    return found


@pytest.mark.parametrize("case", CASES)
def test_the_next_prompt(case):
    template, (_, known, thinking, silent) = template_of(case), CASES[case]
    found = template.thought_key, template.thinking_switch, template.thinking_style
    assert found == known
    for wanted, end in ((True, thinking), (False, silent)):
        prompt = template.render(talk_of(template), thinking=wanted)
        assert prompt.endswith(end), prompt
        assert "two and two" not in prompt
        assert not begun_by(prompt, template.thinking_style).inside
        segments = template.render_segments(talk_of(template), thinking=wanted)
        assert "".join(text for text, _ in segments) == prompt
        assert ("3+3?", False) in segments


@pytest.mark.parametrize("case", ["Qwen 3", "Gemma 4", "Harmony"])
def test_thoughts_of_the_last_answer_stay_where_the_template_keeps_them(case):
    template = template_of(case)
    written = template.render(talk_of(template, TALK[:3]), add_generation_prompt=False)
    assert "two and two" in written
    assert written.index("two and two") < written.index("Four.")


@pytest.mark.parametrize(("word", "thinks"), [("/think", True), ("/no_think", False)])
def test_a_word_to_the_system_is_stronger_than_the_switch(word, thinks):
    talk = [{"role": "system", "content": f"Be brief. {word}"}, *TALK[1:2]]
    prompts = {template_of("SmolLM3").render(talk, thinking=wanted) for wanted in (True, False)}
    end = "assistant: " if thinks else "assistant: <think>\n\n</think>\n"
    assert prompts == {f"Mode: {word}\nBe brief.\nuser: 2+2?<end>{end}"}


def test_the_switch_of_granite():
    template = template_of("Granite 3.3")
    asked = [template.render(TALK[1:2], thinking=wanted) for wanted in (True, False)]
    assert ["<response>" in prompt for prompt in asked] == [True, False]


def test_a_prompt_that_opens_thoughts():
    source = QWEN.replace("'<think>\\n\\n</think>\\n\\n' }}", "'</think>' }}").replace(
        "{{- '<|im_start|>assistant\\n' }}", "{{- '<|im_start|>assistant\\n<think>\\n' }}"
    )
    template = ChatTemplate(source)
    inside = [
        begun_by(template.render(TALK[:2], thinking=on), "think").inside for on in (True, False)
    ]
    assert inside == [True, False]


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{% if tools is not none %}tools{% endif %}{% if documents %}d{% endif %}.", "."),
        ("{% if tools is defined and tools is not none %}{{ tools | length }}{% endif %}.", "."),
        ("{% if tools is defined %}{% for tool in tools %}{{ tool }}{% endfor %}{% endif %}.", "."),
    ],
)
def test_there_are_no_tools(source, text):
    """They are none, as transformers says it; a template that takes them for a list has none."""
    assert ChatTemplate(source).render(TALK[1:2]) == text
