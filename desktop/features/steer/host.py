"""Interventions as JSON files, in the form that the command line takes: {"changes": [...]}."""

from __future__ import annotations

import json

from llm_lite.core.checked import convert_in_file
from llm_lite.core.files.json_text import read_object
from llm_lite.core.files.places import expanded
from llm_lite.core.files.writing import write_file
from llm_lite.core.messages import Interventions
from llm_lite.core.records import asdict
from llm_lite.desktop.features.host import Host
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.steer.model import (
    LoadInterventions,
    ReadInterventions,
    SaveInterventions,
)

LARGEST_FILE = 16 << 20  # bytes: it is read between two frames


class InterventionFiles(Host):
    """Reads and writes files of interventions."""

    actions = (ReadInterventions, SaveInterventions)

    def do(self, action: ReadInterventions | SaveInterventions, state: AppState) -> list[Action]:
        """Carry out an action and return what follows. FileError where a file cannot be read or
        written, or holds something else."""
        path = expanded(action.path)
        if isinstance(action, SaveInterventions):
            text = json.dumps(asdict(state.steering.interventions), indent=1)
            write_file(path, text.encode())
            return []
        found = convert_in_file(read_object(path, limit=LARGEST_FILE), Interventions, path)
        return [LoadInterventions(found)]
