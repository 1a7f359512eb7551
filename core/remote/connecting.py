"""The connection to a server: its dialect by what only it answers, and the models that it has."""

from __future__ import annotations

from typing import Any

from llm_lite.core.checked import CheckError, convert
from llm_lite.core.errors import CancelledError, RequestError
from llm_lite.core.messages import CacheLayerInfo
from llm_lite.core.messages.encoding import EncoderInfo
from llm_lite.core.messages.remote import DialectName, RemoteModel, RemoteServer
from llm_lite.core.plain_text import one_line, quote, shortened
from llm_lite.core.records import replace
from llm_lite.core.remote.client import Client, Exchange
from llm_lite.core.remote.dialects import DIALECTS
from llm_lite.core.remote.failures import RemoteError
from llm_lite.core.remote.json_fields import a_list, an_object, text, whole

MOST_MODELS = 500
_OTHERS = {"library": "Ollama", "openai": "OpenAI", "system": "OpenAI", "openai-internal": "OpenAI"}
_MOST_LAYERS = 1024
_DETAIL_SECONDS = 5.0  # for what is good to know, and no more


def connect(client: Client, exchange: Exchange) -> RemoteServer:
    """Connect to a server. RemoteError says why nothing answers there, or that it is no server of
    this protocol."""
    host = client.address.host
    found = client.get_json("/v1/models", exchange)
    rows = [an_object(row) for row in a_list(an_object(found).get("data"))[:MOST_MODELS]]
    rows = [row for row in rows if text(row.get("id"))]
    if not isinstance(found, dict) or not isinstance(found.get("data"), list):
        raise RemoteError(f"{host} answers /v1/models with another JSON than a list of models")
    if not rows:
        raise RemoteError(f"{host} has no model: load one there first")
    name = _dialect(rows)
    if name == "openai" and _is_lm_studio(rows):
        name = "lm-studio"
    dialect = DIALECTS[name]
    models, version = _described(name, rows, client, exchange)
    return RemoteServer(
        client.address.base,
        host,
        name,
        dialect.title or _OTHERS.get(text(rows[0].get("owned_by")), "Server"),
        version,
        models,
        lacks=dialect.lacks,
        continues=bool(dialect.continuing),
        switches_thinking=dialect.switches_thinking,
        counts_tokens=bool(dialect.counting),
        can_inspect=name == "llm-lite",
    )


def chosen(server: RemoteServer, name: str | None = None) -> RemoteModel:
    """Return the model of a name, or one that is loaded. RequestError lists what there is, or says
    that the model can only be asked for vectors."""
    if name is None:
        able = [model for model in server.models if not model.makes_vectors_only] or server.models
        name = next((model for model in able if model.loaded), able[0]).name
    found = next((model for model in server.models if model.name == name), None)
    if found is None:
        names = shortened(", ".join(model.name for model in server.models), 600)
        raise RequestError(f"{server.host} has no model {quote(name)}; it has {names}")
    if found.makes_vectors_only:
        raise RequestError(
            f"{found.title} makes vectors of texts, and {server.title} at {server.host} tells no "
            "more of them: expected a model that answers, or an encoder that llm-lite serves"
        )
    return found


def _dialect(rows: list[dict[str, Any]]) -> DialectName:
    match text(rows[0].get("owned_by")):
        case "llm-lite":
            return "llm-lite"
        case "vllm":
            return "vllm"
        case "llamacpp":
            return "llama-server"
        case "me":
            return "llama-cpp-python"
        case "organization_owner":
            return "lm-studio"
    return "openai"


def _is_lm_studio(rows: list[dict[str, Any]]) -> bool:
    return text(rows[0].get("owned_by")).lower().startswith("lm")


def _described(
    name: DialectName, rows: list[dict[str, Any]], client: Client, exchange: Exchange
) -> tuple[tuple[RemoteModel, ...], str]:
    """Return models and version, by one more question; a server that does not answer it is
    described by less."""
    if name == "llm-lite":
        models = tuple(_our_own(row, client.address.host) for row in rows)
        return models, one_line(text(rows[0].get("version"), 60))
    if name == "vllm":
        version = text(_detail(client, exchange, "/version").get("version"), 60)
        return tuple(_plain(row) for row in rows), one_line(version)
    if name == "llama-server":
        props = _detail(client, exchange, "/props")
        build = one_line(text(props.get("build_info"), 60))
        return tuple(_llama(row, props) for row in rows), build
    if name == "lm-studio":
        more = {
            text(row.get("id")): row
            for row in map(
                an_object, a_list(_detail(client, exchange, "/api/v0/models").get("data"))
            )
        }
        return tuple(_lm_studio(row, more.get(text(row["id"]), {})) for row in rows), ""
    return tuple(_plain(row) for row in rows), one_line(text(rows[0].get("version"), 60))


