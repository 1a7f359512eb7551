"""No text that a person sees is outside `tr`, `trn` and `mark`."""

import ast
import re
from functools import cache

from tests.paths import ROOT

DESKTOP = ROOT / "desktop"
# Two words, or one with a capital letter.
WORDS = re.compile(r"[A-Za-z]{2,}[,;:.]? +[A-Za-z]{2,}|^[A-Z][a-z]{2,}")
TRANSLATED = {"tr", "trn", "mark"}
# Functions of the widgets, and which of their arguments a person reads.
DRAWN = {
    "text": (1,), "wrapped": (1,), "heading": (1, 2), "tip": (1,), "help_mark": (1,),
    "button": (2, 4), "primary_button": (2, 3), "icon_button": (3,), "row_button": (2, 3),
    "toggle": (2, 4), "slider": (2,), "labelled": (1, 2), "progress": (1,), "popover": (2,),
    "notify": (2,), "set_tooltip": (0,), "Outcome": (0,),
}  # fmt: skip
# Not for the person at the window: whoever reads a report or a terminal.
QUIET_FOLDERS = {
    "render": "what drivers refuse, told on the terminal where there is no window",
    "language": "names the languages",
}
# Errors of the program itself, and those that name a file and its field: English, as core's are.
QUIET_CALLS = {
    "TypeError", "ValueError", "RuntimeError", "FileError", "ReportDefect", "defect_of",
    "warning", "compile", "TypeVar", "NewType", "cast",
}  # fmt: skip
# Files, and what in them is no text for a person; why.
QUIET = {
    "app/settings.py": (".*", "sentences that name the settings file and its field"),
    "features/presets/setting_values.py": (".*", "the same"),
    "app/layout_text.py": (".*", "the language of Dear ImGui's layout"),
    "features/remote/state.py": (".*", "the same, of addresses in it"),
    "features/prompts/host.py": (".*", "sentences that name a prompt's file"),
    "features/sampling/lists.py": (".*", "the same, of lists in them"),
    "features/tokenizer/examples.py": ("(?s).*", "languages by their own names; texts to be cut"),
    "features/program/notices.py": ("A defect of the program|please report it:", "for the report"),
    "app/interface.py": (
        "status bar|memory question|file chooser|(upper|lower) right",
        "a part, for the report, and places",
    ),
    "features/commands/table.py": (
        r"((Ctrl|Shift)\+)*\S+|[a-z0-9 ]+", "keys, and words that searches know besides titles"
    ),
    "features/commands/keys.py": ("Cmd", "a key"),
    "features/commands/settings.py": ("[a-z0-9 ]+", "words that searches know besides titles"),
    "features/palette/view.py": ("[a-z ]+", "places, and such words"),
    "app/input_method/daemon.py": (".*", "names of D-Bus, and why a connection ended, for the log"),
    "app/input_method/exchange.py": ("[A-Z][A-Za-z]+", "names of D-Bus"),
    "app/input_method/input_method.py": ("[A-Z][A-Za-z]+", "names of D-Bus"),
    "app/input_method/messages.py": ("[A-Z][A-Za-z]+", "names of D-Bus"),
    "features/undo/model.py": ("[A-Z][a-z]+( all)?", "labels of the history's journal, as keys"),
    "features/file_chooser/host.py": (
        "no program .*|cannot be started:|Downloads",
        "why another way is taken, and the name of a folder",
    ),
    "attention/colors.py": ("[0-9a-f ]+", "colours"),
    "features/registry.py": ("(upper|lower) right", "places"),
    "features/quantization/comparison.py": ("Vulkan|NumPy", "names"),
    "features/performance/kernel_study.py": ("Vulkan", "a name"),
    "features/program/status_bar.py": ("Vulkan|NumPy", "names"),
    "features/chat/panels.py": ("You are a helpful assistant.", "said to the model"),
    "features/tools/model.py": ("The user refused this call.", "said to the model"),
    "features/tools/view.py": (r"(?s)\[\n  \{\n.*", "a function as an example, said to the model"),
    "features/serving/running.py": (
        "'(Content-Type: application/json|Authorization: Bearer)'?", "words of HTTP for a shell"
    ),
    "features/lesson/first_page.py": ("(The|Water) [a-z0-9 F]+[.?]?", "said to the model"),
    "features/lesson/pictures/overview.py": ("Where is the station.", "said to the model"),
    "features/history/menu.py": ("Markdown", "the name of a format"),
    "features/library/host.py": ("(models on|verification of) [a-z ]+", "names of threads"),
    "features/library/finding.py": (r"Apache 2\.0|Llama 3\.2|CC BY 4\.0|Gemma", "licences"),
    "features/library/fit_bar.py": ("would fit", "how core's sentence ends"),
    "features/program/memory_question.py": ("memory question", "the identity of a window"),
    "features/library/words.py": ("Hugging Face|LM Studio|Ollama|Safetensors", "names"),
    "widgets/fonts.py": (r"[A-Za-z-]+\.(otf|ttf)", "files"),
    "widgets/markup/worker.py": (".*", "a process apart, whose errors draw the text as it is"),
}  # fmt: skip


