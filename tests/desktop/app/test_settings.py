"""Settings survive whatever is in the file and whatever the disk does."""

import json
import os
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from llm_lite.core.messages import EngineOptions, SamplingOptions
from llm_lite.core.records import replace
from llm_lite.desktop.app.layout_text import LAYOUT_VERSION
from llm_lite.desktop.app.settings import (
    DELAY,
    LARGEST_FILE,
    SettingsStore,
    load,
    parse,
    remember,
    restore,
    save,
)
from llm_lite.desktop.features.attachments.state import DraftFiles
from llm_lite.desktop.features.attention.state import AttentionChoice
from llm_lite.desktop.features.program.settings import Settings, WindowPlace
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.registry import FEATURES
from llm_lite.desktop.features.tokens.state import XRay

LAYOUT = "[Window][chat]\nPos=0,0\nSize=300,200\n"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "config" / "settings.json"


def write(path, text):
    path.parent.mkdir(parents=True)
    path.write_text(text, "utf-8")


def test_without_a_file_the_defaults_of_the_program_count(path):
    settings, problems = load(path)
    assert problems == []
    assert settings.system_prompt
    assert not path.parent.exists()


def test_what_is_saved_is_loaded(path):
    settings = Settings(
        theme="light",
        font_size=18.0,
        window=WindowPlace(-5, 7, 900, 600, True),
        sampling=SamplingOptions(temperature=0.0, seed=3),
        options=EngineOptions(backend="cpu", device=1, keys="fp32"),
        system_prompt="안녕 \ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
        recent=("/a.gguf", "/b.gguf"),
        layout=LAYOUT,
        layout_version=4,
        unknown={"from": {"a": "later version"}},
    )
    assert save(settings, path) == ""
    assert load(path) == (settings, [])
    assert [p.name for p in path.parent.iterdir()] == ["settings.json"]


def test_minus_one_is_all_or_none_chosen(path):
    sampling = {"seed": -1, "top_k": -1, "penalty_window": -1, "max_new_tokens": -1}
    write(path, json.dumps({"sampling": {**sampling, "temperature": -1}}))
    settings, (problem,) = load(path)
    found = settings.sampling
    assert (found.seed, found.top_k) == (None, 0)
    assert found.penalty_window == found.max_new_tokens == 1 << 30
    assert "sampling.temperature" in problem


def test_unknown_keys_are_written_back(path):
    write(path, '{"theme": "light", "later": [1, 2]}')
    settings, _ = load(path)
    save(settings, path)
    assert json.loads(path.read_text("utf-8"))["later"] == [1, 2]


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", '"x"', "\x00", "[" * 100_000, "{'a': 1}"])
def test_malformed_file_is_set_aside(path, text):
    write(path, text)
    settings, (problem,) = load(path)
    assert settings == load(path.with_name("none.json"))[0]
    assert "settings.json.broken" in problem
    assert not path.exists()
    assert path.with_name("settings.json.broken").read_text("utf-8") == text


def test_what_was_set_aside_before_stays(path):
    for number, name in enumerate(["settings.json.broken", "settings.json.broken-2"]):
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"[{number}]")
        _, (problem,) = load(path)
        assert f"it was set aside as {name};" in problem
    assert path.with_name("settings.json.broken").read_text("utf-8") == "[0]"
    assert path.with_name("settings.json.broken-2").read_text("utf-8") == "[1]"


def test_a_link_to_settings_stays_one(path, tmp_path):
    path.parent.mkdir()
    place = tmp_path / "dotfiles.json"
    place.write_text("{}")
    place.chmod(0o640)
    path.symlink_to(place)
    assert save(Settings(system_prompt="kept"), path) == ""
    assert path.is_symlink() and place.stat().st_mode & 0o777 == 0o600, "a draft is in it"
    assert load(place)[0].system_prompt == "kept"


