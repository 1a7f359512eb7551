"""Presets: kept, chosen, brought and taken as files; files of others are read with care."""

import json
import math

import pytest

from llm_lite.core.errors import FileError
from llm_lite.core.messages import (
    EngineOptions,
    Interventions,
    Reconfigure,
    SamplingOptions,
    SetInterventions,
)
from llm_lite.core.messages.interventions import Scale, Shift
from llm_lite.core.records import replace
from llm_lite.desktop.features.presets.host import PresetFiles, file_name, read, write
from llm_lite.desktop.features.presets.model import (
    ChoosePreset,
    DeletePreset,
    ExportPreset,
    ImportPreset,
    ListPresets,
    Preset,
    SavePreset,
    UsePreset,
)
from llm_lite.desktop.features.program.act import act
from llm_lite.desktop.features.program.state import AppState
from tests.changes import weighed
from tests.desktop.engine.model import MODEL

FULL = Preset(
    "mine",
    "Be brief.\nBe kind.",
    SamplingOptions(
        temperature=1.0, stop=("\n\n", "User:"), logit_bias=((5, -100.0),), json_schema="{}", seed=3
    ),
    "int8",
    Interventions(
        (
            Scale("layers.0.attention.heads", 0.0, 1),
            Shift("layers.1.attention.output", (0.5, -1.0)),
        ),
        "Another",
    ),
)


def test_what_is_written_is_read_again(tmp_path):
    path = tmp_path / "mine.json"
    write(path, FULL)
    assert read(path) == FULL
    write(path, Preset("mine"))
    assert read(path) == Preset("mine")


def test_they_are_kept_chosen_and_deleted(tmp_path):
    files = PresetFiles(tmp_path / "presets")
    assert files.names() == ()
    state = AppState(system_prompt="Sing.", sampling=SamplingOptions(temperature=1.5))
    assert files.do(SavePreset("a / b"), state) == [ListPresets(("a - b",), "a - b")]
    listed, used = files.do(ChoosePreset("a - b"), AppState())
    assert listed == ListPresets(("a - b",), "a - b")
    assert isinstance(used, UsePreset) and used.preset.system_prompt == "Sing."
    out = tmp_path / "out.json"
    files.do(ExportPreset(str(out)), replace(state, preset="a - b"))
    assert files.do(DeletePreset("a - b"), state) == [ListPresets((), "")]
    assert files.do(ImportPreset(str(out)), state)[0] == ListPresets(("a - b",), "a - b")


@pytest.mark.parametrize(
    ("name", "kept"), [("../../x", "x"), ("a/b\\c", "a-b-c"), ("...", "preset"), ("日本", "日本")]
)
def test_a_name_stays_within_the_folder(name, kept):
    assert file_name(name) == kept


def test_an_older_preset_has_gains(tmp_path):
    """They fit a model that has such heads."""
    path = tmp_path / "old.json"
    path.write_text(json.dumps({"name": "old", "gains": [[1, 0.5], [0, 1]]}))
    old = read(path)
    assert old.interventions == Interventions(
        (Scale("layers.0.attention.heads", 0.5, 1), Scale("layers.1.attention.heads", 0.0, 0))
    )
    state, _ = act(UsePreset(old), AppState(model=MODEL), 0.0)
    assert state.steering.interventions == replace(old.interventions, model=MODEL.name)
    small = replace(MODEL, layers=1)
    state, _ = act(UsePreset(old), AppState(model=small), 0.0)
    assert not state.steering.interventions and "another model" in state.notices[-1].text


BROKEN = {
    "[]": "expected a JSON object",
    '{"name": 5}': "name: expected a short text",
    '{"nmae": "a"}': "nmae: is not a known field",
    '{"system_prompt": []}': "system_prompt: expected",
    '{"mode": "int3"}': "mode: expected one of as-stored",
    '{"sampling": 5}': "sampling: expected an object",
    '{"sampling": {"temperature": "hot"}}': "sampling.temperature: cannot be",
    '{"sampling": {"temperature": 1e400}}': "not valid JSON",
    '{"sampling": {"top_k": -2}}': "sampling.top_k: cannot be",
    '{"sampling": {"stop": "a"}}': "sampling.stop: expected a list",
    '{"sampling": {"logit_bias": [[1]]}}': "sampling.logit_bias: expected a list",
    '{"sampling": {"tempreature": 1}}': "sampling has a field 'tempreature'",
    '{"interventions": {"changes": [{"kind": "bend"}]}}': "interventions.changes[0].kind",
    '{"gains": [1]}': "gains[0]: expected a list, found 1",
    '{"gains": [[1], ["a"]]}': "gains[1][0]: expected a number from -100 to 100, found 'a'",
    '{"gains": [[1e99]]}': "gains[0][0]: expected a number from -100 to 100, found 1e+99",
}


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_file_is_named_with_its_field(tmp_path, text):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(FileError) as error:
        read(path)
    assert "x.json" in str(error.value) and BROKEN[text] in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there_is_a_sentence(tmp_path):
    with pytest.raises(FileError, match="no such file"):
        PresetFiles(tmp_path).do(ImportPreset(str(tmp_path / "no.json")), AppState())


def test_using_one_changes_all_that_it_holds():
    changes = weighed(((0.5,) * MODEL.heads,) * MODEL.layers, MODEL)
    state = AppState(model=MODEL, options=EngineOptions())
    state, commands = act(UsePreset(replace(FULL, interventions=changes)), state, 0.0)
    assert (state.system_prompt, state.sampling) == (FULL.system_prompt, FULL.sampling)
    assert state.options.mode == "int8"
    assert [type(command) for command in commands][:1] == [Reconfigure]
    assert SetInterventions(changes) in commands


def test_interventions_of_another_model_are_left_out_with_a_sentence():
    state, commands = act(UsePreset(FULL), AppState(model=MODEL), 0.0)
    assert not any(isinstance(command, SetInterventions) for command in commands)
    assert "are for another model" in state.notices[-1].text
    assert math.isfinite(state.sampling.temperature)
