"""The catalogue of saved caches: what belongs to which conversation, within a budget."""

import pytest

from llm_lite.core.errors import RequestError
from llm_lite.core.history import CacheCatalogue
from tests.core.history.talks import add_talk


@pytest.fixture
def catalogue(history, tmp_path):
    folder = tmp_path / "caches"
    folder.mkdir()
    return CacheCatalogue(history, folder, budget=1000)


def save(catalogue: CacheCatalogue, talk: int, file: str, size: int, model: str = "m"):
    (catalogue.folder / file).write_bytes(b"x" * size)
    return catalogue.add(talk, None, file, size, model)


def names(catalogue: CacheCatalogue) -> list[str]:
    return sorted(path.name for path in catalogue.folder.iterdir())


def test_the_least_recently_used_go_first(history, catalogue):
    talks = [add_talk(history, f"{number}?") for number in range(4)]
    for place, talk in enumerate(talks[:3]):
        assert save(catalogue, talk, f"{place}.kv", 300) == ()
    catalogue.use(next(cache for cache in catalogue.caches() if cache.file == "0.kv"))
    gone = save(catalogue, talks[3], "3.kv", 300)
    assert [cache.file for cache in gone] == ["1.kv"]
    assert names(catalogue) == ["0.kv", "2.kv", "3.kv"]
    assert history.flush()
    again = CacheCatalogue(history, catalogue.folder, budget=1000)
    assert [cache.file for cache in again.caches()] == ["2.kv", "0.kv", "3.kv"]
    again.budget = 0
    assert len(again.enforce()) == 3 and names(catalogue) == []


def test_files_of_purged_conversations_go(history, catalogue):
    one, two = add_talk(history, "One?"), add_talk(history, "Two?")
    save(catalogue, one, "1.kv", 10)
    save(catalogue, two, "2.kv", 10)
    assert history.flush()
    history.delete([one])
    history.purge()
    assert history.flush()
    assert [cache.file for cache in catalogue.enforce()] == ["1.kv"]
    assert history.flush()
    again = CacheCatalogue(history, catalogue.folder, budget=1000)
    assert again.enforce() == ()
    assert names(catalogue) == ["2.kv"]


def test_a_file_that_is_written_again_counts_once(history, catalogue):
    talk = add_talk(history, "One?")
    save(catalogue, talk, "1.kv", 400)
    save(catalogue, talk, "1.kv", 500)
    assert history.flush()
    again = CacheCatalogue(history, catalogue.folder, budget=1000)
    assert [(cache.file, cache.bytes) for cache in again.caches()] == [("1.kv", 500)]


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../history.db", "/etc/passwd", "a/b", "a\\b", "a\0"]
)
def test_nothing_outside_the_folder_is_touched(history, catalogue, name):
    talk = add_talk(history, "One?")
    with pytest.raises(RequestError):
        catalogue.add(talk, None, name, 10, "m")
