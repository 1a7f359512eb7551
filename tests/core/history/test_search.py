"""Search finds words of any script anywhere, and takes what is typed as words, never as syntax."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_lite.core.history import History, HistoryOpened
from llm_lite.core.history.database import schema
from llm_lite.core.history.database.search import snippet_of, words_of
from tests.children import PATIENCE
from tests.core.history.talks import RUN, add_talk, told


def talks_with(history: History, query: str) -> set[int]:
    return {place.conversation for place in history.search(query, seconds=PATIENCE).found}


@pytest.fixture(params=[True, False], ids=["indexed", "without an index"])
def searched(request, tmp_path, monkeypatch):
    """Of a SQLite with trigrams, and of one without."""
    if not request.param:
        monkeypatch.setattr(schema, "has_trigrams", lambda connection: False)
    history = History(tmp_path / "history.db")
    message = told(history, HistoryOpened).message
    assert ("takes longer" in message) != request.param
    yield history
    history.close()


def test_words_are_found_within_words_in_any_case(searched):
    one = add_talk(searched, "The Quick brown fox", "jumps over 50% of\nlazy_dogs", title="Animals")
    two = add_talk(searched, "Что такое ЭНТРОПИЯ?", title="Физика")
    three = add_talk(searched, "오늘 서울 날씨 어때요?", "비가 옵니다", title="한국어 대화")
    four = add_talk(searched, "今天天气怎么样", "北京下雨", title="中文")
    assert searched.flush()
    for query, talks in {
        "quick": {one}, "UICK BRO": {one}, "fox quick": {one}, "fox jumps": set(), "50%": {one},
        "lazy_dogs": {one}, "lazyXdogs": set(), "%": {one}, "_": {one}, "animals": {one},
        "физика": {two}, "такое": {two}, "날씨": {three}, "울 날씨 오": {three}, "옵니다": {three},
        "한국어": {three}, "天气": {four}, "今天天气": {four}, "下": {four}, "雨天": set(),
        "": set(), "  ": set(), "\x00": set(),
    }.items():  # fmt: skip
        assert talks_with(searched, query) == talks, query


def test_the_index_knows_the_case_of_all_scripts(history):
    talk = add_talk(history, "Что такое ЭНТРОПИЯ?")
    assert history.flush()
    assert talks_with(history, "энтропия") == {talk}


@pytest.mark.parametrize(
    "query",
    ['"', '""" OR "', "a AND b", "NEAR(x y)", "text:word", "wor*", "^word", "-word", "(((", "\\",
     "word\x00word", "\ud800", "'; DROP TABLE messages; --", "x" * 100_000, "w " * 5000],
)  # fmt: skip
def test_nothing_that_is_typed_is_syntax(history, query):
    add_talk(history, "word", "another")
    talk = add_talk(history, f"before {query} behind", title="odd")
    assert history.flush()
    found = history.search(query, seconds=PATIENCE)
    if len(query) < 40 and query.isprintable():
        assert talk in {place.conversation for place in found.found}


@given(st.text(max_size=30))
def test_words_of_any_query_are_few_and_fit(query):
    words = words_of(query)
    assert len(words) <= 16 and all(word and word.isprintable() for word in words)


def test_snippets_show_the_words(history):
    talk = add_talk(history, "x " * 200 + "Needle in a\nhaystack " + "y " * 200)
    assert history.flush()
    (found,) = history.search("needle stack").found
    message = history.conversation(talk).messages[0]
    assert (found.message, found.role, found.conversation) == (message.id, "user", talk)
    assert [found.snippet[a:b] for a, b in found.marks] == ["Needle", "stack"]
    assert "\n" not in found.snippet and len(found.snippet) < 200
    assert found.snippet.startswith("…") and found.snippet.endswith("…")


@given(st.text(), st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=4))
def test_snippets_of_anything_are_a_line(text, words):
    line, marks = snippet_of(text, words)
    assert all(0 <= begin < end <= len(line) for begin, end in marks) and "\n" not in line


def test_titles_come_first_and_the_newest_next(history):
    talks = [add_talk(history, f"word number {number}") for number in range(5)]
    titled = add_talk(history, "other", title="A word")
    answering = history.begin_answer(talks[0], None, RUN)
    history.write_answer(answering, "the last word so far")
    assert history.flush()
    found = history.search("word").found
    in_titles = [place.conversation for place in found if place.message is None]
    assert titled in in_titles and found[0].message is None
    said = [place for place in found if place.message is not None]
    assert said[0].message == answering.id  # an answer that is being written is in no index
    assert [place.conversation for place in said[1:]] == talks[::-1]


def test_deleted_conversations_are_not_found(history):
    talk = add_talk(history, "word")
    history.delete([talk])
    assert history.flush()
    assert history.search("word").found == ()
    history.restore([talk])
    assert history.flush()
    assert talks_with(history, "word") == {talk}


def test_a_limit_and_a_time_are_said(history):
    for number in range(30):
        add_talk(history, f"word {number}", title=f"{number}")
    assert history.flush()
    some = history.search("word", limit=10)
    assert len(some.found) == 10 and not some.complete
    all_of_them = history.search("word", limit=30)
    assert len(all_of_them.found) == 30 and all_of_them.complete
    for number in range(200):
        add_talk(history, "x" * 4000, title=f"{number}")
    assert history.flush()
    assert not history.search("qq", seconds=0.0).complete


def test_an_index_follows_when_sqlite_has_learned_of_it(tmp_path, monkeypatch):
    """Made without one, then opened with, without, and with one again."""
    path = tmp_path / "history.db"
    made = []
    for possible in (False, True, False, True):
        monkeypatch.setattr(schema, "has_trigrams", lambda connection, now=possible: now)
        history = History(path)
        assert history.wait_until_open()
        made.append(add_talk(history, f"needle {len(made)}"))
        assert history.flush()
        assert talks_with(history, "needle") == set(made)
        with history._reading() as connection:
            assert schema.is_indexed(connection) == possible
        history.delete(made[:1])
        history.restore(made[:1])
        assert history.close()
