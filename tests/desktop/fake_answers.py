"""What a fake engine answers: its texts, and the events that follow from a command alone."""

from collections.abc import Sequence

import numpy as np

from llm_lite.core.messages import (
    Alternative,
    AttentionRows,
    CacheMeasured,
    CheckKept,
    CountTokens,
    Generate,
    LensRow,
    MeasureCache,
    PooledPrefix,
    PromptToken,
    Read,
    ReadAttentionRows,
    ReadRouting,
    ReadStates,
    ResumeKept,
    RoutingRead,
    StatesRead,
    TokensCounted,
)
from tests.desktop.fake_model import MODEL, ROW

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


MORE = " And so the answer goes on."  # behind a beginning that is told
OTHER, OTHER_ID = " or", 777  # an alternative that every token has


def count(command: CountTokens) -> TokensCounted:
    """A token for each four characters."""
    kept = [len(text) for text in command.texts]
    for place, most in enumerate(command.most):
        kept[place] = min(kept[place], 4 * most)
    told = len(prompt_tokens(command)[:-2]) if command.messages else None
    tokens = tuple(k // 4 + 1 for k in kept)
    return TokensCounted(tokens, tuple(kept), conversation=told)


def begun(command: Generate) -> str:
    """All that a beginning spells."""
    begin = command.begin
    assert begin is not None
    ended = f"\n</think>\n\n{begin.content}" if begin.content else ""
    return begin.thought + ended if begin.thought else begin.content


def spell(tokens: tuple[int, ...]) -> tuple[str, ...]:
    """What tokens of ANSWER stand for, which are numbered."""
    pieces = pieces_of(ANSWER)
    return tuple(OTHER if token == OTHER_ID else pieces[token % 1000] for token in tokens)


def thinks(command: Generate) -> bool:
    return command.messages[-1].content.startswith(THINK)


PREFIXES = (
    PooledPrefix("Why do we dream?", 1240, 1240 * ROW * 60),
    PooledPrefix("Write a Python function that reverses a string", 311, 311 * ROW * 60),
)


def measured(command: MeasureCache, layers: int) -> CacheMeasured:
    """Every value says where it stands: layer + position / 1000."""
    places = range(command.first, command.last)
    values = tuple(tuple(n + p / 1000 for p in places) for n in range(layers))
    return CacheMeasured(command.what, command.first, 1, values)


def pieces_of(text: str) -> list[str]:
    return [text[i : i + 4] for i in range(0, len(text), 4)]


Told = Generate | Read | CheckKept | ResumeKept | CountTokens


def prompt_tokens(command: Told) -> tuple[PromptToken, ...]:
    """A template token and a line for each message, and a line before the answer."""
    tokens = []
    for index, message in enumerate(command.messages):
        tokens += [PromptToken(1, "<start>", -1), PromptToken(2, "\n", -1)]
        tokens += [PromptToken(3, piece, index) for piece in pieces_of(message.content)]
    return (*tokens, PromptToken(1, "<start>", -1), PromptToken(2, "\n", -1))


def look(command: ReadAttentionRows) -> AttentionRows:
    """Half of the attention rests on the first token, half on the token itself."""
    weights = [0.0] * (command.position + 1)
    weights[0] += 0.5
    weights[-1] += 0.5
    return AttentionRows(command.position, command.direction, tuple(weights))


def read_states(command: ReadStates, tokens: int, layers: Sequence[int]) -> StatesRead:
    """Half of what a token reads is its own, half of the text before; two heads a layer, of which
    the second forgets later."""
    count = min(tokens, command.positions)
    shares = np.eye(count) / 2
    half = (0.5,) * count
    lives = tuple((layer, (2.0 + layer, 500.0)) for layer in layers)
    rows = tuple(map(tuple, shares.tolist()))
    first, norms = tokens - count, tuple(range(1, count + 1))
    return StatesRead(command.layer, command.head, first, half, half, norms, rows, half, lives)


def read_routing(command: ReadRouting, tokens: int, layers: Sequence[int]) -> RoutingRead:
    """A token chooses the expert of its place among four, and the last of five."""
    places = np.arange(command.first, tokens)[:, None].repeat(len(layers), axis=1)
    chosen = np.stack([places % 4, np.full_like(places, 4)], axis=-1).astype("<u2")
    shares = np.broadcast_to(np.array([0.75, 0.25], "<f4"), chosen.shape)
    return RoutingRead(
        command.first, 0, 5, 2, tuple(layers), chosen.tobytes(), shares.astype("<f4").tobytes()
    )


def lens() -> tuple[LensRow, ...]:
    """From layer 20 on the last layer's word leads."""
    early = (Alternative(5, " the", 0.3), Alternative(6, " blue", 0.1))
    late = (Alternative(6, " blue", 0.8), Alternative(5, " the", 0.1))
    return tuple(LensRow(i, late if i >= 20 else early) for i in range(MODEL.layers))
