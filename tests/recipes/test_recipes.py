"""The recipes name every place: a toy made by them works, and none is needed that is not named."""

import pytest

from tests.paths import ROOT
from tests.recipes import (
    toy_asking_view,
    toy_command,
    toy_feature,
    toy_intervention,
    toy_op,
    toy_option,
    toy_question,
    toy_setting,
    toy_task,
    toy_view,
)
from tests.recipes.recipe import Copy, passed, places

WHOLE = [pytest.mark.build, pytest.mark.timeout(3600)]  # s, to compile
OP, VIEW, COMMAND = "An op", "A view", "A subcommand"
ASKING = "A view that asks"
OPTION, SETTING = "A sampler option", "A boolean setting"
FEATURE = "A feature with state and a thread"
TASK = "A task of the engine"
QUESTION = "A question"
INTERVENTION = "A kind of intervention"
NAMED = {
    OP: places(OP, op=toy_op.OP),
    VIEW: places(VIEW, folder=toy_view.FOLDER, view=toy_view.VIEW),
    ASKING: places(ASKING, folder=toy_asking_view.FOLDER, view=toy_asking_view.VIEW),
    COMMAND: places(COMMAND, command=toy_command.COMMAND),
    OPTION: places(OPTION, option=toy_option.OPTION),
    SETTING: places(SETTING, setting=toy_setting.SETTING),
    FEATURE: places(FEATURE, feature=toy_feature.FEATURE),
    TASK: places(TASK, feature=toy_task.FEATURE, task=toy_task.TASK),
    QUESTION: places(QUESTION, question=toy_question.QUESTION),
    INTERVENTION: places(INTERVENTION, kind=toy_intervention.KIND),
}
EDITS = {
    OP: toy_op.EDITS,
    VIEW: toy_view.EDITS,
    ASKING: toy_asking_view.EDITS,
    COMMAND: toy_command.EDITS,
    OPTION: toy_option.EDITS,
    SETTING: toy_setting.EDITS,
    FEATURE: toy_feature.EDITS,
    TASK: toy_task.EDITS,
    QUESTION: toy_question.EDITS,
    INTERVENTION: toy_intervention.EDITS,
}
MOST_PLACES = {
    OPTION: 3,
    SETTING: 2,
    VIEW: 5,
    ASKING: 5,
    FEATURE: 9,
    TASK: 4,
    QUESTION: 3,
    INTERVENTION: 4,
}
SOURCES = (
    "ops/toy.cpp",
    "ops/table.cpp",
    "plan/check.cpp",
    "plan/plan.cpp",
)  # that change with an op


def followed(folder, recipe, *, without=None):
    copy = Copy(folder / "copy")
    copy.follow({place: edit for place, edit in EDITS[recipe].items() if place != without})
    return copy


def op_works(copy):
    """On NumPy and Vulkan; in C++ its files compile, which `make recipes` runs too."""
    toy_op.compile_shader(copy)
    tests = ["tests/core/exec/test_every_op.py", "tests/core/plan/test_builder.py"]
    tests += ["tests/core/exec/test_reference.py", "tests/core/exec/vulkan/test_vulkan_kernels.py"]
    return (
        passed(copy.tests(*tests, "-k", "toy or one_name or every_op"))
        and all(passed(toy_op.compiles(copy, f"kernels_cpp/{source}")) for source in SOURCES)
        and passed(copy.tests("tests/core/exec/test_reference.py", "-k", "formula and toy"))
    )


# What is added has its lines, which its commit says in tests/house.json.
GROWS = ("--deselect", "tests/test_rooms.py::test_the_house_costs_no_more_than_is_said")


def view_works(copy):
    tests = ["tests/desktop/app/test_interface.py::test_every_view_and_popover_is_shown"]
    tests += ["tests/test_documents.py::test_each_view_has_a_page_with_pictures"]
    tests += ["tests/test_rooms.py", "tests/desktop/program/test_toy.py", *GROWS]
    return passed(copy.tests(*tests))


def command_works(copy):
    tests = [
        "tests/cli/test_main.py",
        "tests/cli/commands/test_toy.py",
        "tests/test_rooms.py",
        *GROWS,
    ]
    tests += ["tests/test_reach.py", "-k", "toy or usage or help or folder or reached"]
    ran = copy.python("-m", "llm_lite", "toy", "ha")
    return passed(ran) and ran.stdout == "ha\n" and passed(copy.tests(*tests))


WORKS = {
    OP: op_works,
    VIEW: view_works,
    ASKING: toy_asking_view.works,
    COMMAND: command_works,
    OPTION: toy_option.works,
    SETTING: toy_setting.works,
    FEATURE: toy_feature.works,
    TASK: toy_task.works,
    QUESTION: toy_question.works,
    INTERVENTION: toy_intervention.works,
}


@pytest.mark.parametrize("recipe", NAMED)
def test_the_recipe_names_every_place(recipe, tmp_path):
    assert sorted(NAMED[recipe]) == sorted(EDITS[recipe])
    assert len(NAMED[recipe]) <= MOST_PLACES.get(recipe, len(NAMED[recipe]))
    assert WORKS[recipe](followed(tmp_path, recipe))


def test_an_op_of_a_form_of_its_own_without_its_check_does_not_compile(tmp_path):
    copy = followed(tmp_path, OP)
    assert passed(toy_op.compiles(copy, "kernels_cpp/plan/check.cpp"))
    table = copy.folder / "core" / "plan" / "ops.py"
    row = '{"factor": "float32"}, "elementwise"),\n    OpSpec(\n        "match_rms"'
    text = table.read_text("utf-8")
    assert row in text
    table.write_text(text.replace(row, row.replace("elementwise", "custom")), "utf-8")
    assert not passed(toy_op.compiles(copy, "kernels_cpp/plan/check.cpp"))


@pytest.mark.parametrize(
    ("recipe", "names"),
    [
        ("A model", {"model": "qwen3"}),
        ("A weight format", {"family": "legacy", "format": "q4_0"}),
    ],
)
def test_the_places_of_what_is_there_exist(recipe, names):
    named = places(recipe, **names)
    assert len(named) >= 4
    assert [place for place in named if not (ROOT / place).is_file()] == []


@pytest.mark.parametrize(
    ("recipe", "place"),
    [
        pytest.param(recipe, place, marks=WHOLE)
        for recipe, named in NAMED.items()
        for place in named
    ],
)
def test_each_place_is_missed(recipe, place, tmp_path):
    assert not WORKS[recipe](followed(tmp_path, recipe, without=place))


@pytest.mark.build
@pytest.mark.timeout(3600)
def test_the_toys_in_a_whole_build(tmp_path):
    """All of them at once, with the kernels of every instruction set, types and layers."""
    copy = Copy(tmp_path / "copy")
    for edits in EDITS.values():
        copy.follow(edits)
    assert passed(toy_op.build(copy))
    assert passed(copy.tests("tests/core/exec", "-k", "toy or every_op"))
    several = ("tests/test_rooms.py", "tests/desktop/app", "tests/cli/test_main.py")
    assert passed(copy.tests(*several, *GROWS))
    assert passed(copy.python("-m", "mypy"))
    assert passed(copy.python("-c", "from importlinter.cli import lint_imports_command as c; c()"))