@cache
def _trees():
    """The syntax tree of each file by its place in desktop/."""
    names = [path.relative_to(DESKTOP).as_posix() for path in sorted(DESKTOP.rglob("*.py"))]
    return {
        name: ast.parse((DESKTOP / name).read_text("utf-8"))
        for name in names
        if name.partition("/")[0] not in QUIET_FOLDERS
    }


def _is_quiet(name, text):
    return re.fullmatch(QUIET[name][0], text.strip(" ,;"))


def _name(call):
    function = call.func
    return getattr(function, "attr", "") or getattr(function, "id", "")


def _docstrings(tree):
    return {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }


def _literals(tree):
    """(line, text) of what could be shown: not keys, not what is compared, not annotations."""
    said, skipped = [], _docstrings(tree)

    def visit(node):
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str) and id(node) not in skipped:
                said.append((node.lineno, node.value.partition("##")[0]))
            return
        if isinstance(node, ast.Compare | ast.Assert | ast.ImportFrom):
            return
        if isinstance(node, ast.Call):
            plain = isinstance(node.func, ast.Name) and node.func.id in TRANSLATED
            if plain or _name(node) in QUIET_CALLS:
                return
        for field, child in ast.iter_fields(node):
            if field in ("slice", "annotation", "returns", "keys"):
                continue
            for one in child if isinstance(child, list) else [child]:
                if isinstance(one, ast.AST):
                    visit(one)

    visit(tree)
    return said


def test_what_looks_like_text_is_translated():
    """Otherwise it goes through `tr` or `mark`, or stands in QUIET with a reason."""
    found = [
        f"desktop/{name}:{line}: {text!r}"
        for name, tree in _trees().items()
        for line, text in _literals(tree)
        if WORDS.search(text) and not (name in QUIET and _is_quiet(name, text))
    ]
    assert not found, "\n".join(found)


def test_what_widgets_draw_is_translated():
    """Single words too: `text(ui, "exact")`."""
    found = [
        f"desktop/{name}:{argument.lineno}: {argument.value!r}"
        for name, tree in _trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for number in DRAWN.get(_name(node), ())
        for argument in node.args[number : number + 1]
        if isinstance(argument, ast.Constant) and re.search("[A-Za-z]{3}", str(argument.value))
    ]
    assert not found, "\n".join(found)


def test_the_exemptions_are_used():
    for name in QUIET:
        found = [text for _, text in _literals(_trees()[name]) if WORDS.search(text)]
        assert any(_is_quiet(name, text) for text in found), name


def test_it_finds_what_was_forgotten():
    tree = ast.parse('def f():\n    """Two words."""\n    wrapped(ui, f"{n} new tokens")\n')
    assert [text for _, text in _literals(tree) if WORDS.search(text)] == [" new tokens"]
