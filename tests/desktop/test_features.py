"""A feature of the window is a folder: its `state`, its `model` (actions and what they change), its
views, and `host`s (threads and files). What each may import depends on its name."""

from functools import cache
from graphlib import TopologicalSorter

import grimp

FEATURES = "llm_lite.desktop.features"
# What only hosts may reach: whatever computes, waits or writes.
NOT_FOR_VIEWS = {
    *(f"llm_lite.core.{room}" for room in ("engine", "generation", "loading", "exec", "gpu")),
    "llm_lite.desktop.app",
    "llm_lite.desktop.render",
    "vulkan",
}
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
