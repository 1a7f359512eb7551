"""The table of sampler options, and that everything which names one follows from it."""

import argparse
import json
import re
import sys

import pytest

from llm_lite.cli.conversation.commands import COMMANDS
from llm_lite.cli.engine_words import sampling_options
from llm_lite.cli.main import _parser
from llm_lite.core.errors import RequestError
from llm_lite.core.generation.sampling import check
from llm_lite.core.generation.token_choice import kernel_options
from llm_lite.core.messages import SamplingOptions
from llm_lite.core.messages.sampling_options import NUMBERS, OPTIONS
from llm_lite.desktop.app.settings import parse
from llm_lite.desktop.features.commands.settings import SETTINGS
from llm_lite.desktop.features.presets.host import read
from llm_lite.desktop.features.program.settings import Settings
from llm_lite.server.document import document
from llm_lite.server.routes import ENDPOINTS
from tests.paths import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import option_table

MOST_KEPT = (1 << 63) - 1
DOC = ROOT / "docs" / "sampling.md"


@pytest.mark.parametrize("row", OPTIONS.values(), ids=lambda row: row.name)
def test_a_row_is_of_one_piece(row):
    assert row.help.endswith(".") and row.summary
    assert row.default == getattr(SamplingOptions(), row.name)
    assert row.off is None or f"{row.off:g}" in re.split(r"[ .;]", row.help), "when it is off"
    for value in (row.off, row.default, *(row.slider or ())):
        assert not isinstance(value, int | float) or row.low <= value <= row.high
    assert row.slider is None or row.title
    assert row.slider is None or row.off is None or row.slider[0] <= row.off <= row.slider[1]
    for name in row.needs:
        assert OPTIONS[name].off is not None


def test_what_the_sampler_takes_is_kept_and_sent():
    """Both ends of each range go through the sampler's check and settings, which hold whole numbers
    of 64 bits with a sign."""
    for name, row in NUMBERS.items():
        kind = float if row.kind == "number" else int
        for value in (kind(row.low), kind(row.high)):
            check(SamplingOptions(**{name: value}))
            problems, value = [], min(value, MOST_KEPT)
            kept = parse({"sampling": {name: value}}, Settings(), problems)
            assert (getattr(kept.sampling, name), problems) == (value, [])
        for value in (row.low - 1, row.high + 1):
            with pytest.raises(RequestError, match=f"{row.readable_name}: expected"):
                check(SamplingOptions(**{name: value}))


def test_a_preset_holds_what_the_command_line_takes(tmp_path):
    path = tmp_path / "hot.json"
    path.write_text(json.dumps({"sampling": {"temperature": 50, "repetition_penalty": 0.5}}))
    sampling = read(path).sampling
    assert (sampling.temperature, sampling.repetition_penalty) == (50.0, 0.5)


@pytest.fixture(scope="module")
def chat():
    """The parser of `llm-lite chat`."""
    parsers = (a for a in _parser()._actions if isinstance(a, argparse._SubParsersAction))
    return next(parsers).choices["chat"]


def test_each_option_has_a_word_with_its_help(chat):
    assert sampling_options(chat.parse_args([])) == SamplingOptions()
    helps = {action.dest: action.help for action in chat._actions}
    for name, row in OPTIONS.items():
        assert row.help[1:-1] in helps[name]


def test_each_option_has_a_command_that_says_when_it_is_off():
    for row in OPTIONS.values():
        if row.kind == "texts" and row.word not in COMMANDS:
            continue  # texts are typed by a person who has none of them by default
        assert row.summary[1:] in COMMANDS[row.word].help
        assert row.off is None or COMMANDS[row.word].help.endswith(f"; {row.off:g}: off")


@pytest.fixture(scope="module")
def body():
    """The fields of a chat request, as the server's document has them."""
    told = document(ENDPOINTS, "1")
    asked = told["paths"]["/v1/chat/completions"]["post"]["requestBody"]
    name = asked["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    return told["components"]["schemas"][name]["properties"]


@pytest.mark.parametrize("row", OPTIONS.values(), ids=lambda row: row.name)
def test_a_request_says_it_within_its_range(body, row):
    if row.name == "max_new_tokens":  # each address has names of its own for it
        assert row.names["openai"] in body
        return
    assert row.help in body[row.name]["description"]
    if row.name in NUMBERS and row.name != "seed":  # of which others are taken modulo 2^64
        kinds = body[row.name].get("anyOf", [body[row.name]])
        assert any((k.get("minimum"), k.get("maximum")) == (row.least, row.high) for k in kinds)


def test_the_palette_finds_what_the_panel_always_shows():
    titles = {setting.title for setting in SETTINGS if setting.popover == "sampler"}
    wanted = {row.title for row in OPTIONS.values() if row.group and not row.needs}
    assert wanted <= titles and "Temperature" in titles


def test_the_kernels_options_are_those_of_the_table():
    chosen = kernel_options(SamplingOptions(min_p=0.25, dry_allowed_length=7, mirostat_tau=3.0))
    assert (chosen.min_p, chosen.dry_allowed_length, chosen.mirostat) == (0.25, 7, True)
    known = {name for name in dir(chosen) if not name.startswith("_")}
    assert known - set(OPTIONS) == {"mirostat"}
    header = (ROOT / "kernels_cpp" / "logits" / "draw.h").read_text("utf-8")
    fields = re.findall(
        r"^  [\w:<>, ]+ (\w+)(?: =|;)",
        header.partition("struct Sampling {")[2].partition("};")[0],
        re.M,
    )
    assert len(fields) > 10 and set(fields) - {"bias"} <= known, "each field has a binding"


def test_the_documentation_lists_them_all(chat):
    page = DOC.read_text("utf-8")
    assert option_table.written(page) == page, "`make options` writes the table"
    words = set(re.findall(r"`(--[a-z-]+)", page))
    assert words and words <= set(chat._option_string_actions)
