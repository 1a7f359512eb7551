"""What many tests share: a validated device, a tiny random llama, the real default model."""

import tests.process  # noqa: F401

# isort: split
import gc
import os
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from llm_lite.core.engine.hosting import idle_work
from llm_lite.core.gpu.device import Device
from llm_lite.core.hub import catalog
from tests import children, tiers
from tests.make_gguf import write_tiny_llama
from tests.paths import ROOT

# How long an example takes, or its making, is the machine's affair and no test's.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")

DAY = 86_400.0  # seconds

# Files of many seconds, longest first: a worker that began one last would work alone.
LONG = (
    "sanitize/test_kernels.py",
    "tools/tour/test_tour.py",
    "desktop/person/test_person.py",
    "core/exec/vulkan/test_vulkan_shared_steps.py",
    "core/exec/vulkan/test_vulkan_kernels.py",
    "core/loading/test_weights.py",
    "core/serving/test_answers.py",
    "core/generation/speculation/test_slice.py",
    "fuzz/test_doors.py",
    "desktop/app/test_app.py",
    "core/exec/vulkan/test_vulkan_model.py",
    "core/models/test_family_logits.py",
    "core/models/test_families.py",
    "core/serving/test_scheduling.py",
    "core/serving/test_served_families.py",
    "core/kv_cache/test_overflow.py",
    "core/exec/vulkan/test_vulkan_fusion.py",
    "core/exec/vulkan/test_vulkan_attention.py",
    "tools/bench/test_instructions.py",
    "core/models/test_encoders.py",
    "core/generation/speculation/test_draft_model.py",
    "core/loading/test_loader.py",
    "test_notebook.py",
    "cli/test_streams.py",
    "recipes/test_recipes.py",
    "desktop/encoder/test_translating.py",
    "core/models/test_huggingface_logits.py",
    "core/questions/test_activations_of_transformers.py",
    "core/text/test_chat_template.py",
    "core/models/test_smollm2.py",
    "core/exec/vulkan/test_vulkan_seen.py",
    "desktop/attention/test_slots.py",
    "cli/test_conversation.py",
    "desktop/lesson/test_lesson.py",
    "test_wheel.py",
    "core/convert/test_quantizing.py",
    "cli/commands/test_model_queue.py",
    "core/engine/test_engine.py",
    "core/engine/hosting/test_model_host.py",
    "core/engine/hosting/test_switching.py",
    "sanitize/test_plants.py",
    "sanitize/test_pool.py",
    "fuzz/test_runner.py",
    "cli/test_interrupts.py",
    "core/convert/test_slicing.py",
    "desktop/program/test_outside_text.py",
    "tools/tour/test_other_models.py",
    "core/inspect/test_smollm2_attention.py",
)


def pytest_xdist_auto_num_workers() -> int:
    """One more than cores: a quarter of a worker's time it waits, mostly for processes that it has
    started."""
    own = getattr(os, "sched_getaffinity", None)  # not on macOS
    return 1 + (len(own(0)) if own else os.cpu_count() or 1)


def _runs_on_vulkan(item: pytest.Item) -> bool:
    """By its fixture, or by a parameter that names the executor."""
    case = getattr(item, "callspec", None)
    named = case is not None and "vulkan" in map(str, case.params.values())
    return named or "device" in getattr(item, "fixturenames", ())


def pytest_addoption(parser: pytest.Parser) -> None:
    tiers.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """What a test waits for may take most of the time that the test has, which 0 leaves open."""
    limit = config.getoption("timeout", None)
    seconds = float(config.getini("timeout") if limit is None else limit)
    children.PATIENCE = 0.8 * (seconds or DAY)
    config.pluginmanager.register(tiers.Tiers(config, ROOT, tiers.GROUPS, tiers.THOROUGH))


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[object]:
    """Each worker imports a share of the tests first: in a fresh checkout pytest rewrites their
    assertions at their first import, which takes longer than all other collecting."""
    if session.config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        worker = getattr(session.config, "workerinput", {"workerid": "gw0", "workercount": 1})
        files = sorted((ROOT / "tests").rglob("test_*.py"))
        for path in files[int(worker["workerid"][2:]) :: worker["workercount"]]:
            with suppress(Exception, pytest.skip.Exception):  # collecting tells of it
                import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    return (yield)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in filter(_runs_on_vulkan, items):
        item.add_marker("vulkan")
    places = {ROOT / "tests" / name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: places.get(item.path, len(LONG)))


def pytest_collection_finish() -> None:
    """Modules and tests stay: the program collects garbage when it unloads a model, and need not
    go through them each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def without_idle_passes():
    """Engines measure no passes between commands: tests count steps, and look at the cache. What is
    to be tested with them has a fixture of this name."""
    with pytest.MonkeyPatch.context() as patch:  # not the one that tests may undo
        patch.setattr(idle_work, "measure", lambda runner, is_wanted: False)
        yield


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory) -> Path:
    """Two layers, 300 tokens, 128 positions: talks varied nonsense, at once and at length."""
    return write_tiny_llama(tmp_path_factory.mktemp("models") / "tiny.gguf", seed=2)


@pytest.fixture(scope="session")
def smollm2() -> Path:
    return catalog.resolve(None)


@pytest.fixture(scope="session")
def _shared_device():
    device = Device.open(validation=True)
    yield device
    device.close()
    assert device.validation_messages == [], "messages while the device was closed"


@pytest.fixture
def device(_shared_device):
    """One validated Vulkan device for the whole run; every test must leave it silent."""
    yield _shared_device
    messages = list(_shared_device.validation_messages)
    _shared_device.validation_messages.clear()
    assert messages == []
