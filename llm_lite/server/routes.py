"""All addresses of the server, a row each."""

from __future__ import annotations

from llm_lite.server.openai.chat import chat
from llm_lite.server.openai.chat_request import CHAT
from llm_lite.server.openai.models import model, models
from llm_lite.server.tables.endpoint import EVENTS, JSON, Endpoint, Given
from llm_lite.server.tables.kinds import AnyObject, Field, Text

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "GET",
        "/v1/models",
        "Which model answers.",
        models,
        Given("The model in use, if there is one.", ((JSON, AnyObject()),)),
        needs_model=False,
    ),
    Endpoint(
        "GET",
        "/v1/models/{model:path}",
        "What is known of it.",
        model,
        Given("The model.", ((JSON, AnyObject()),)),
        in_path=(Field("model", Text(least=1, most=512), required=True),),
        finds="the model",
    ),
    Endpoint(
        "POST",
        "/v1/chat/completions",
        "Go on with a conversation.",
        chat,
        Given("The answer; with stream, its events.", ((JSON, AnyObject()), (EVENTS, None))),
        body=CHAT,
        finds="the model",
        waits=True,
    ),
)
