"""Arguments of the Python API, checked and converted for the engine."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast, get_args

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import ArrayLike, NDArray

from llm_lite.core.checked import CheckError, convert
from llm_lite.core.errors import RequestError
from llm_lite.core.loading.accelerators import check_backend
from llm_lite.core.messages import (
    ACTIVATIONS,
    EXPERTS_IN,
    KV_TYPES,
    MODES,
    ChatMessage,
    EngineOptions,
    Gains,
    ModelInfo,
    Role,
    SamplingOptions,
)
from llm_lite.core.messages.interventions import Change, Interventions
from llm_lite.core.messages.sampling_options import OPTIONS

Message = ChatMessage | Mapping[str, str]  # {"role": "user", "content": "Hello"}
Text = str | Sequence[int] | NDArray[np.integer[Any]]  # a text, or the ids of its tokens
Chosen = int | Sequence[int] | None  # one, some or all layers or heads
# Interventions, one change, or several of them; vectors and rows may be arrays.
Changes = Interventions | Change | Mapping[str, Any] | Sequence[Change | Mapping[str, Any]]

_ROLES = get_args(Role)
_OTHER_NAMES = {"developer": "system", "function": "tool"}  # as OpenAI has them
_WORDS = {
    "mode": MODES,
    "activations": ACTIVATIONS,
    "experts": EXPERTS_IN,
    "keys": KV_TYPES,
    "values": KV_TYPES,
}
_CHOSEN = ("threads", "context")  # by the program where they are 0, or -1 as in other programs


def engine_options(given: Mapping[str, Any]) -> EngineOptions:
    """Check and return the options of `load`. RequestError for an unknown name, and for a value
    that an option does not have."""
    _check_names(given, EngineOptions, "load")
    for name, words in _WORDS.items():
        if name in given and given[name] not in words:
            raise RequestError(f"{name}: expected {_either(words)}, found {given[name]!r}")
    if "backend" in given:
        check_backend(given["backend"])
    _check_numbers(given, EngineOptions())
    chosen: dict[str, Any] = dict(given)
    chosen |= {name: 0 for name in _CHOSEN if chosen.get(name) == -1}
    return EngineOptions(**chosen)


def interventions_of(given: Changes) -> Interventions:
    """Check and return interventions. RequestError where a change is none."""
    if isinstance(given, Interventions):
        changes, made_for = list[Any](given.changes), (given.model, given.weights)
    else:
        one = isinstance(given, Struct | Mapping)
        changes, made_for = [given] if one else list(cast(Sequence[Any], given)), ("", "")
    try:
        plain = msgspec.to_builtins(changes, enc_hook=_array_as_list)
        model, weights = made_for
        return convert({"changes": plain, "model": model, "weights": weights}, Interventions)
    except CheckError as error:
        raise RequestError(f"interventions: {error}") from None
    except TypeError as error:
        raise RequestError(f"interventions: expected changes, found {error}") from None


def _array_as_list(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(type(value).__name__)


def sampling_options(given: Mapping[str, Any], model: ModelInfo | None = None) -> SamplingOptions:
    """Tuples may be lists, `stop` one text, `logit_bias` a dictionary and `json_schema` too. What
    is not given is as the `model` advises.

    RequestError for a name that is none, and for a value of another type.
    """
    _check_names(given, SamplingOptions, "generate")
    chosen = dict(given)
    stop, bias, schema = (chosen.get(name) for name in ("stop", "logit_bias", "json_schema"))
    if isinstance(stop, str):
        chosen["stop"] = (stop,)
    elif stop is not None:
        if not _is_list(stop) or not all(isinstance(one, str) for one in stop):
            raise RequestError(f"stop: expected a text or a list of texts, found {stop!r:.200}")
        chosen["stop"] = tuple(stop)
    if bias is not None:
        if not isinstance(bias, Mapping) and not _is_list(bias):
            expected = "expected a dictionary of ids and numbers"
            raise RequestError(f"logit_bias: {expected}, found {bias!r:.200}")
        pairs = bias.items() if isinstance(bias, Mapping) else bias
        chosen["logit_bias"] = tuple((int(token), float(value)) for token, value in pairs)
    if isinstance(schema, Mapping):
        chosen["json_schema"] = json.dumps(schema)
    _check_numbers(chosen, SamplingOptions())
    chosen = {name: OPTIONS[name].meant(value) for name, value in chosen.items()}
    return SamplingOptions(**chosen) if model is None else model.sampling(**chosen)


def messages_of(prompt: str | Sequence[Message]) -> tuple[ChatMessage, ...]:
    """Return the messages of a question, or of a conversation that ends with one. RequestError if
    it is neither."""
    if isinstance(prompt, str):
        return (ChatMessage("user", prompt),)
    if not _is_list(prompt):
        expected = "expected a question as text, or a list of messages"
        raise RequestError(f"prompt: {expected}, found {prompt!r:.200}")
    messages = tuple(_message(number, given) for number, given in enumerate(prompt))
    if not messages:
        raise RequestError("the conversation is empty: expected at least one message")
    return messages


def _is_list(given: Any) -> bool:
    return isinstance(given, Sequence) and not isinstance(given, str | bytes)


def gains_of(values: NDArray[Any]) -> Gains:
    """Return the rows of an array [layers, heads] as plain numbers."""
    return tuple(tuple(map(float, row)) for row in values)


def numbers_of(what: str, given: ArrayLike, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return given numbers. RequestError unless they are finite and of the shape, or a single
    one."""
    numbers = np.asarray(given)
    if numbers.shape not in ((), shape) or numbers.dtype.kind not in "biuf":
        found = f"{numbers.dtype} {list(numbers.shape)}"
        raise RequestError(f"{what}: expected {list(shape)} numbers, found {found}")
    if not np.isfinite(numbers.astype(np.float32)).all():
        raise RequestError(f"{what}: expected finite numbers")
    return numbers


