"""Texts to begin with, and one text in several languages."""

from __future__ import annotations

from llm_lite.desktop.language.translate import mark

# Languages are called as they call themselves. Article 1 of the Universal Declaration of Human
# Rights, in the words of its official translations.
LANGUAGES = (
    (
        "English",
        "All human beings are born free and equal in dignity and rights. They are endowed with "
        "reason and conscience and should act towards one another in a spirit of brotherhood.",
    ),
    (
        "한국어",
        "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 인간은 천부적으로 "
        "이성과 양심을 부여받았으며 서로 형제애의 정신으로 행동하여야 한다.",
    ),
    (
        "Deutsch",
        "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sind mit Vernunft "
        "und Gewissen begabt und sollen einander im Geist der Brüderlichkeit begegnen.",
    ),
    (
        "Español",
        "Todos los seres humanos nacen libres e iguales en dignidad y derechos y, dotados como "
        "están de razón y conciencia, deben comportarse fraternalmente los unos con los otros.",
    ),
    (
        "Русский",
        "Все люди рождаются свободными и равными в своем достоинстве и правах. Они наделены "
        "разумом и совестью и должны поступать в отношении друг друга в духе братства.",
    ),
)
EXAMPLES = (  # name, label, whether that is translated, text
    ("english", "English", False, "Tokenization is unbelievably interesting, isn't it?"),
    ("korean", "한국어", False, "안녕하세요! 오늘은 하늘이 정말 파랗습니다."),
    ("code", mark("Code"), True, "def area(r):\n    return 3.14159 * r ** 2  # πr²\n"),
    ("mixed", mark("Mixed"), True, "Café naïve — 2024년 1,234.56 👩‍👩‍👧‍👦 한국어 <|im_end|>"),
)
