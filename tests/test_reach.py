"""The program holds nothing that only its tests use."""

import grimp

from llm_lite.cli.commands.models import ACTIONS
from llm_lite.cli.main import _COMMANDS
from llm_lite.core.quant.formats import FORMATS

BEGIN = ("llm_lite.cli.entry", "llm_lite.__main__", "llm_lite", *_COMMANDS.values())
BEGIN += tuple(f"llm_lite.cli.commands.{action.module}" for action in ACTIONS.values())
# A process of its own imports each.
WORKERS = (
    "llm_lite.core.text.sandbox.worker",
    "llm_lite.core.generation.grammars.worker",
    "llm_lite.core.text.pdf_worker",
    "llm_lite.core.convert.stages.worker",
    "llm_lite.desktop.widgets.markup.worker",
    "llm_lite.server.page.markdown_worker",
)
DEFINITIONS = {
    "llm_lite.core.quant.search": "what kernels_cpp/quantizer/ computes, as core/exec/reference.py "
    "is of the ops",
    "llm_lite.core.generation.reference_choice": "how kernels_cpp/logits/ chooses a token",
}
# Found by the family of their formats
CODECS = [f"llm_lite.core.quant.blocks.{row.family}" for row in FORMATS.values()]


def test_every_module_is_reached_from_a_command_or_the_python_face():
    graph = grimp.build_graph("llm_lite", cache_dir=None)
    reached = {*BEGIN, *WORKERS, *CODECS}
    for module in tuple(reached):
        reached |= graph.find_upstream_modules(module)
    rooms = {name for module in graph.modules for name in _ancestors(module)}
    assert graph.modules - reached - rooms == set(DEFINITIONS)


def _ancestors(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]
