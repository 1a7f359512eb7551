"""Files of other programs become conversations; what is wrong is a sentence that names it."""

import copy
import json
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_lite.core.errors import FileError
from llm_lite.core.history import AnswerEnd, Attachment, ConversationTree, StoredConversation
from llm_lite.core.history.exchange.document import to_json
from llm_lite.core.history.exchange.importing import read_conversations
from llm_lite.core.messages import GenerationStats
from tests.children import PATIENCE
from tests.paths import FIXTURES

FILES = FIXTURES / "history"
CHATGPT = json.loads((FILES / "chatgpt.json").read_text("utf-8"))
LM_STUDIO = json.loads((FILES / "lm_studio.conversation.json").read_text("utf-8"))


def shown(conversation: StoredConversation) -> list[tuple[str, str]]:
    return [(m.role, m.text) for m in ConversationTree.of(conversation).path]


@pytest.fixture
def read(tmp_path):
    """Of a document, its conversations and notes."""

    def read_document(document: object):
        path = tmp_path / "import.json"
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return read_conversations(path)

    return read_document


@pytest.mark.parametrize("number", ["9" * 400, "9" * 5000, "1e999", "NaN"], ids=len)
def test_a_number_that_no_float_holds_takes_no_other_conversation_with_it(read, number):
    first, second = copy.deepcopy(CHATGPT)[:2]
    first["create_time"] = "HERE"
    imported = read(json.dumps([first, second]).replace('"HERE"', number))
    assert [shown(one) for one in imported.conversations] == [[("user", "Hi")]]
    assert "[0].create_time: expected a number, found " in imported.notes[0]
    assert len(imported.notes) == 1 and "was left out" in imported.notes[0]


def test_chatgpt():
    imported = read_conversations(FILES / "chatgpt.json")
    assert imported.notes == ()
    first, second = imported.conversations
    assert first.summary.title == "Sorting in Python" and first.summary.title_source == "model"
    assert (first.summary.created, first.summary.updated) == (1700000000.25, 1700000900.5)
    assert shown(first) == [
        ("user", "How do I sort this list? 정렬"),
        ("assistant", "```python\nprint(sorted([2, 1]))\n```"),
        ("tool", "```\n[1, 2]\n```"),
        ("assistant", "It is `[1, 2]`.\n\nHalf a pair: �"),
    ]
    assert first.summary.system_prompt == "I write Python.\n\nBe brief."
    tree = ConversationTree.of(first)
    path = tree.path
    assert path[0].attachments == (Attachment("file-service://file-abc"),)
    assert path[0].created == 1700000001.0
    assert path[1].thought == "Looking at the list\nIt has numbers."
    assert path[-1].run.model.name == "o3"
    versions = [tree.find(one).text for one in tree.versions(1)]
    assert versions == ["Use `sorted`.", "```python\nprint(sorted([2, 1]))\n```"]
    assert shown(second) == [("user", "Hi")] and second.summary.title == ""


def test_what_chatgpt_exports_since_2025():
    """Context and recaps are no messages, thoughts belong to the answer, the model stands where
    ChatGPT has put it, and files have their names."""
    imported = read_conversations(FILES / "chatgpt_newer.json")
    assert imported.notes == ()
    (talk,) = imported.conversations
    assert shown(talk) == [
        ("user", "무지개는 왜 생기나요?"),
        ("assistant", '```\nsearch("rainbow angle")\n```'),
        ("tool", "L0: 42 degrees"),
        ("assistant", "빛이 물방울에서 굴절됩니다. 각도는 42도입니다."),
        ("user", "더 짧게 말해 줘"),
        ("assistant", ""),
    ]
    path = ConversationTree.of(talk).path
    assert path[0].attachments == (Attachment("무지개.png"), Attachment("optics.pdf"))
    assert [message.thought for message in path if message.role == "assistant"] == [
        "Recalling optics\nRefraction and reflection.",
        "Writing\nUse 42 degrees.",
        "Shortening\nOne sentence.",
    ]
    models = [message.run.model.name for message in path if message.role == "assistant"]
    assert models == ["gpt-5-2-thinking", "gpt-5-2", "gpt-5-2"]
    prompt = talk.summary.system_prompt
    assert "I teach physics." in prompt and prompt.endswith("Answer in Korean.")


