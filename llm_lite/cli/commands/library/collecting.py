"""`llm-lite models gc`: deletes what is left over of downloads and of killed programs."""

from __future__ import annotations

import argparse

from llm_lite.cli.commands.library.listing import size_text
from llm_lite.cli.terminal.output import show, show_json
from llm_lite.core.hub.local.collecting import collect, leftovers
from llm_lite.core.hub.queue.queue_file import QueueFile, queue_folder
from llm_lite.core.hub.queue.steps import downloads_to_come


def run(arguments: argparse.Namespace) -> int:
    found = leftovers(needed=downloads_to_come(QueueFile(queue_folder()).load()))
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