def test_file_that_is_not_text_is_set_aside(path):
    path.parent.mkdir()
    path.write_bytes(b"\xff\xfe{}")
    _, (problem,) = load(path)
    assert "not valid settings" in problem


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ({"theme": "pink"}, "theme"),
        ({"font_size": "big"}, "font_size"),
        ({"font_size": 1e9}, "font_size"),
        ({"font_size": True}, "font_size"),
        ({"font_size": 10**400}, "font_size"),
        ({"sampling": {"temperature": -1}}, "sampling.temperature"),
        ({"sampling": {"top_k": 2.5}}, "sampling.top_k"),
        ({"sampling": {"seed": "x"}}, "sampling.seed"),
        ({"options": {"backend": "CUDA!"}}, "options.backend"),
        ({"options": []}, "options"),
        ({"window": {"width": 0}}, "window.width"),
        ({"window": {"x": 1 << 40}}, "window.x"),
        ({"looks": {"by": "magic"}}, "looks.by"),
        ({"looks": {"colors": "jet"}}, "looks.colors"),
        ({"looks": {"high": 0.0}}, "looks.high"),
        ({"system_prompt": 3}, "system_prompt"),
    ],
)
def test_one_wrong_value_costs_only_itself(data, name):
    problems = []
    settings = parse({"layout_version": 9, **data}, Settings(), problems)
    assert replace(settings, layout_version=0, unknown={}) == Settings()
    assert settings.layout_version == 9
    assert len(problems) == 1
    assert name in problems[0]


@pytest.mark.parametrize(
    ("recent", "kept", "told"),
    [
        ([f"/m/{n}.gguf" for n in range(10_000)], 8, 0),
        (["/a.gguf", 3, None, ["/b"], "x" * 5000, "nul\0.gguf"], 1, 1),
        ("/a.gguf", 0, 1),
        ({"0": "/a.gguf"}, 0, 1),
        (7, 0, 1),
    ],
)
def test_recent_paths_are_a_few_that_can_be_opened(recent, kept, told):
    problems = []
    assert len(parse({"recent": recent}, Settings(), problems).recent) == kept
    assert len(problems) == told


def test_a_path_that_is_no_utf_8_is_remembered(path):
    assert save(Settings(recent=("/caf\udce9.gguf",), theme="light"), path) == ""
    assert load(path) == (Settings(recent=("/caf\udce9.gguf",), theme="light"), [])
    path.read_bytes().decode("utf-8")


def test_text_is_repaired_and_what_is_too_long_is_named(path):
    write(path, '{"system_prompt": "a\\ud800\\u0000\\nb", "theme": "light"}')
    settings, problems = load(path)
    assert settings.system_prompt == "a\\ud800\\x00\nb"
    assert problems == []
    huge = {"system_prompt": "x" * (2 << 20), "layout": "[Window]\n" * 100_000, "theme": "x" * 999}
    parsed = parse(huge, Settings(), problems)
    assert parsed == Settings()
    assert len(problems) == 3 and all(len(problem) < 200 for problem in problems)


@pytest.mark.parametrize("value", [[0] * 100_000, {"a": {"b": 1}}, 10**4000, 1e308, "inf", True])
def test_wildly_wrong_numbers_are_named_in_a_short_sentence(value):
    problems = []
    data = {"font_size": value, "sampling": {"top_p": value}, "window": {"y": value}}
    assert parse(data, Settings(), problems) == Settings()
    assert len(problems) == 3 and all(len(problem) < 200 for problem in problems)


def test_a_file_of_many_megabytes_is_set_aside(path):
    write(path, '{"theme": "light", "later": "' + "x" * (LARGEST_FILE + 1) + '"}')
    settings, (problem,) = load(path)
    assert settings.theme == "dark"
    assert f"has more than {LARGEST_FILE} bytes" in problem
    assert "set aside" in problem


@pytest.mark.skipif(os.name != "posix", reason="there are no FIFOs")
def test_a_fifo_in_place_of_the_file_is_not_waited_for(path):
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    settings, (problem,) = load(path)
    assert settings.theme == "dark"
    assert "not a regular file" in problem


@pytest.mark.parametrize("value", [None, {"a": 1}, "x" * 90])
def test_what_a_setting_was_is_said_as_json_has_it(value):
    problems = []
    parse({"options": {"threads": value}}, Settings(), problems)
    (problem,) = problems
    expected = "settings: options.threads: expected a whole number from 0 to 1024, found "
    assert problem.startswith(expected)
    assert "None" not in problem
    assert len(problem) < 200


