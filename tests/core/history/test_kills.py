"""A process that is killed loses at most what it said last; what was acknowledged is there."""

from concurrent.futures import ThreadPoolExecutor

from tests.core.history.killing import kill_once, lives

KILLS = 10
GRACE = 1.5  # seconds; `python -m tools.cross.history_kills` allows one


def test_nothing_but_the_last_words_is_lost(tmp_path):
    def kill(number: int):
        path, late = tmp_path / f"{number}.db", number % 2 == 0
        return kill_once(path, number, times[number], GRACE, once_flushed=late)

    times = lives(1, KILLS, 0.4, 2.0)
    with ThreadPoolExecutor(5) as pool:
        left = list(pool.map(kill, range(KILLS)))
    # However slow the machine is, half of them have acknowledged something before they end.
    assert sum(kill.finished for kill in left) >= 5
    assert sum(kill.streamed for kill in left) >= 5


def test_a_file_outlives_one_kill_after_the_other(tmp_path):
    left = [kill_once(tmp_path / "history.db", 100 + n, 0.3, GRACE) for n in range(3)]
    assert left[0].messages < left[-1].messages
