"""Fields, types and bodies that several addresses share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from msgspec import Meta, Struct

from llm_lite.core.checked import CheckError
from llm_lite.core.files.json_text import found
from llm_lite.core.messages import Gains, ModelInfo
from llm_lite.core.messages.gains import AS_ROUTED, CHOICES, changes_of
from llm_lite.core.messages.interventions import Change, Interventions
from llm_lite.core.records import replace
from llm_lite.server.schema import Body, Custom, Schema, Unsupported, about, components, read

MOST_LISTED = 1 << 20
LONGEST_LIMIT = 1 << 30  # tokens
MOST_PROMPTS = 2048  # as many texts as OpenAI takes in a request
MOST_GAIN = 1e6

FullText = Annotated[str, Meta(min_length=1)]
TokenId = Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
TokenIds = Annotated[list[TokenId], Meta(min_length=1, max_length=MOST_LISTED)]
Choices = Annotated[int, Meta(ge=1, le=16)]


class Texts(Custom):
    """A value is a text, the tokens of one, or a list of texts or of lists of tokens."""

    most: int

    def __init__(self, items: list[str | list[int]]) -> None:
        self.items = items

    @classmethod
    def read(cls, value: Any) -> Self:
        if isinstance(value, str):
            return cls([read(FullText, value)])
        first = value[0] if isinstance(value, list) and value else None
        if isinstance(first, int | float) and not isinstance(first, bool):
            return cls([read(TokenIds, value)])
        kind = TokenIds if isinstance(first, list) else FullText
        if not isinstance(value, list):
            expected = "expected a text, tokens, or a list of either"
            raise CheckError("", f"{expected}, found {found(value)}")
        return cls(read(cls._list_of(kind), value))

    @classmethod
    def schema(cls) -> Schema:
        kinds = (FullText, TokenIds, cls._list_of(FullText), cls._list_of(TokenIds))
        return {"anyOf": components(kinds)[0]}

    @classmethod
    def _list_of(cls, kind: Any) -> Any:
        return Annotated[list[kind], Meta(min_length=1, max_length=cls.most)]


class Prompts(Texts):
    most = MOST_PROMPTS


def whole_number(value: Any) -> int | None:
    """Return the whole number that a value of JSON is; None where it is none."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


class TokenLimit(int, Custom):
    """A value says how many tokens an answer may have; -1, as other servers have it, is no
    limit."""

    @classmethod
    def read(cls, value: Any) -> Self:
        number = whole_number(value)
        if number is None or (number != -1 and not 1 <= number <= LONGEST_LIMIT):
            expected = f"expected -1, or a whole number from 1 to {LONGEST_LIMIT}"
            raise CheckError("", f"{expected}, found {found(value)}")
        return cls(number)

    @classmethod
    def schema(cls) -> Schema:
        return {"type": "integer", "minimum": -1, "maximum": LONGEST_LIMIT, "not": {"const": 0}}


class _NoObject(Unsupported):
    neutral: ClassVar[dict[str, Any]] = {}


class _NoList(Unsupported):
    neutral: ClassVar[list[Any]] = []


class _NoText(Unsupported):
    neutral = ""


class _NoFlag(Unsupported):
    neutral = False


class _NoNumber(Unsupported):
    neutral = 0


class _NoCall(Unsupported):
    neutral = "none"


_ABOUT = about("Not supported here.")
WithoutObject = Annotated[_NoObject | None, _ABOUT]
WithoutList = Annotated[_NoList | None, _ABOUT]
WithoutText = Annotated[_NoText | None, _ABOUT]
WithoutFlag = Annotated[_NoFlag | None, _ABOUT]
WithoutNumber = Annotated[_NoNumber | None, _ABOUT]
WithoutCall = Annotated[_NoCall | None, _ABOUT]
NoEffect = Annotated[str | None, about("Has no effect here.")]


class ModelBody(Body, kw_only=True):
    model: Annotated[
        Annotated[str, Meta(max_length=512)] | None,
        about("Any: the model in use answers, and says its name."),
    ] = None


class UserBody(ModelBody, kw_only=True):
    user: Annotated[
        Annotated[str, Meta(max_length=512)] | None, about("Whose turn it is: users take turns.")
    ] = None


class StreamOptions(Struct):
    include_usage: Annotated[
        bool | None, about("A last event tells how many tokens there were.")
    ] = None
    include_obfuscation: bool | None = None


class HeadGain(Struct):
    layer: Annotated[int, Meta(ge=0)]
    head: Annotated[int, Meta(ge=0)]
    gain: Annotated[float, Meta(ge=-MOST_GAIN, le=MOST_GAIN)]


