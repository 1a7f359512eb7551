"""A toy task of the engine: it counts layers, and the window logs how many there are."""

from __future__ import annotations

from tests.recipes.recipe import Copy, Edits, passed

TASK, FEATURE = "toy", "quantization"
EDITS: Edits = {
    "core/messages/comparing.py": {
        "import EngineOptions, Mode": '''

class CountLayers(Task, frozen=True):
    """Count the layers of the model in use."""


class LayersCounted(Event, frozen=True):
    name: str
    layers: int


''',
    },
    "core/engine/tasks.py": {
        "from llm_lite.core.metrics.modes import": (
            "from llm_lite.core.messages.comparing import CountLayers, LayersCounted\n"
        ),
        "context.emit(ModesMeasured(": """

def _count_layers(task: CountLayers, context: TaskContext) -> None:
    model = context.runner.model_info
    context.emit(LayersCounted(model.name, model.layers))

""",
        "    CompareRuns: compare_runs,": "    CountLayers: _count_layers,\n",
    },
    "desktop/features/quantization/model.py": {
        "import replace": (
            "from llm_lite.core.messages.comparing import CountLayers, LayersCounted\n"
        ),
        "FOLDS[type(event)](event, held))": """

def _layers_counted(
    event: Event, asked: CountLayers, state: AppState, now: float
) -> AppState:
    if not isinstance(event, LayersCounted):
        return state
    return notify(state, "info", f"{event.name} has {event.layers} layers", now)

""",
        "REPLIES: dict": "    CountLayers: _layers_counted,\n",
    },
    "tests/core/engine/test_toy.py": '''"""The toy task."""

from llm_lite.core.messages.comparing import CountLayers, LayersCounted
from llm_lite.desktop.features.program.apply import apply
from llm_lite.desktop.features.program.state import AppState


def test_layers_are_counted_and_shown(client, tiny_llama):
    client.load(tiny_llama)
    handle = client.send(CountLayers())
    counted = handle.result(60.0)
    assert isinstance(counted, LayersCounted)
    state = apply(counted, AppState(), 0.0, handle.command)
    assert state.notices[-1].text.endswith(f"has {counted.layers} layers.")
''',
}


def works(copy: Copy) -> bool:
    """It is carried out, and what it found is folded whatever its text is."""
    tests = ["tests/core/engine/test_toy.py", "tests/desktop/program/test_handlers.py"]
    tests += ["tests/desktop/program/test_outside_text.py"]
    return passed(copy.tests(*tests))
