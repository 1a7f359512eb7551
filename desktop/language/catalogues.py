"""The languages there are: English in the code, each other one a catalogue in `assets/languages/`.

A language is a folder with its code that holds `LC_MESSAGES/llm_lite.mo`, which `make messages`
writes from the `llm_lite.po` beside it.
"""

from __future__ import annotations

import ctypes
import gettext
import locale
import logging
import os
import struct
import sys
from functools import lru_cache

from llm_lite.core.assets import ASSETS
from llm_lite.desktop.language.translate import mark

FOLDER = ASSETS / "languages"
DOMAIN = "llm_lite"
SYSTEM, ENGLISH = "system", "en"
# In a catalogue: the name of its language, as those who speak it write it.
OWN_NAME = mark("English")
log = logging.getLogger(__name__)


def languages() -> tuple[str, ...]:
    """List the codes of the languages that can be chosen, English first."""
    found = sorted(path.parts[-3] for path in FOLDER.glob(f"*/LC_MESSAGES/{DOMAIN}.mo"))
    return (ENGLISH, *found)


def catalogue(language: str) -> gettext.NullTranslations:
    """Load the catalogue of a language's code, or of "system"; English if it is missing or
    damaged."""
    code = system_language() if language == SYSTEM else language
    path = FOLDER / code / "LC_MESSAGES" / f"{DOMAIN}.mo"
    if code == ENGLISH or code not in languages():
        return gettext.NullTranslations()
    try:
        with path.open("rb") as file:
            return gettext.GNUTranslations(file)
    except (OSError, ValueError, struct.error) as error:
        log.warning("%s: not a catalogue (%s). Texts are in English.", path, error)
        return gettext.NullTranslations()


@lru_cache(maxsize=64)
def own_name(code: str) -> str:
    return catalogue(code).gettext(OWN_NAME)


def system_language() -> str:
    """Return the first language that the system prefers and that has a catalogue; else English."""
    known = languages()
    for wanted in _wanted():
        code = wanted.replace("-", "_").partition(".")[0].partition("@")[0]
        for name in (code, code.partition("_")[0].lower()):
            if name in known:
                return name
    return ENGLISH


def _wanted() -> list[str]:
    """List the system's languages, from the environment variables that gettext reads or from
    Windows' setting."""
    if sys.platform == "win32":
        number = ctypes.windll.kernel32.GetUserDefaultUILanguage()
        return [locale.windows_locale.get(number, "")]
    for variable in ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG"):
        if value := os.environ.get(variable):
            return value.split(":")
    return [locale.getlocale()[0] or ""]
