"""/encode runs an encoder over a text and gives its tokens, with candidates for masked ones.
/inspect answers what happened inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from msgspec import Struct
from msgspec.structs import asdict
from starlette.responses import Response

from llm_lite.core.messages import EncodeText, TextEncoded
from llm_lite.server.call import Call
from llm_lite.server.openai.request import UserBody
from llm_lite.server.schema import about
from llm_lite.server.sending import LargeResponse


class EncodeRequest(UserBody, kw_only=True):
    text: Annotated[str, about("Special tokens that are typed in it are plain text.")]
    pair: Annotated[
        str, about("A second text, behind the tokenizer's separator; empty: there is one.")
    ] = ""
    fills: Annotated[bool, about("Mask tokens in `text` count as such, and are to be filled.")] = (
        False
    )


class Encoded(Struct, kw_only=True):
    id: Annotated[str, about("What /inspect calls the text.")]
    encoded: TextEncoded


async def encode(call: Call) -> Response:
    body: EncodeRequest = call.body
    asked = EncodeText(body.text, body.pair, body.fills)

    def work(is_left: Callable[[], bool]) -> Response:
        made = call.service.encode(asked, is_left)
        return LargeResponse(asdict(Encoded(id=made.response, encoded=made.encoded)))

    return await call.in_thread(work, at_length=True)
