"""`llm-lite models gc`: deletes what is left over of downloads and of killed programs."""

from __future__ import annotations

import argparse

from llm_lite.cli.commands.library.listing import size_text
from llm_lite.cli.terminal.output import show, show_json
from llm_lite.core.errors import RequestError
from llm_lite.core.hub.local.collecting import collect, leftovers
from llm_lite.core.hub.queue.queue_file import QueueFile, queue_folder
from llm_lite.core.hub.queue.steps import downloads_to_come


def run(arguments: argparse.Namespace) -> int:
    file = QueueFile(queue_folder())
    jobs = file.load()
    if file.problem:  # what it still needed is not known any more
        raise RequestError(f"{file.problem} Run gc again to delete all partial downloads.")
    found = leftovers(needed=downloads_to_come(jobs))
    freed = 0 if arguments.dry_run else collect(found)
    if arguments.json:
        rows = [{"kind": one.kind, "path": str(one.path), "size": one.size} for one in found]
        show_json({"found": rows, "freed": freed})
        return 0
    for one in found:
        show(f"{one.kind}  {size_text(one.size)}  {one.path}")
    if not found:
        show("nothing is left over")
    elif arguments.dry_run:
        show(f"{size_text(sum(one.size for one in found))} would be freed")
    else:
        show(f"{size_text(freed)} freed")
    return 0
