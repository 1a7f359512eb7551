"""The runner sees each way in which a case can fail, and no other."""

import pytest

from tests.fuzz.door import problem_of_sentence
from tests.fuzz.doors import planted
from tests.fuzz.runner import fuzz

EXPECTED = {
    "ok": "ok",
    "sentence": "sentence",
    "raise": "traceback",
    "panic": "traceback",
    "None": "traceback",
    "repr": "traceback",
    "two lines": "traceback",
    "segfault": "signal",
    "exit": "signal",
    "loop": "hang",
    "wait": "hang",
    "allocate": "memory",
    "grow": "memory",
    "nan": "non-finite",
    "warned": "ok",
    "outside": "outside",
    "spin": "ok",
}


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    keep = tmp_path_factory.mktemp("kept")
    return fuzz("planted", len(EXPECTED), wall_seconds=1.0, keep=keep)


def test_each_planted_failure_is_seen(report):
    assert tuple(EXPECTED) == planted.KINDS
    found = {planted.KINDS[f.number]: f.outcome for f in report.failures}
    assert found == {k: v for k, v in EXPECTED.items() if v not in ("ok", "sentence")}
    assert report.cases == len(EXPECTED)
    assert (report.outcomes["ok"], report.outcomes["sentence"]) == (3, 1)


def test_a_failure_is_kept_with_the_command_that_repeats_it(report):
    for failure in report.failures:
        assert (failure.kept / "case.json").is_file()
        assert failure.repeat == f"python -m tests.fuzz planted --case {failure.number}"
    raised = next(f for f in report.failures if f.number == 2)
    again = fuzz("planted", 1, first=2)
    assert [f.detail for f in again.failures] == [raised.detail]
    assert "KeyError" in raised.detail


def test_nothing_was_written_outside(report):
    assert report.outcomes["outside"] == 1
    assert not list(planted.Path(planted.__file__).parent.glob("planted"))


def test_a_case_that_computes_is_waited_for():
    """On a busy machine the same work takes longer: the processor's time is what counts."""
    report = fuzz("planted", 1, first=planted.KINDS.index("spin"), wall_seconds=0.05)
    assert report.outcomes == {"ok": 1}


def test_cases_are_shared_by_processes(tmp_path):
    both = fuzz("planted", 3, jobs=2)
    assert both.cases == 3
    assert [f.number for f in both.failures] == [2]


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "x.gguf: cannot be written: None",
        "x.gguf: ValueError('y')",
        "a sentence\nand another",
        "'x'",
        "thread panicked at src/lib.rs",
        "a colour \x1b[31m in a sentence",
    ],
)
def test_what_is_no_sentence(text):
    assert problem_of_sentence(text)


@pytest.mark.parametrize(
    "text",
    [
        "x.gguf: block_count: expected 1 to 4096, found -1",
        "the chat template fails: 'None' has no attribute 'x'",
        "None.gguf is quoted 'None' here"[5:],
    ],
)
def test_what_is_a_sentence(text):
    assert problem_of_sentence(text) == ""


def test_words_of_a_file_are_not_held_against_us():
    text = "the chat template refuses this: None"
    assert problem_of_sentence(text)
    assert problem_of_sentence(text, ("refuses this: ",)) == ""
    assert problem_of_sentence(f"None: {text}", ("refuses this: ",))
    assert problem_of_sentence(f"{text}\nforged line", ("refuses this: ",))
