"""What the palette can find: commands, settings, panels, conversations, models, presets, heads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from llm_lite.core.records import dataclass
from llm_lite.desktop.actions.act import Action
from llm_lite.desktop.actions.composing.presets import ChoosePreset
from llm_lite.desktop.actions.history import OpenConversation
from llm_lite.desktop.actions.program import OpenModel, SetAttention
from llm_lite.desktop.commands.command import GROUPS, UserCommand
from llm_lite.desktop.commands.dispatch import run
from llm_lite.desktop.commands.hints import keys_of
from llm_lite.desktop.commands.settings import SETTINGS, NamedSetting
from llm_lite.desktop.commands.table import COMMANDS
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.state.attention_state import Head
from llm_lite.desktop.state.history_state import ConversationRow
from llm_lite.desktop.state.incoming import shown_path
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.state.units import short_name
from llm_lite.desktop.views.layouts import show_view
from llm_lite.desktop.views.palette.matching import also_called, fold
from llm_lite.desktop.widgets.ui import Ui

CONVERSATIONS = 200  # of the list that are matched here; the history searches all of them
HEADS = 16  # listed for a layer
INSPECTOR = ("upper right", "lower right")
# "L12 H3", "layer 12 head 3", "head 12.3", "12.3"
_HEAD = re.compile(
    r"(?:(?P<named>head)\s*|l(?:ayer)?\s*)?(?P<layer>\d{1,3})"
    r"(?:(?:\s*[.,:/]\s*|\s+|\s*(?=h))(?:h(?:ead)?\s*)?(?P<head>\d{1,3}))?"
)
PANELS = (  # views of the inspector and what else can be gone to: name, title
    ("attention", mark("Attention")), ("lens", mark("Lens")), ("tokenizer", mark("Tokenizer")),
    ("kv_cache", mark("KV cache")), ("quantization", mark("Quantization")),
    ("performance", mark("Performance")),
    ("head", mark("Head")), ("steer", mark("Steer")), ("log", mark("Log")),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Item:
    """`key` is what a choice is remembered by."""

    key: str
    group: str
    title: str
    run: Callable[[AppState, Ui], list[Action]]
    chord: str = ""
    words: str = ""  # by which it is found too
    note: str = ""  # below the title


def fixed(state: AppState, ui: Ui) -> list[Item]:
    """All but conversations and heads; what cannot be done now is left out."""
    found = [_of_command(one) for one in COMMANDS if one.run is not None and one.when(state, ui)]
    found += [_of_panel(name, title) for name, title in PANELS]
    found += [_of_setting(setting) for setting in SETTINGS]
    return [*found, *_models(state), *_presets(state)]


def conversations(state: AppState) -> Iterator[Item]:
    """Those that the list knows, the newest first; none while the model holds no conversation."""
    for row in _listed(state):
        yield _of_conversation(row.id, row.title, None, "")


def _listed(state: AppState) -> Sequence[ConversationRow]:
    return state.history.rows[:CONVERSATIONS] if state.holds_conversations else ()


def newest(state: AppState) -> Iterator[Item]:
    """The same without regard to which are pinned."""
    for row in sorted(_listed(state), key=lambda row: row.updated, reverse=True):
        yield _of_conversation(row.id, row.title, None, "")


def said(state: AppState) -> Iterator[Item]:
    """Those that the history has found for what was typed."""
    for found in state.palette.found if state.holds_conversations else ():
        note = "" if found.message is None else " ".join(found.snippet.split())
        yield _of_conversation(found.conversation, found.title, found.message, note)


def heads(query: str, state: AppState) -> list[Item]:
    """Of the model, those that the query names."""
    named = _HEAD.fullmatch(query.strip())
    model = state.model
    if named is None or model is None:
        return []
    layer = int(named["layer"])
    if layer >= model.layers:
        return []
    if named["head"] is None:
        return [_of_head((layer, head)) for head in range(min(model.heads, HEADS))]
    head = int(named["head"])
    return [_of_head((layer, head))] if head < model.heads else []


def _of_command(command: UserCommand) -> Item:
    return Item(
        f"command:{command.name}",
        tr(GROUPS[command.group]),
        tr(command.title),
        lambda state, ui: run(command, state, ui),
        keys_of(command.name),
        also_called(command.title, command.words),
    )


def _of_setting(setting: NamedSetting) -> Item:
    def go(state: AppState, ui: Ui) -> list[Action]:
        if setting.unfold:
            ui.memory["sampler.unfold"] = setting.unfold
        ui.show_popover(setting.popover, setting.control)
        return []

    words = also_called(setting.title, setting.words)
    return Item(setting.key, tr("Setting"), tr(setting.title), go, words=words)


def _of_panel(name: str, title: str) -> Item:
    words = also_called(title, "panel view")
    return Item(
        f"panel:{name}", tr("Panel"), tr(title), lambda s, u: show_view(name, s, u), words=words
    )


def _of_conversation(number: int, title: str, message: int | None, note: str) -> Item:
    return Item(
        f"conversation:{number}",
        tr("Conversation"),
        title or tr("New conversation"),
        lambda state, ui: [OpenConversation(number, message)],
        note=note,
    )


def _of_head(head: Head) -> Item:
    layer, number = head

    def lock(state: AppState, ui: Ui) -> list[Action]:
        shown = show_view("head", state, ui)
        choice = state.attention
        if head not in choice.locked:
            choice = choice.toggled(head)
        return [*shown, SetAttention(replace(choice, layer=None, group=None))]

    title = tr("Lock head L{layer} H{head}").format(layer=layer, head=number)
    return Item(f"head:{layer}.{number}", tr("Head"), title, lock)


def _models(state: AppState) -> Iterator[Item]:
    known = set()
    for entry in state.catalogue:
        if entry.path:
            known.add(entry.path)
            yield _of_model(entry.source, entry.title, entry.path)
    for path in state.recent:
        if path not in known:
            yield _of_model(path, short_name(path), shown_path(path))


def _of_model(source: str, title: str, note: str) -> Item:
    words = f"model load open {fold(note)}"
    return Item(
        f"model:{source}", tr("Model"), title, lambda s, u: [OpenModel(source)], "", words, note
    )


def _presets(state: AppState) -> Iterator[Item]:
    for name in state.presets:
        yield _of_preset(name)


def _of_preset(name: str) -> Item:
    return Item(
        f"preset:{name}", tr("Preset"), name, lambda s, u: [ChoosePreset(name)], words="preset"
    )
