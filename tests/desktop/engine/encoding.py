"""What a scripted engine says as an encoder: a token a word, and numbers that say where they
stand."""

from __future__ import annotations

from llm_lite.core.messages import CompareTexts, EncodeText, ModelInfo, TextEncoded, TextsCompared
from llm_lite.core.messages.encoding import Candidate, EncodedToken, EncoderInfo, Mask
from llm_lite.core.records import replace

MASK = "[MASK]"
WORDS = ("capital", "heart", "##ville", "centre")
SPECIAL = ("[CLS]", "[SEP]", MASK)


def as_encoder(model: ModelInfo, **changes: object) -> ModelInfo:
    """The model as if it were one, with a masked-token head and pairs."""
    known = EncoderInfo(256, 384, MASK, has_pairs=True)
    encoder = replace(known, **changes)  # type: ignore[arg-type]
    return replace(model, name="MiniLM", encoder=encoder, layers=6, heads=12)


def encoded(command: EncodeText) -> TextEncoded:
    """Masks count where the text `fills`."""
    first = (SPECIAL[0], *command.text.split(), SPECIAL[1])
    second = (*command.pair.split(), SPECIAL[1]) if command.pair else ()
    names = [*((word, 0) for word in first), *((word, 1) for word in second)]
    tokens = tuple(EncodedToken(100 + len(w), w, w in SPECIAL, at) for w, at in names)
    places = [at for at, word in enumerate(first) if word == MASK and command.fills]
    masks = tuple(Mask(place, candidates(place)) for place in places)
    return TextEncoded(tokens, 0, masks, 0.0031)


def candidates(place: int) -> tuple[Candidate, ...]:
    return tuple(
        Candidate(number, word, 0.5 ** (number + 1)) for number, word in enumerate(WORDS, place)
    )


def compared(command: CompareTexts) -> TextsCompared:
    """1 with itself, and less the further two texts stand apart."""
    count = range(len(command.texts))
    rows = tuple(tuple(1.0 - 0.3 * abs(i - j) for j in count) for i in count)
    return TextsCompared(rows, 0.004)
