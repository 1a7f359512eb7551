"""The sampling panel: its folded groups, and presets."""

import pytest
from imgui_bundle import imgui

from llm_lite.core.messages import SamplingOptions
from llm_lite.core.messages.sampling_options import OPTIONS
from llm_lite.core.records import replace
from llm_lite.desktop.features.presets.model import ChoosePreset, ImportPreset, SavePreset
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.sampling import view
from llm_lite.desktop.features.sampling.lists import bias_lines, biases_of, stop_lines, stops_of

SIZE = (1280, 1500)


@pytest.fixture
def panel(headless):
    def opened(state=None):
        one = headless(state or AppState(), size=SIZE)
        one.driver.click("rail.sampler")
        return one

    return opened


def test_groups_are_folded_and_open_by_a_click(panel):
    one = panel()
    for group, inside in (
        ("filters", "top_k"),
        ("penalties", "presence_penalty"),
        ("stop", "stop_strings"),
        ("form", "form.schema"),
    ):
        assert not one.driver.shows(f"sampler.{inside}")
        one.driver.click(f"sampler.{group}")
        assert one.driver.shows(f"sampler.{inside}")
        one.driver.click(f"sampler.{group}")


def test_what_depends_on_something_off_is_not_there(panel):
    one = panel()
    one.driver.click("sampler.filters")
    assert not one.driver.shows("sampler.xtc_threshold")
    one.driver.click("sampler.xtc_probability")
    assert one.state.sampling.xtc_probability > 0
    assert one.driver.shows("sampler.xtc_threshold")
    assert one.state.sampling.xtc_threshold == SamplingOptions().xtc_threshold


def test_every_option_of_a_group_is_drawn_where_what_it_needs_is_on(panel):
    needed = {name for row in OPTIONS.values() for name in row.needs}
    on = {name: OPTIONS[name].slider[1] for name in needed}
    one = panel(AppState(sampling=SamplingOptions(**on)))
    for group in ("filters", "penalties"):
        one.driver.click(f"sampler.{group}")
        rows = [row for row in OPTIONS.values() if row.group == group]
        assert rows and all(one.driver.shows(f"sampler.{row.name}") for row in rows)
        one.driver.click(f"sampler.{group}")


def test_a_value_beyond_its_slider_stays_until_it_is_moved(panel):
    """The sampler takes more than what is useful, and so do settings, presets and the terminal."""
    sampling = SamplingOptions(temperature=50.0, top_k=5000, repetition_penalty=0.5)
    one = panel(AppState(sampling=sampling))
    for group in ("filters", "penalties"):
        one.driver.click(f"sampler.{group}")
    assert one.state.sampling == sampling
    one.driver.click("sampler.temperature")
    assert 0.05 <= one.state.sampling.temperature <= 2.0


def test_stop_strings_and_biases_are_typed_in_lines(panel):
    one = panel()
    one.driver.click("sampler.stop")
    one.driver.click("sampler.stop_strings")
    one.driver.type("User:")
    one.driver.press(imgui.Key.enter)
    one.driver.type("a\\n")
    assert one.state.sampling.stop == ("User:", "a\n")
    one.driver.click("sampler.logit_bias")
    one.driver.type("198=-100")
    assert one.state.sampling.logit_bias == ((198, -100.0),)


def test_a_schema_is_typed_and_goes_with_its_form(panel):
    one = panel()
    one.driver.click("sampler.form")
    one.driver.click("sampler.form.schema")
    one.driver.click("sampler.form.text")
    one.driver.type('{"type": "integer"}')
    assert one.state.sampling.json_schema == '{"type": "integer"}'
    one.driver.click("sampler.form.free")
    assert one.state.sampling.json_schema == ""


def test_keywords_of_a_schema_that_are_left_to_the_model_are_named(panel, monkeypatch):
    told = []
    monkeypatch.setattr(view, "wrapped", lambda ui, words, *how: told.append(words))
    for schema, said in (('{"uniqueItems": true, "if": 1}', True), ('{"type": "integer"}', False)):
        one = panel(AppState(sampling=SamplingOptions(json_schema=schema)))
        told.clear()
        one.driver.click("sampler.form")
        assert ("Left to the model: uniqueItems, if" in told) == said


def test_presets_are_asked_for(panel):
    one = panel(replace(AppState(), presets=("calm", "wild")))
    one.driver.click("presets.list")
    one.driver.click("presets.list.wild")
    assert one.did(ChoosePreset) == [ChoosePreset("wild")]
    one.driver.click("presets.more")
    one.driver.click("presets.name")
    one.driver.type("mine")
    one.driver.click("presets.save")
    assert one.did(SavePreset) == [SavePreset("mine")]
    one.driver.click("presets.path")
    one.driver.type("/some/preset.json")
    one.driver.click("presets.import")
    assert one.did(ImportPreset) == [ImportPreset("/some/preset.json")]


@pytest.mark.parametrize(
    "stop", [(), ("a",), ("\n\nUser:", "\t"), ("\\n", "\\", "a\\\\nb", "\\\n")]
)
def test_stop_strings_come_back_from_their_lines(stop):
    assert stops_of(stop_lines(stop)) == (stop, "")


def test_what_is_no_bias_is_named_by_its_line():
    assert biases_of(bias_lines(((1, -100.0), (7, 0.5)))) == (((1, -100.0), (7, 0.5)), "")
    assert biases_of("1=2\n\nx=1")[0] == ((1, 2.0),)
    assert biases_of("1=2\n\nx=1")[1].startswith("Line 3: expected a token id")
    for line in ("5", "5=nan", "5=101", "-5=1", "٥=1", "9999999999=1"):
        assert biases_of(line)[1]
    assert stops_of("a\n" * 40)[1].startswith("At most 32")


@pytest.mark.parametrize("form", [{"json_schema": "{}"}, {"grammar": 'root ::= "a"'}])
def test_what_answers_keep_to_is_said_beside_the_input(headless, form):
    """It stays after a restart, when nobody thinks of it."""
    one = headless(AppState(sampling=SamplingOptions(**form)))
    one.driver.click("chat.form")
    assert one.driver.shows("sampler")
    free = headless(AppState())
    assert not free.driver.shows("chat.form")


def test_a_seed_of_minus_one_is_a_new_one_for_each_answer(panel):
    one = panel(AppState(sampling=SamplingOptions(seed=7)))
    one.driver.click("sampler.seed")
    one.driver.press(imgui.Key.a, imgui.Key.mod_ctrl)
    one.driver.type("-1")
    one.driver.press(imgui.Key.enter)
    assert one.state.sampling.seed is None
