"""Collects the texts of the window into the catalogues of assets/languages/, and compiles them.

`python tools/messages.py` (make messages): a new text stands in every .po without a translation,
one that is gone is taken out, and each .mo is written again. `python tools/messages.py LANGUAGE`
begins another language. It prints what is not translated yet, and ends with 1 where there is any.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

ROOT = Path(__file__).resolve().parents[1]
LANGUAGES = ROOT / "assets" / "languages"
# Functions, and how many of their first arguments are text.
CALLS = {"tr": 1, "mark": 1, "trn": 2, "Score": 1}
SOURCES = (
    "desktop",
    "core/inspect/attention_scores.py",
    "core/messages/sampling_options.py",
)
WIDTH = 100


def extracted() -> Catalog:
    """Return every text of the window, with the files that use it."""
    found = Catalog(project="llm-lite", charset="utf-8", fuzzy=False)
    for source in SOURCES:
        top = ROOT / source
        for path in sorted(top.rglob("*.py")) if top.is_dir() else [top]:
            for message in texts(ast.parse(path.read_text("utf-8"))):
                found.add(message, locations=[(path.relative_to(ROOT).as_posix(), 0)])
    return found


def texts(tree: ast.Module) -> Iterator[str | tuple[str, ...]]:
    """Return the literals in calls of CALLS; with a plural, both forms."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        parts = node.args[: CALLS.get(node.func.id, 0)]
        if any(isinstance(part, ast.JoinedStr) for part in parts):
            raise ValueError(f"an f-string cannot be translated: {ast.unparse(node)}")
        words = [part.value for part in parts if isinstance(part, ast.Constant) and part.value]
        if words:
            yield words[0] if len(words) == 1 else tuple(words)


def read(language: str) -> Catalog:
    with place(language).open("rb") as file:
        return read_po(file, locale=language)


def updated(language: str, template: Catalog) -> Catalog:
    """Return the catalogue of the .po, with the texts of `template` and no others."""
    known = read(language) if place(language).exists() else Catalog(locale=language, fuzzy=False)
    template.creation_date = known.creation_date
    known.update(template, no_fuzzy_matching=True, update_creation_date=False)
    known.obsolete.clear()
    return known


def place(language: str) -> Path:
    return LANGUAGES / language / "LC_MESSAGES" / "llm_lite.po"


def as_po(catalog: Catalog) -> bytes:
    text = BytesIO()
    write_po(text, catalog, width=WIDTH, sort_by_file=True, include_lineno=False)
    return text.getvalue()


def as_mo(catalog: Catalog) -> bytes:
    data = BytesIO()
    write_mo(data, catalog)
    return data.getvalue()


def untranslated(catalog: Catalog) -> list[str]:
    """Return texts without a translation, or with one that a person has yet to check."""
    found = []
    for message in catalog:
        parts = message.string if isinstance(message.string, tuple) else (message.string,)
        if message.id and (message.fuzzy or not all(parts)):
            found.append(message.id if isinstance(message.id, str) else message.id[0])
    return found


def main(wanted: list[str]) -> int:
    template, left = extracted(), 0
    languages = wanted or sorted(path.name for path in LANGUAGES.iterdir() if path.is_dir())
    for language in languages:
        catalog = updated(language, template)
        target = place(language)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(as_po(catalog))
        target.with_suffix(".mo").write_bytes(as_mo(catalog))
        missing = untranslated(catalog)
        left += len(missing)
        print(f"{language}: {len(catalog)} texts, {len(missing)} without a translation")
        print(*(f"  {text!r}" for text in missing), sep="\n")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