def _detail(client: Client, exchange: Exchange, path: str) -> dict[str, Any]:
    try:
        return an_object(client.get_json(path, exchange, _DETAIL_SECONDS))
    except CancelledError:
        raise
    except RemoteError:
        return {}


def _our_own(row: dict[str, Any], host: str) -> RemoteModel:
    """Return a model of llm-lite. RemoteError where what it says of an encoder is nothing usable:
    the window's page is made of it."""
    model, found = _plain(row), row.get("encoder")
    if found is None:
        return model
    try:
        encoder = convert(found, EncoderInfo, "encoder")
        if not encoder.mask_token.isprintable():
            named = quote(encoder.mask_token)
            raise CheckError("encoder.mask_token", f"expected a text in one line, found {named}")
        if not (model.layers and model.heads):
            found = f"{model.layers} layers, {model.heads} heads"
            raise CheckError("layers", f"expected those of an encoder, found {found}")
    except CheckError as error:
        problem = shortened(str(error), 200)
        raise RemoteError(f"{host} tells nothing usable of its model: {problem}") from None
    return replace(model, encoder=encoder)


def _plain(row: dict[str, Any]) -> RemoteModel:
    """Return a model by vLLM's fields; llm-lite adds its own."""
    meta = an_object(row.get("meta")) or row
    context = whole(row.get("max_model_len")) or whole(row.get("context_length"))
    return RemoteModel(
        one_line(text(row["id"])),
        context,
        trained_context=whole(meta.get("trained_context")) or context,
        parameters=whole(meta.get("parameters")),
        file_bytes=whole(meta.get("file_bytes")),
        vocabulary=whole(meta.get("vocabulary")),
        width=whole(meta.get("width")),
        layers=min(whole(meta.get("layers")), _MOST_LAYERS),
        heads=min(whole(meta.get("heads")), 1024),
        kv_heads=min(whole(meta.get("kv_heads")), 1024),
        head_dim=min(whole(meta.get("head_dim")), 1 << 16),
        cache_layers=_cache_layers(meta.get("cache_layers"), context),
        architecture=one_line(text(meta.get("architecture"), 60)),
        weights=one_line(text(meta.get("mode"), 40)),
        calls_functions=row.get("calls_functions") is not False,
        switches_thinking=row.get("switches_thinking") is not False,
    )


def _cache_layers(found: Any, context: int) -> tuple[CacheLayerInfo, ...]:
    """Return the layers with keys and values of their own, which pages hold of all positions."""
    rows = (an_object(one) for one in a_list(found)[:_MOST_LAYERS])
    return tuple(
        CacheLayerInfo(
            whole(row.get("layer")),
            tuple(whole(one) for one in a_list(row.get("shared_with"))[:_MOST_LAYERS]),
            context,
            whole(row.get("window")),
            whole(row.get("key_row_bytes")),
            whole(row.get("value_row_bytes")),
        )
        for row in rows
    )


def _llama(row: dict[str, Any], props: dict[str, Any]) -> RemoteModel:
    meta = an_object(row.get("meta"))
    settings = an_object(props.get("default_generation_settings"))
    return RemoteModel(
        one_line(text(row["id"])),
        whole(settings.get("n_ctx")) or whole(meta.get("n_ctx")),
        trained_context=whole(meta.get("n_ctx_train")),
        parameters=whole(meta.get("n_params")),
        file_bytes=whole(meta.get("size")),
        vocabulary=whole(meta.get("n_vocab")),
        width=whole(meta.get("n_embd")),
    )


def _lm_studio(row: dict[str, Any], more: dict[str, Any]) -> RemoteModel:
    return RemoteModel(
        one_line(text(row["id"])),
        whole(more.get("loaded_context_length")) or whole(more.get("max_context_length")),
        trained_context=whole(more.get("max_context_length")),
        architecture=one_line(text(more.get("arch"), 60)),
        weights=one_line(text(more.get("quantization"), 40)),
        loaded=text(more.get("state")) != "not-loaded",
        makes_vectors_only=text(more.get("type")) == "embeddings",
    )