def chosen_of(what: str, chosen: Chosen, count: int) -> Sequence[int]:
    """Return the chosen numbers of layers or heads; negative ones count from the end, as in
    NumPy."""
    if chosen is None:
        return range(count)
    if isinstance(chosen, int | np.integer):
        chosen = [int(chosen)]
    return [_counted(what, number, count) for number in chosen]


def place_of(position: int, count: int) -> int:
    """Return a position from 0 to `count` - 1; a negative one counts from the end. RequestError if
    it is outside."""
    if not -count <= position < count:
        raise RequestError(
            f"position {position} is not in the text, which has {count} tokens: 0 to {count - 1}"
        )
    return position % count


def _counted(what: str, number: int, count: int) -> int:
    if not -count <= number < count:
        last = count - 1
        raise RequestError(f"{what} {number} is not in the model, which has {what}s 0 to {last}")
    return int(number) % count


def _message(number: int, given: Message) -> ChatMessage:
    if isinstance(given, ChatMessage):
        return given
    where = f"message {number}"
    if not isinstance(given, Mapping):
        raise RequestError(f"{where}: expected a role and a content, found {type(given).__name__}")
    role, content = given.get("role"), given.get("content")
    role = _OTHER_NAMES.get(role, role) if isinstance(role, str) else role
    if role not in _ROLES:
        raise RequestError(f"{where}: role: expected {_either(_ROLES)}, found {role!r}")
    if not isinstance(content, str):
        raise RequestError(f"{where}: content: expected a text, found {type(content).__name__}")
    return ChatMessage(cast(Role, role), content, name=str(given.get("name", "")))


def _check_names(given: Mapping[str, Any], options: type[Struct], where: str) -> None:
    known = options.__struct_fields__
    for name in given:
        if name not in known:
            raise RequestError(f"{where}: there is no option {name!r}; there are {_listed(known)}")


def _check_numbers(given: Mapping[str, Any], usual: EngineOptions | SamplingOptions) -> None:
    for name, value in given.items():
        expected = getattr(usual, name)
        if isinstance(expected, float) and not isinstance(value, int | float | np.number):
            raise RequestError(f"{name}: expected a number, found {value!r}")
        whole = isinstance(value, int | np.integer)
        if isinstance(expected, int) and not whole:
            raise RequestError(f"{name}: expected a whole number, found {value!r}")
        if expected is None and not (value is None or whole):  # seed, device
            raise RequestError(f"{name}: expected a whole number or None, found {value!r}")


def _either(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _listed(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}"
