"""Exports: our JSON comes back as the same tree; pages to read are safe, whatever was said."""

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_lite.core.errors import FileError, RequestError
from llm_lite.core.history import (
    AnswerEnd,
    AnswerRun,
    Attachment,
    ConversationSummary,
    ConversationTree,
    History,
    ModelIdentity,
    StoredConversation,
    StoredMessage,
)
from llm_lite.core.history.exchange.exporting import ENDINGS, export_file, exported, file_name
from llm_lite.core.history.exchange.html import to_html
from llm_lite.core.history.exchange.importing import read_conversations
from llm_lite.core.history.exchange.markdown import answer_to_markdown, to_markdown
from llm_lite.core.history.history import renumbered
from llm_lite.core.messages import GenerationStats, Interventions, SamplingOptions
from llm_lite.core.messages.interventions import Scale, Shift
from llm_lite.core.records import replace
from tests.core.history.talks import END, RUN, add_talk

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
TIMES = st.floats(0, 4e9)
RUNS = st.none() | st.builds(
    AnswerRun,
    st.builds(ModelIdentity, TEXT, TEXT, st.integers(0, 1 << 40), TIMES, TEXT),
    mode=TEXT,
    threads=st.integers(0, 64),
    sampling=st.none() | st.builds(SamplingOptions, seed=st.none() | st.integers(0, 1 << 32)),
    interventions=st.sampled_from(
        [
            Interventions(),
            Interventions((Scale("layers.0.attention.heads", 0.5, 1),), "A"),
            Interventions((Shift("layers.0.feed_forward.residual", (0.5, -1.0)),)),
        ]
    ),
    thinking=st.booleans(),
)
ENDS = st.none() | st.builds(
    AnswerEnd,
    st.sampled_from([None, "end", "length", "error"]),
    st.none() | st.builds(GenerationStats, st.integers(0, 99), decode_tok_s=st.floats(0, 99)),
    TEXT,
    st.floats(0, 1e6),
)


@st.composite
def conversations(draw) -> StoredConversation:
    """Trees of any shape; versions, forks and what is selected at random."""
    count = draw(st.integers(0, 8))
    parents = [draw(st.none() | st.integers(1, n)) if n else None for n in range(count)]
    messages = []
    for place, parent in enumerate(parents):
        children = [n + 1 for n, above in enumerate(parents) if above == place + 1]
        role = draw(st.sampled_from(["user", "assistant", "system", "tool"]))
        messages.append(
            StoredMessage(
                place + 1,
                1,
                parent,
                role,
                draw(TEXT),
                draw(TEXT),
                tuple(draw(st.lists(st.integers(0, 0xFFFF_FFFF), max_size=4))),
                draw(TIMES),
                draw(st.booleans()),
                draw(st.sampled_from([None, *children])),
                draw(st.sampled_from([None, *range(1, count + 1)])),
                draw(st.integers(0, 9)),
                draw(RUNS),
                draw(ENDS.filter(lambda end: end != AnswerEnd())),
                tuple(
                    draw(st.lists(st.builds(Attachment, TEXT, TEXT, st.integers(0, 9)), max_size=2))
                ),
            )
        )
    first = [n + 1 for n, above in enumerate(parents) if above is None]
    summary = ConversationSummary(
        1,
        draw(TEXT),
        draw(st.sampled_from(["none", "message", "model", "person"])),
        draw(TIMES),
        draw(TIMES),
        draw(st.booleans()),
        draw(st.booleans()),
        None,
        draw(TEXT),
        draw(st.sampled_from([None, *first])),
    )
    return StoredConversation(summary, tuple(messages))


def numbered(conversation: StoredConversation) -> StoredConversation:
    """With places for ids."""
    ids = {message.id: place for place, message in enumerate(conversation.messages)}
    messages = tuple(
        replace(
            message,
            id=ids[message.id],
            conversation=-1 if message.conversation == conversation.summary.id else -2,
            parent=ids.get(message.parent),
            selected=ids.get(message.selected),
            based_on=ids.get(message.based_on),
        )
        for message in conversation.messages
    )
    chosen = ids.get(conversation.summary.selected)
    return StoredConversation(replace(conversation.summary, id=-1, selected=chosen), messages)


def alike(one: StoredConversation, other: StoredConversation) -> bool:
    """But for the ids."""
    return numbered(one) == numbered(other)


@settings(max_examples=25)
@given(st.lists(conversations(), max_size=2))
def test_our_own_file_comes_back_as_the_same_trees(tmp_path_factory, talks):
    path = tmp_path_factory.getbasetemp() / "ours.json"
    export_file(talks, "json", path)
    imported = read_conversations(path)
    assert imported.notes == ()
    assert len(imported.conversations) == len(talks)
    assert all(map(alike, imported.conversations, talks))


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    history = History(tmp_path_factory.mktemp("kept") / "history.db")
    yield history
    history.close()


@settings(max_examples=25)
@given(conversations())
def test_a_history_gives_back_the_tree_that_it_was_given(kept, talk):
    summary = kept.add(talk)
    waiting = kept.conversation(summary.id)
    assert kept.flush()
    saved = kept.conversation(summary.id)
    assert waiting == saved and alike(saved, talk)
    assert alike(renumbered(saved), talk)


