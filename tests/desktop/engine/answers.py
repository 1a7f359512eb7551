"""What a scripted engine writes of itself, and how it thinks."""

from __future__ import annotations

from collections.abc import Sequence

from llm_lite.core.messages import ChatMessage, Generate

ANSWER = (
    "Sunlight looks white, but it is made of **all colours**. On its way through the air it meets "
    "tiny molecules of nitrogen and oxygen, and these scatter *short* waves much more than long "
    "ones.\n\nSo:\n\n- Blue light is scattered about `5.5` times as much as red light.\n- It "
    "reaches your eyes from every part of the sky.\n- At sunset the path is longer, and the red "
    "is what is left.\n\n### In numbers\n\nThe scattering grows with the fourth power of the "
    'frequency:\n\n```python\ndef scattering(wavelength_nm: float) -> float:\n    """Relative '
    'to 700 nm."""\n    return (700 / wavelength_nm) ** 4\n\n\nprint(scattering(450))  # 5.86\n'
    "```\n\n1. Measure the wavelength.\n2. Divide, and take the fourth power."
)
KOREAN = (
    "하늘이 파란 이유는 **레일리 산란** 때문입니다. 햇빛은 여러 색의 빛이 섞인 것인데, 공기 중의 "
    "분자들이 파장이 짧은 파란빛을 훨씬 더 많이 흩뿌립니다. 그래서 하늘 어디를 보아도 파랗게 "
    "보입니다. 😀"
)
THOUGHT = (
    "The user asks for the colour of the sky. I should say why it is blue, and not only that it "
    "is.\n\nShort waves are scattered more than long ones: Rayleigh. Violet more still, but the "
    "eye sees less of it, and the sun sends less.\n\nI will give the reason, and then the numbers."
)
THINK = "Think hard: "  # a question that begins so is answered with thoughts
MORE = " And so the answer goes on."  # behind a beginning that is given
OTHER = " or"  # an alternative that every token has


def pieces_of(text: str) -> list[str]:
    return [text[i : i + 4] for i in range(0, len(text), 4)]


def thinks(command: Generate) -> bool:
    return command.messages[-1].content.startswith(THINK)


def begun(begin: ChatMessage) -> str:
    """Return all that a beginning spells."""
    ended = f"\n</think>\n\n{begin.content}" if begin.content else ""
    return begin.thought + ended if begin.thought else begin.content


def answer_to(command: Generate) -> str:
    """Return what is written by itself: in the language of the question, behind thoughts where it
    is to think."""
    korean = any("\uac00" <= c <= "\ud7a3" for c in command.messages[-1].content)
    answer = KOREAN if korean else ANSWER
    return f"{THOUGHT}\n</think>\n\n{answer}" if thinks(command) else answer


def steered(pieces: Sequence[str]) -> list[str]:
    """Return an answer under interventions: from its third token on, all are others."""
    return [*pieces[:2], *(piece.swapcase() + "~" for piece in pieces[2:])]