def test_settings_too_deep_to_be_written_again_are_set_aside(path):
    """Python reads deeper objects than it writes: all later saving would fail."""
    write(path, '{"later": ' + "[" * 900 + "]" * 900 + "}")
    settings, (problem,) = load(path)
    assert "more than 64 levels" in problem
    assert settings.unknown == {}
    assert save(settings, path) == ""


def test_a_file_without_an_end_is_not_read(path):
    path.parent.mkdir()
    path.symlink_to("/dev/zero")
    settings, (problem,) = load(path)
    assert "the defaults are used" in problem
    assert settings == load(path.with_name("none.json"))[0]
    assert path.is_symlink()
    path.unlink()
    path.touch()
    os.truncate(path, 1 << 33)
    assert f"has more than {LARGEST_FILE} bytes" in load(path)[1][0]


def test_nan_is_refused(path):
    write(path, '{"font_size": NaN}')
    settings, problems = load(path)
    assert settings.font_size == 15.0
    assert len(problems) == 1


def test_unreadable_file_is_left_alone(path):
    path.mkdir(parents=True)
    settings, (problem,) = load(path)
    assert settings.theme == "dark"
    assert "cannot be read" in problem
    assert path.is_dir()


def full(*_arguments, **_options):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("call", ["fsync", "replace", "write"])
def test_full_disk_keeps_the_old_file(path, monkeypatch, call):
    assert save(Settings(system_prompt="old"), path) == ""
    with monkeypatch.context() as patch:
        patch.setattr(os, call, full)
        problem = save(Settings(system_prompt="new"), path)
    assert "No space left" in problem
    assert "Errno" not in problem
    assert str(path) in problem
    assert load(path)[0].system_prompt == "old"
    assert [p.name for p in path.parent.iterdir()] == ["settings.json"]


def test_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    assert "could not be saved" in save(Settings(), tmp_path / "file" / "settings.json")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folder_without_permission(path):
    path.parent.mkdir()
    path.parent.chmod(0o500)
    assert "could not be saved" in save(Settings(), path)


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=9)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner)),
    max_leaves=6,
)
keys = st.sampled_from(["theme", "window", "sampling", "options", "recent", "layout", "zzz"])
inner_keys = st.sampled_from(["x", "width", "seed", "top_k", "temperature", "backend", "maximized"])


@hypothesis_settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(
        keys, st.one_of(json_values, st.dictionaries(inner_keys, json_values)), max_size=5
    )
)
def test_any_object_parses_and_what_it_gives_is_valid(data):
    parsed = parse(data, Settings(), [])
    problems = []
    again = parse(json.loads(json.dumps(data)), parsed, problems)
    assert again.theme in ("dark", "light")
    assert 480 <= again.window.width <= 16384
    assert 0 <= again.sampling.temperature <= 100


def test_state_is_remembered_and_restored():
    state = AppState(theme="light", font_size=20.0, system_prompt="x", recent=("/m",))
    xray = XRay(by="rollout", reverse=True, probabilities=True)
    look = AttentionChoice(colors="magma", logarithmic=False, high=0.5, exclude_first=True)
    state = replace(state, xray=xray, attention=look)
    again = restore(remember(state, Settings()), AppState())
    assert again == state


def test_keeper_writes_a_moment_after_the_last_change(path):
    keeper, state = SettingsStore(path), AppState(theme="light")
    place = WindowPlace()
    keeper.update(state, place, 0.0, pytest.fail)
    keeper.update(state, place, DELAY / 2, pytest.fail)
    assert not path.exists()
    keeper.update(state, place, DELAY + 0.1, pytest.fail)
    assert load(path)[0].theme == "light"


def test_keeper_keeps_the_layout_at_the_end(path):
    keeper = SettingsStore(path)
    keeper.update(AppState(), WindowPlace(), 0.0, pytest.fail, layout=LAYOUT, at_once=True)
    assert (load(path)[0].layout, load(path)[0].layout_version) == (LAYOUT, LAYOUT_VERSION)


