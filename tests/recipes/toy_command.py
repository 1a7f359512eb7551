"""A toy subcommand: it says a word as often as it is told."""

from __future__ import annotations

from tests.recipes.recipe import Edits

COMMAND = "toy"
EDITS: Edits = {
    "llm_lite/cli/commands/toy.py": '''"""`llm-lite toy`: a word, several times."""

from __future__ import annotations

import argparse

from llm_lite.cli.terminal.output import show
from llm_lite.core.errors import RequestError


def run(arguments: argparse.Namespace) -> int:
    if not arguments.word.strip():
        raise RequestError("expected a word, found nothing")
    show(" ".join([arguments.word] * arguments.times))
    return 0
''',
    "llm_lite/cli/main.py": {
        '"verify": "llm_lite.cli.commands.verify"': '    "toy": "llm_lite.cli.commands.toy",\n',
        "_machine(commands, engine)": "    _toy(commands)\n",
        "use SRC's files instead": """

def _toy(commands: Subparsers) -> None:
    toy = commands.add_parser("toy", help="say a word several times")
    toy.add_argument("word", metavar="WORD")
    toy.add_argument("--times", type=at_least(1), default=1, metavar="N")
""",
    },
    "tests/cli/commands/test_toy.py": '''"""`llm-lite toy`."""

from llm_lite.cli.main import main
from tests.cli.terminal_runs import sentence


def test_it_says_the_word(capsys):
    assert main(["toy", "ha", "--times", "3"]) == 0
    assert capsys.readouterr().out == "ha ha ha\\n"


def test_nothing_to_say(capsys):
    assert main(["toy", " "]) == 1
    assert "expected a word" in sentence(capsys)
''',
}