def test_lm_studio():
    imported = read_conversations(FILES / "lm_studio.conversation.json")
    assert imported.notes == ()
    (talk,) = imported.conversations
    summary = talk.summary
    assert (summary.title, summary.pinned, summary.created) == ("Entropy", True, 1727000000.0)
    assert summary.system_prompt == "Be exact."
    assert shown(talk) == [
        ("user", "What is entropy, briefly?"),
        ("assistant", "Disorder, roughly."),
        ("user", "Thanks"),
    ]
    tree = ConversationTree.of(talk)
    _, answer, _ = tree.path
    assert tree.find(tree.versions(0)[0]).attachments == (Attachment("1727-notes.txt"),)
    assert [tree.find(one).text for one in tree.versions(1)] == [
        "Disorder, roughly.",
        "A count of states.",
    ]
    assert answer.thought == "Let me see."
    assert answer.run.model.name == "org/tiny/tiny-Q4_K_M.gguf"
    stats = GenerationStats(20, 0, 9, 0.0, 41.5, 250.0)
    assert answer.end == AnswerEnd("end", stats)
    assert tree.find(tree.versions(1)[1]).end.stop_reason == "stopped"


def test_what_the_terminal_saved():
    (talk,) = read_conversations(FILES / "terminal.json").conversations
    assert shown(talk) == [("user", "What is **this**?"), ("assistant", "A test.")]
    assert (talk.summary.title, talk.summary.system_prompt) == ("What is this?", "Be brief.")
    answer = ConversationTree.of(talk).path[1]
    assert (answer.tokens, answer.thought, answer.run.model.name) == ((5, 6), "hm", "SmolLM2")


def test_all_of_it_can_be_kept(history):
    for path in sorted(FILES.iterdir()):
        for conversation in read_conversations(path).conversations:
            kept = history.add(conversation)
            assert history.flush()
            assert shown(history.conversation(kept.id)) == shown(conversation)
    assert history.poll() and history.check() == ""
    for query in ("entropy", "정렬", "sort this"):
        assert history.search(query).found


@pytest.mark.parametrize("field", ["run", "end"])
def test_what_nests_too_deep_leaves_its_conversation_out(tmp_path, field):
    ours = json.loads(to_json(read_conversations(FILES / "chatgpt.json").conversations[:2]))
    deep = []
    for _ in range(900):
        deep = [deep]
    part = {"run": deep} if field == "run" else {"stats": {"new_tokens": deep}}
    ours["conversations"][0]["messages"][0][field] = part
    path = tmp_path / "deep.json"
    path.write_text(json.dumps(ours))
    found = read_conversations(path)
    assert len(found.conversations) == 1
    assert "expected at most 64 levels of objects and lists" in found.notes[0]


def broken(document, *path):
    """A copy with another value at a path of keys: the last of `path`."""
    made = copy.deepcopy(document)
    at = made
    for key in path[:-2]:
        at = at[key]
    at[path[-2]] = path[-1]
    return made


NODES = (0, "mapping")


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ("", "is not valid JSON"),
        ('[{"mapping": {"a": ', "is not valid JSON"),
        ("[" * 100_000, "nests too deep"),
        ('{"a":' * 100_000, "nests too deep"),
        ("null", "the file: expected conversations of llm-lite"),
        ("[]", "the file: expected"),
        ("{}", "the file: expected"),
        ('{"messages": []}', "the file: expected"),
        (broken(LM_STUDIO, "messages", 0, "versions", 3), "messages[0].versions: expected a list"),
        (
            broken(LM_STUDIO, "messages", 0, "currentlySelected", 9),
            "expected a whole number from 0",
        ),
        (
            broken(LM_STUDIO, "messages", 2, "versions", 0, "role", "x"),
            "versions[0].role: expected",
        ),
        (broken(LM_STUDIO, "createdAt", "now"), "createdAt: expected a number, found 'now'"),
        (broken(LM_STUDIO, "createdAt", -1e300), "createdAt: expected a time"),
        (broken(LM_STUDIO, "pinned", 1), "pinned: expected true or false"),
        ({"format": "llm-lite-conversations", "version": 2}, "version: expected 1"),
        ({"format": "llm-lite-conversations", "version": 1}, "conversations: expected a list"),
    ],
    ids=lambda value: None if isinstance(value, str) and len(value) < 60 else "",
)
def test_a_file_that_is_wrong_is_a_sentence(read, document, sentence):
    with pytest.raises(FileError) as raised:
        read(document)
    assert sentence in str(raised.value) and "import.json" in str(raised.value)
    assert len(str(raised.value)) < 600