def test_what_is_wrong_in_our_own_file_is_said(tmp_path, history):
    talk = history.conversation(add_talk(history, "One?", "1"))
    path = tmp_path / "ours.json"
    whole = exported([talk], "json").decode()
    for old, new, sentence in (
        ('"parent": 0', '"parent": 1', "conversations[0].messages[1].parent: expected a place"),
        ('"parent": 0', '"parent": "0"', "expected a place in the list of messages below 1"),
        ('"selected": 0', '"selected": 1', "conversations[0].selected: expected a message without"),
        ('"selected": 1', '"selected": 0', "messages[0].selected: expected one of the message's"),
        ('"role": "user"', '"role": "owner"', "messages[0].role: expected one of system, user"),
        ('"stop_reason": "length"', '"stop_reason": "x"', "end.stop_reason: expected one of end"),
        ('"title_source": "message"', '"title_source": "x"', "title_source: expected one of none"),
        ('"version": 1', '"version": 7', "version: expected 1, the version that this program"),
    ):
        assert old in whole
        path.write_text(whole.replace(old, new, 1))
        with pytest.raises(FileError) as raised:
            read_conversations(path)
        assert sentence in str(raised.value)


def test_markdown(history):
    talk = history.begin(system_prompt="Be brief.").id
    asked = history.add_message(talk, None, "Why?\n\nTell me.", attachments=[Attachment("a.txt")])
    answer = history.begin_answer(talk, asked.id, RUN)
    history.finish_answer(answer, "So:\n\n```python\nx = 1", "Let me\nsee", (), END)
    history.begin_answer(talk, answer.id, RUN, text="…")
    history.set_title(talk, "A\ntitle")
    whole = history.conversation(talk)
    text = to_markdown(whole)
    assert text.startswith("# A\\ntitle\n\n20")
    assert "## System prompt\n\nBe brief.\n\n## User\n\nAttached: a.txt\n\nWhy?\n\nTell me." in text
    assert "## Model: tiny\n\nSo:\n\n```python\nx = 1\n```\n" in text  # the fence is closed
    assert "Let me" not in text and "> Let me\n> see" in to_markdown(whole, thoughts=True)
    assert text.endswith("*This answer was not finished.*\n")
    assert answer_to_markdown(ConversationTree.of(whole).path[0]) == "Why?\n\nTell me."


HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[click](javascript:alert(1)) [data](data:text/html,<script>alert(1)</script>)",
    "[a](intent://x) [b](blob:http://x/y) [c](filesystem:http://x/y) <view-source:http://x>",
    "![pixel](https://example.org/pixel.png)",
    '</p></section></main></body><iframe src="https://example.org">',
    '[a](https://example.org "x\\" onmouseover=alert(1) ")',
    "```html\n</code></pre><script>alert(1)</script>",
    '| a |\n|---|\n| <b onclick="x"> |',
    "\x00\x1b[31m\x9f",
]
_ALLOWED = {
    *("html", "head", "meta", "title", "style", "body", "header", "main", "section", "div", "p"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "details", "summary", "em", "strong", "code", "pre", "a"),
    *("ul", "ol", "li", "blockquote", "table", "thead", "tbody", "tr", "th", "td", "br", "hr"),
}


class Checker(HTMLParser):
    """Looks for whatever a page to read needs not."""

    def handle_starttag(self, tag, attributes):
        assert tag in _ALLOWED, tag
        for name, value in attributes:
            assert not name.startswith("on") and name != "src", (tag, name)
            if name == "href":
                assert re.match(r"(https?|mailto):", value), value


@pytest.mark.parametrize("text", HOSTILE)
def test_a_page_runs_and_loads_nothing(history, text):
    talk = history.begin(title=text, system_prompt=text).id
    run = AnswerRun(ModelIdentity(text))
    asked = history.add_message(talk, None, text, attachments=[Attachment(text)])
    answer = history.begin_answer(talk, asked.id, run)
    history.finish_answer(answer, text, text)
    page = to_html(history.conversation(talk))
    Checker().feed(page)
    assert "Content-Security-Policy" in page and "default-src 'none'" in page
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", page)


@given(
    st.lists(st.sampled_from([*HOSTILE, "word", "\n", "*", "`", "<", "&", "[", "]("]), max_size=12)
)
def test_a_page_of_any_mixture_is_safe(pieces):
    text = "".join(pieces)
    message = StoredMessage(2, 1, None, "assistant", text, text)
    summary = ConversationSummary(1, text, system_prompt=text, selected=2)
    Checker().feed(to_html(StoredConversation(summary, (message,))))


def test_a_page_lays_out_markdown(history):
    talk = add_talk(history, "<b>?", "**bold** `code`\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n- item")
    page = to_html(history.conversation(talk))
    for part in ("<strong>bold</strong>", "<code>code</code>", "<td>1</td>", "<li>item</li>"):
        assert part in page
    assert "&lt;b&gt;?" in page and "http" not in page.replace("http-equiv", "")


def test_files_are_named_by_titles(history, tmp_path):
    talk = history.conversation(add_talk(history, "One?", "1"))
    for title, name in (
        ("What is this?", "What is this"),
        ("a/b\\c:d\x00\n..", "a b c d"),
        ("", "conversation"),
        ("...", "conversation"),
        ("con", "conversation con"),
        ("LPT1.x", "conversation LPT1.x"),
        ("x" * 300, "x" * 200),
        ("날씨 天气", "날씨 天气"),
        (
            "인공지능의 역사를 " * 20,
            ("인공지능의 역사를 " * 20).encode()[:200].decode("utf-8", "ignore"),
        ),
        ("a" + "🦆" * 100, "a" + "🦆" * 49),
    ):
        assert file_name(title) == name.strip()
        for ending in ENDINGS.values():  # a system's names have 255 bytes
            made = tmp_path / (file_name(title) + ending)
            export_file([talk], "json", made)
            assert made.is_file()
            made.unlink()
    for kind in ("markdown", "html", "json"):
        path = tmp_path / (file_name("One?") + ENDINGS[kind])
        export_file([talk], kind, path)
        assert path.stat().st_size > 20
    with pytest.raises(RequestError, match="holds one conversation, found 2"):
        exported([talk, talk], "html")
