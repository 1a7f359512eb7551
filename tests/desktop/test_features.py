"""A feature of the window is a folder: its `state`, its `model` (actions and what they change), its
views, and `host`s (threads and files). What each may import depends on its name."""

import ast
import re
from functools import cache
from graphlib import TopologicalSorter

import grimp

from llm_lite.desktop.features.program.state import AppState
from tests.paths import ROOT

FEATURES = "llm_lite.desktop.features"
# What only hosts may reach: whatever computes, waits or writes.
NOT_FOR_VIEWS = {
    *(f"llm_lite.core.{room}" for room in ("engine", "generation", "loading", "exec", "gpu")),
    "llm_lite.desktop.app",
    "llm_lite.desktop.render",
    "vulkan",
}
DRAFT = {"files", "new_draft"}  # what a person is writing is the conversation's
DRAWN = {"imgui_bundle", "llm_lite.desktop.widgets"}


@cache
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("llm_lite", include_external_packages=True, cache_dir=None)


def modules() -> list[str]:
    return sorted(name for name in graph().modules if name.startswith(f"{FEATURES}."))


def is_host(module: str) -> bool:
    name = module.rpartition(".")[2]
    return name == "host" or name.startswith("host_")


def reached(module: str) -> set[str]:
    """Return all that `module` imports, by others too, and the packages above each."""
    names = graph().find_upstream_modules(module)
    return {".".join(name.split(".")[:end]) for name in names for end in range(1, 7)}


def test_views_and_models_reach_no_engine_no_device_and_no_host():
    wrong = {}
    for module in modules():
        if not is_host(module):
            found = reached(module)
            hosts = {name for name in found if name.startswith(FEATURES) and is_host(name)}
            if bad := (found & NOT_FOR_VIEWS) | hosts:
                wrong[module] = bad
    assert wrong == {}


def test_states_and_models_draw_nothing():
    models = [name for name in modules() if name.rpartition(".")[2] in ("state", "model")]
    assert len(models) > 20
    wrong = {name: bad for name in models if (bad := reached(name) & DRAWN)}
    assert wrong == {}


def test_no_module_of_a_feature_imports_itself_by_others():
    ours = {*modules(), FEATURES}
    order = TopologicalSorter(
        {name: graph().find_modules_directly_imported_by(name) & ours for name in ours}
    )
    order.prepare()  # CycleError names the modules of a cycle


def test_no_feature_sets_the_record_of_another():
    """A record of the state is of the feature whose `state.py` defines it. Others ask its owner, by
    an action or a function of its `model`; what is stale is told by stamps."""
    folder = ROOT / "desktop" / "features"
    wrong = [
        f"{path.relative_to(folder)}: {found}"
        for path in sorted(folder.rglob("*.py"))
        for found in foreign(path.relative_to(folder).parts[0], path.read_text("utf-8"))
    ]
    assert wrong == []
    assert foreign("chat", "replace(state, xray=XRay(), draft='')") == ["line 1 sets xray"]
    assert foreign("chat", "next_conversation(state, lesson=LessonState())") == [
        "line 1 sets lesson"
    ]


def foreign(folder: str, source: str) -> list[str]:
    """Return where the source of a feature sets fields that are other features' records."""
    return [
        f"line {node.lineno} sets {word.arg}"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and is_change_of_state(node)
        for word in node.keywords
        if owner_of(word.arg or "") not in ("", folder)
    ]


@cache
def owner_of(field: str) -> str:
    """Return the feature that defines a field's record; "" for other fields."""
    if field not in AppState.__struct_fields__ or field in DRAFT:
        return ""
    kind = type(getattr(AppState(), field)).__module__
    match = re.fullmatch(rf"{re.escape(FEATURES)}\.(\w+)\.state", kind)
    return match[1] if match and match[1] != "program" else ""


def is_change_of_state(call: ast.Call) -> bool:
    """Return whether a call replaces fields of the whole state."""
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    if name in ("next_model", "next_conversation"):
        return True
    first = ast.unparse(call.args[0]) if call.args else ""
    is_state = re.search(r"\b(state|turned)\b", first) and not re.search(r"\bstate\.\w+$", first)
    return name == "replace" and bool(is_state)