def test_keeper_complains_once_and_tries_again(path, monkeypatch):
    keeper, said = SettingsStore(path), []
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        for number in range(4):
            state = AppState(font_size=12.0 + number)
            keeper.update(state, WindowPlace(), number * 10.0, said.append, at_once=True)
    assert len(said) == 1
    keeper.update(AppState(theme="light"), WindowPlace(), 90.0, pytest.fail, at_once=True)
    assert load(path)[0].theme == "light"


def test_lists_of_the_sampling_are_kept_and_checked(tmp_path):
    path = tmp_path / "settings.json"
    sampling = SamplingOptions(stop=("\n\n", "User:"), logit_bias=((5, -100.0),), grammar="a")
    assert save(replace(Settings(), sampling=sampling), path) == ""
    assert load(path)[0].sampling == sampling
    wrong = {"stop": ["a", ""], "logit_bias": [[1, "x"]], "typical_p": 2}
    path.write_text(json.dumps({"sampling": wrong}))
    settings, problems = load(path)
    assert settings.sampling == SamplingOptions()
    told = " ".join(problems)
    for sentence in (
        "sampling.stop: expected a list of at most 32 texts",
        "sampling.logit_bias: expected a list of at most 1024 pairs",
        "sampling.typical_p: expected a number from 0 to 1, found 2; 1.0 is used instead.",
    ):
        assert sentence in told


def test_what_was_pasted_into_a_draft_is_there_again(path):
    """Of a chat that has not begun; a text without a file is nowhere else."""
    files = DraftFiles().with_text("Pasted text", "x" * 5000).with_text("another", "\t안녕\n")
    files = files.with_paths((("/a/notes.md", "notes.md"),))
    assert save(remember(replace(AppState(), files=files), Settings()), path) == ""
    settings, problems = load(path)
    assert problems == []
    found = {
        file.name: (file.path, file.attached and file.attached.text)
        for file in restore(settings, AppState()).files.files
    }
    assert found == {
        "Pasted text": ("", "x" * 5000),
        "another": ("", "\t안녕\n"),
        "notes.md": ("/a/notes.md", None),
    }


def test_texts_of_a_draft_that_are_none_are_named(path):
    write(path, json.dumps({"draft_texts": [["a", "b"], ["c"], 3, ["d", "e" * (5 << 20)]]}))
    settings, problems = load(path)
    assert settings.draft_texts == (("a", "b"),)
    assert problems == ["settings: draft_texts: 3 entries are no texts."]


def test_drafts_that_few_models_have_are_not_kept():
    before = replace(Settings(), options=EngineOptions(speculate="lookup"))
    state = replace(AppState(), options=EngineOptions(speculate="slice", threads=2))
    kept = remember(state, before).options
    assert (kept.speculate, kept.threads) == ("lookup", 2)


def test_the_window_learns_drafts_until_it_is_told_not_to(tmp_path):
    """It keeps conversations anyway; without a window nothing is learned unasked."""
    path = tmp_path / "settings.json"
    first, problems = load(path)
    assert (first.options.learned_drafts, problems) == ("learn", [])
    assert EngineOptions().learned_drafts == "off"
    save(replace(first, options=replace(first.options, learned_drafts="off")), path)
    assert load(path)[0].options.learned_drafts == "off"
    path.write_text('{"options": {"learned_drafts": "everything"}}', "utf-8")
    again, problems = load(path)
    assert again.options.learned_drafts == "learn" and "learned_drafts" in problems[0]


def test_each_setting_is_of_one_feature():
    """A field that no feature keeps and restores would stay at its default; those of the window
    are of the program that opens it."""
    restored = Counter()
    state = AppState()
    kept = remember(state, Settings())
    for feature in FEATURES:
        restored.update(list(feature.settings))
        if feature.remember is not None:
            restored.update(list(feature.remember(state, kept)))
    assert set(restored.values()) == {1}
    window = {"window", "layout", "layout_version", "unknown"}
    assert set(restored) == set(Settings.__struct_fields__) - window