@pytest.mark.parametrize(
    ("document", "sentence", "kept"),
    [
        (broken(CHATGPT, *NODES, 5), "[0].mapping: expected an object, found 5", 0),
        (broken(CHATGPT, *NODES, "question", 5), "[0].mapping.question: expected an object", 0),
        (broken(CHATGPT, 0, "create_time", True), "[0].create_time: expected a number", 0),
        (
            broken(CHATGPT, *NODES, "answer-1", "message", "author", "role", 5),
            "answer-1.message.author.role: expected a text",
            4,
        ),
        (
            broken(CHATGPT, *NODES, "call", "message", "content", "text", [1]),
            "call.message.content.text: expected a text, found a list of 1; this message was left",
            5,  # the thought stays, as an answer of its own
        ),
        (
            broken(CHATGPT, *NODES, "answer-1", "message", "content", {"content_type": "new"}),
            "found 'new'; this message was left out",
            4,
        ),
        (broken(CHATGPT, *NODES, "question", "parent", "nobody"), "it begins a version", 5),
        (
            broken(CHATGPT, *NODES, "context", "parent", "answer-2"),
            "expected no circle of nodes",
            5,
        ),
        (
            broken(CHATGPT, *NODES, "question", "parent", "question"),
            "expected no circle of nodes",
            5,
        ),
        (broken(CHATGPT, 0, "current_node", "nobody"), "the last is shown", 5),
    ],
    ids=lambda value: "" if isinstance(value, list) else None,
)
def test_a_part_that_is_wrong_is_noted_and_the_rest_is_kept(read, document, sentence, kept):
    imported = read(document)
    assert len(imported.notes) == 1 and sentence in imported.notes[0]
    assert (
        "import.json: [0].mapping" in imported.notes[0] or "import.json: [0]." in imported.notes[0]
    )
    first, last = imported.conversations[0], imported.conversations[-1]
    assert shown(last) == [("user", "Hi")]
    assert len(imported.conversations) == (2 if kept else 1)
    if kept:
        assert len(first.messages) == kept
        assert ConversationTree.of(first).path


def test_a_very_long_chain(read, history):
    count = 3000
    mapping = {
        str(n): {
            "parent": str(n - 1) if n else None,
            "children": [str(n + 1)],
            "message": {
                "author": {"role": "user"},
                "content": {"content_type": "text", "parts": [f"word {n}"]},
            },
        }
        for n in range(count)
    }
    (talk,) = read([{"mapping": mapping, "current_node": str(count - 1)}]).conversations
    assert len(shown(talk)) == count
    kept = history.add(talk)
    assert history.flush(PATIENCE) and len(history.conversation(kept.id).messages) == count


def test_a_file_that_is_too_large(tmp_path):
    path = tmp_path / "import.json"
    shutil.copy(FILES / "chatgpt.json", path)
    with pytest.raises(FileError, match="more than 1000 bytes"):
        read_conversations(path, limit=1000)
    with path.open("wb") as file:
        file.truncate(300 << 20)  # with a hole in it
    with pytest.raises(FileError, match="bytes, which is too much"):
        read_conversations(path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


def places(document, path=()):
    yield path
    items = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in items:
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))
        else:
            yield (*path, key)


ALL = [
    (document, place)
    for document in (CHATGPT, LM_STUDIO, json.loads((FILES / "terminal.json").read_text()))
    for place in places(document)
    if place
]


@given(st.sampled_from(range(len(ALL))), JSON)
def test_anything_anywhere_is_a_conversation_or_a_sentence(tmp_path_factory, number, value):
    document, place = ALL[number]
    path = tmp_path_factory.getbasetemp() / "anything.json"
    path.write_text(json.dumps(broken(document, *place, value)))
    try:
        imported = read_conversations(path)
    except FileError as error:
        assert "anything.json" in str(error)
    else:
        for conversation in imported.conversations:
            seen = {None}
            for message in conversation.messages:
                assert message.parent in seen
                seen.add(message.id)
            assert {None, *(m.id for m in ConversationTree.of(conversation))} == seen