_CHOICES: dict[str, float] = {"router": AS_ROUTED} | {**CHOICES}


class ExpertSwitch(Struct):
    layer: Annotated[int, Meta(ge=0)]
    expert: Annotated[int, Meta(ge=0)]
    gain: Annotated[
        Annotated[float, Meta(ge=-MOST_GAIN, le=MOST_GAIN)],
        about("What its share is multiplied by: 0 switches it off."),
    ] = 1.0
    choice: Annotated[
        Literal["router", "always", "last"],
        about("Whether the router chooses, tokens always do, or only after all others."),
    ] = "router"


class AnswerBody(UserBody, kw_only=True):
    """This is a request for an answer that a model writes."""

    stream: Annotated[bool, about("Server-sent events as it is written.")] = False
    head_gains: Annotated[
        Annotated[list[HeadGain], Meta(max_length=MOST_LISTED)] | None,
        about("What outputs of heads are multiplied by: 0 ablates a head, all others have 1."),
    ] = None
    expert_switches: Annotated[
        Annotated[list[ExpertSwitch], Meta(max_length=MOST_LISTED)] | None,
        about("Experts of a mixture that count otherwise than the router says."),
    ] = None
    interventions: Annotated[
        Annotated[list[Change], Meta(max_length=MOST_LISTED)] | Interventions | None,
        about(
            "Scales of heads and experts, and shifts of what layers leave, while the prompt is "
            "read and the answer written; or an object as a file of them is, which may name the "
            "model and the weights that they are for."
        ),
    ] = None
    # What OpenAI's own service has and a machine of one's own has no use for. It may be given.
    metadata: Annotated[
        Annotated[dict[str, Any], Meta(max_length=16)] | None, about("Has no effect here.")
    ] = None
    store: Annotated[bool | None, about("Has no effect here: nothing is stored.")] = None
    service_tier: NoEffect = None
    safety_identifier: NoEffect = None
    prompt_cache_key: Annotated[
        str | None, about("Has no effect here: prefixes are found by their tokens.")
    ] = None
    prompt_cache_retention: NoEffect = None
    # By vLLM's and llama.cpp's names: what an answer is held to, and where it ends.
    guided_json: WithoutObject = None
    structured_outputs: WithoutObject = None
    guided_regex: WithoutText = None
    guided_grammar: WithoutText = None
    guided_choice: WithoutList = None
    stop_token_ids: WithoutList = None
    bad_words: WithoutList = None
    allowed_token_ids: WithoutList = None
    lora: WithoutList = None
    grammar_triggers: WithoutList = None
    grammar_lazy: WithoutFlag = None
    ignore_eos: WithoutFlag = None
    use_beam_search: WithoutFlag = None
    min_tokens: WithoutNumber = None


def interventions_of(body: AnswerBody, model: ModelInfo) -> Interventions:
    """Return the interventions of a request, gains of heads and switches of experts among them; the
    service checks them against the model. CheckError where it has no such head or expert."""
    given = body.interventions or ()
    whole = given if isinstance(given, Interventions) else Interventions(tuple(given))
    if not (body.head_gains or body.expert_switches):
        return whole
    gains = changes_of(_gains_of(body, model), model)
    return replace(whole, changes=(*whole.changes, *gains))


def _gains_of(body: AnswerBody, model: ModelInfo) -> Gains:
    gains = [[1.0] * width for width in model.gain_widths]
    for index, wanted in enumerate(body.head_gains or ()):
        where = f"head_gains[{index}]"
        _check_number(f"{where}.layer", wanted.layer, range(model.layers))
        _check_number(f"{where}.head", wanted.head, range(model.heads))
        gains[wanted.layer][wanted.head] = wanted.gain
    for index, switch in enumerate(body.expert_switches or ()):
        where = f"expert_switches[{index}]"
        _check_number(f"{where}.layer", switch.layer, model.expert_layers)
        _check_number(f"{where}.expert", switch.expert, range(model.experts))
        row = gains[model.gain_rows + switch.layer]
        row[switch.expert] = switch.gain
        row[model.experts + switch.expert] = _CHOICES[switch.choice]
    return tuple(map(tuple, gains))


def _check_number(param: str, number: int, known: Sequence[int]) -> None:
    if number in known:
        return
    if not known:
        raise CheckError(param, "the model has no experts")
    expected = f"{known[0]} to {known[-1]}"
    if len(known) != known[-1] - known[0] + 1:
        expected = f"one of {', '.join(map(str, known))}"
    raise CheckError(param, f"expected {expected}, found {number}")
