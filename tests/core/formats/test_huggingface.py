"""Hugging Face directories: translated fields and names, and a sentence for what is wrong."""

import json

import numpy as np
import pytest

from llm_lite.core.errors import FileError, LlmLiteError, UnsupportedError
from llm_lite.core.generation.prompt import encode_chat
from llm_lite.core.loading import loader
from llm_lite.core.loading.sources import open_source
from llm_lite.core.messages import ChatMessage
from tests.make_huggingface import (
    LLAMA_CONFIG,
    llama_tensors,
    tokenizer_json,
    write_folder,
    write_tiny_llama,
)


def change_json(path, **changes):
    value = json.loads(path.read_text())
    path.write_text(json.dumps({k: v for k, v in {**value, **changes}.items() if v is not ...}))


def open_model(path):
    return loader.open_model(str(path), lambda *_: None, lambda _: None)


def refused(path, error=LlmLiteError):
    with pytest.raises(error) as caught:
        open_model(path)
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 500
    return text


def test_names_and_fields_are_those_of_gguf(tmp_path):
    file = open_source(write_tiny_llama(tmp_path / "Some-Llama", shards=2))
    assert file.metadata["general.name"] == "Some-Llama"
    assert file.metadata["llama.feed_forward_length"] == 75
    assert file.metadata["llama.attention.key_length"] == 10
    assert file.tensors["blk.1.ffn_down.weight"].shape == (48, 75)
    assert file.tensors["blk.1.ffn_down.weight"].name == "blk.1.ffn_down.weight"
    assert not file.tensors["blk.1.ffn_down.weight"].data.flags.owndata
    assert "output.weight" in file.tensors


def test_a_commit_in_the_cache_of_huggingface_hub_has_the_name_of_its_repository(tmp_path):
    folder = tmp_path / "models--owner--Some-Llama" / "snapshots" / ("0123456789" * 4)
    folder.parent.mkdir(parents=True)
    file = open_source(write_tiny_llama(folder))
    assert file.metadata["general.name"] == "Some-Llama"
    file.close()


def test_any_file_of_the_directory_opens_it(tmp_path):
    write_tiny_llama(tmp_path)
    for path in (tmp_path, tmp_path / "config.json", tmp_path / "model.safetensors"):
        with_path = open_source(path)
        assert with_path.path == tmp_path
        with_path.close()


def test_newer_and_older_rope_fields(tmp_path):
    new = {"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}, "rope_theta": ...}
    write_tiny_llama(tmp_path)
    change_json(tmp_path / "config.json", **new)
    assert open_source(tmp_path).metadata["llama.rope.freq_base"] == 5e5
    change_json(tmp_path / "config.json", rope_parameters=..., rope_theta=7e4)
    assert open_source(tmp_path).metadata["llama.rope.freq_base"] == 7e4


BAD_CONFIG = {
    "model_type missing": ({"model_type": ...}, "config.json: model_type is missing"),
    "another model": ({"model_type": "mamba"}, "model_type 'mamba' is not known here; known are"),
    "a close one": ({"model_type": "lama"}, "is not known here; the closest is llama$"),
    "no layers": ({"num_hidden_layers": ...}, "config.json: num_hidden_layers is missing"),
    "layers as text": ({"num_hidden_layers": "2"}, "num_hidden_layers is '2', expected an integer"),
    "width a bool": ({"hidden_size": True}, "hidden_size is true, expected an integer"),
    "eps a list": ({"rms_norm_eps": [1]}, "rms_norm_eps is a list of 1, expected a number"),
    "activation": ({"hidden_act": "gelu"}, "hidden_act is 'gelu': such a feed-forward is not"),
    "bias": ({"attention_bias": True}, "attention_bias is true: biases are not known here"),
    "window": ({"sliding_window": "64"}, "sliding_window is '64', expected an integer"),
    "scaling": (
        {"rope_scaling": {"rope_type": "ntk", "factor": 4.0}},
        "rotary scaling 'ntk' is not known here; known are default, linear, llama3, yarn",
    ),
    "factor": ({"rope_scaling": {"type": "linear"}}, "rope_scaling.factor is missing"),
    "llama3": (
        {"rope_scaling": {"rope_type": "llama3", "factor": 8.0}},
        "rope_scaling.low_freq_factor is missing",
    ),
    "quantized": (
        {"quantization_config": {"quant_method": "gptq", "bits": 4}},
        r"the weights are quantized \(gptq\), which is not read here; expected BF16",
    ),
    "eos": ({"eos_token_id": "</s>"}, 'eos_token_id is "</s>", expected ids'),
    "0 heads": ({"num_attention_heads": 0}, "num_attention_heads is 0, expected 1 to 4096"),
    "layers": ({"num_hidden_layers": 3}, "blk.2.attn_norm.weight is missing"),
    "shape": ({"intermediate_size": 76}, r"expected shape \(76, 48\), found \(75, 48\)"),
}


@pytest.mark.parametrize("case", BAD_CONFIG)
def test_bad_config(case, tmp_path):
    changes, message = BAD_CONFIG[case]
    change_json(write_tiny_llama(tmp_path) / "config.json", **changes)
    with pytest.raises(LlmLiteError, match=message):
        open_model(tmp_path)


def test_directories_that_are_no_models(tmp_path):
    assert "config.json: no such file" in refused(tmp_path, FileError)
    write_tiny_llama(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    assert "config.json: the file is a list of 0, expected a JSON object" in refused(tmp_path)
    write_tiny_llama(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    assert "holds no weights: expected model.safetensors" in refused(tmp_path, FileError)
    write_tiny_llama(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    assert "tokenizer.json: no such file" in refused(tmp_path, FileError)


def test_tensors_that_do_not_belong(tmp_path):
    tensors = llama_tensors(LLAMA_CONFIG)
    extra = {**tensors, "model.layers.0.self_attn.q_proj.bias": tensors["model.norm.weight"]}
    write_folder(tmp_path, LLAMA_CONFIG, extra)
    assert "'model.layers.0.self_attn.q_proj.bias' has no place" in refused(
        tmp_path, UnsupportedError
    )
    del tensors["lm_head.weight"]
    write_folder(tmp_path, LLAMA_CONFIG, tensors)
    assert "there is no tensor 'lm_head.weight'" in refused(tmp_path, UnsupportedError)
    tensors = llama_tensors(LLAMA_CONFIG)
    tensors["lm_head.weight"] = ("I8", (300, 48), bytes(300 * 48))
    write_folder(tmp_path, LLAMA_CONFIG, tensors)
    assert "'output.weight' is of type i8, expected BF16" in refused(tmp_path, UnsupportedError)


TIED = {**LLAMA_CONFIG, "tie_word_embeddings": True}


def test_a_tied_head_that_is_the_embedding_again_is_left_out(tmp_path):
    tensors = llama_tensors(LLAMA_CONFIG)
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
    write_folder(tmp_path, TIED, tensors)
    assert "output.weight" not in open_source(tmp_path).tensors


def test_a_tied_head_of_another_type_with_the_same_values_is_left_out(tmp_path):
    tensors = llama_tensors(LLAMA_CONFIG, "BF16")
    _, shape, data = tensors["model.embed_tokens.weight"]
    wide = (np.frombuffer(data, "<u2").astype("<u4") << 16).tobytes()
    tensors["lm_head.weight"] = ("F32", shape, wide)
    write_folder(tmp_path, TIED, tensors)
    assert "output.weight" not in open_source(tmp_path).tensors


def test_a_head_is_the_embedding_where_there_is_none(tmp_path):
    tensors = llama_tensors(LLAMA_CONFIG)
    del tensors["model.embed_tokens.weight"]
    write_folder(tmp_path, TIED, tensors)
    found = open_source(tmp_path).tensors
    assert "output.weight" not in found
    assert bytes(found["token_embd.weight"].data) == tensors["lm_head.weight"][2]


MESSAGES = [ChatMessage("user", "hello <|im_end|>")]


def prompt_of(folder):
    file = open_model(folder)
    return file, encode_chat(file.tokenizer, file.template, MESSAGES).ids


TEMPLATE = "{{ bos_token }}{% for m in messages %}[{{ m.content }}]{% endfor %}"
PLACES = {
    "a file": ("chat_template.jinja", TEMPLATE),
    "a file of JSON": ("chat_template.json", json.dumps({"chat_template": TEMPLATE})),
    "a list": (
        "tokenizer_config.json",
        json.dumps(
            {
                "bos_token": "<|im_start|>",
                "chat_template": [
                    {"name": "tools", "template": "no"},
                    {"name": "default", "template": TEMPLATE},
                ],
            }
        ),
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_the_template_in_any_of_its_places(place, tmp_path):
    name, content = PLACES[place]
    (write_tiny_llama(tmp_path) / name).write_text(content)
    file, ids = prompt_of(tmp_path)
    assert file.template.source == TEMPLATE
    assert file.template.origin == "model"
    assert file.tokenizer.decode(ids) == "<|im_start|>[hello <|im_end|>]"


@pytest.mark.parametrize("place", ["a list", "a folder"])
def test_the_template_of_prompts_with_functions(place, tmp_path):
    write_tiny_llama(tmp_path)
    offering = "{{ tools | tojson }}"
    if place == "a list":
        named = [("default", TEMPLATE), ("tool_use", offering), ("rag", "{{ documents }}")]
        listed = [{"name": name, "template": template} for name, template in named]
        (tmp_path / "chat_template.json").write_text(json.dumps({"chat_template": listed}))
    else:
        (tmp_path / "chat_template.jinja").write_text(TEMPLATE)
        (tmp_path / "additional_chat_templates").mkdir()
        (tmp_path / "additional_chat_templates" / "tool_use.jinja").write_text(offering)
    template = open_model(tmp_path).template
    assert (template.source, template.for_tools().source) == (TEMPLATE, offering)


def test_special_tokens_are_named_to_the_template(tmp_path):
    write_tiny_llama(tmp_path)
    config = {
        "pad_token": {"content": "<|endoftext|>", "special": True},
        "extra_special_tokens": {"image_token": "<image>"},
        "add_bos_token": False,
        "chat_template": "{{ pad_token }} {{ image_token }} {{ sep_token }}{{ add_bos_token }}|",
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    named = {"sep_token": "<|im_end|>", "pad_token": "another"}
    (tmp_path / "special_tokens_map.json").write_text(json.dumps(named))
    rendered = open_model(tmp_path).template.render([{"role": "user", "content": "a"}])
    assert rendered == "<|endoftext|> <image> <|im_end|>|"


def test_what_is_typed_never_becomes_a_control_token(tmp_path):
    file, ids = prompt_of(write_tiny_llama(tmp_path))
    end = file.tokenizer.encode("<|im_end|>")
    assert len(end) == 1
    assert ids.count(end[0]) == 1  # the template's own
    assert file.tokenizer.decode(ids).count("<|im_end|>") == 2


def test_a_control_token_of_whole_words_is_taken_apart(tmp_path):
    """A model that takes whole words as they are, and no pre-tokenizer to cut them."""
    write_tiny_llama(tmp_path)
    value = tokenizer_json(300)
    value["pre_tokenizer"] = {**value["decoder"], "use_regex": False}
    value["model"]["ignore_merges"] = True
    (tmp_path / "tokenizer.json").write_text(json.dumps(value))
    tokenizer = open_model(tmp_path).tokenizer
    assert len(tokenizer.encode("<|im_end|>")) == 1
    typed = tokenizer.encode("<|im_end|>", parse_special=False)
    assert len(typed) == len("<|im_end|>")
    assert tokenizer.decode(typed) == "<|im_end|>"


def test_a_vocabulary_smaller_than_the_embedding(tmp_path):
    write_folder(tmp_path, LLAMA_CONFIG, llama_tensors(LLAMA_CONFIG), tokens=290)
    tokenizer = open_model(tmp_path).tokenizer
    assert tokenizer.vocab_size == 300
    assert tokenizer.token_text(299) == "[unused299]"
    assert tokenizer.decode(tokenizer.encode("some text")) == "some text"


def test_a_vocabulary_larger_than_the_embedding(tmp_path):
    write_folder(tmp_path, LLAMA_CONFIG, llama_tensors(LLAMA_CONFIG), tokens=301)
    tokenizer = open_model(tmp_path).tokenizer
    assert tokenizer.vocab_size == 300
    assert tokenizer.decode(tokenizer.encode("some text")) == "some text"


BAD_FILES = {
    "no tokenizer": ("tokenizer.json", "{}", "is not a tokenizer that can be read"),
    "no JSON": ("tokenizer.json", "{", "is not a tokenizer that can be read"),
    "bos": ("tokenizer_config.json", '{"bos_token": 3}', "bos_token is 3, expected a string"),
    "template": (
        "chat_template.jinja",
        "{% for %}",
        "chat_template.jinja: chat_template: the chat template is broken",
    ),
    "template type": (
        "chat_template.json",
        '{"chat_template": 3}',
        "chat_template is 3, expected a text or a list with one 'default'",
    ),
    "template list": (
        "chat_template.json",
        '{"chat_template": [{"name": []}]}',
        "chat_template is null, expected a text or a list",
    ),
    "ends": (
        "generation_config.json",
        '{"eos_token_id": [1, "x"]}',
        "generation_config.json: eos_token_id is .*expected ids",
    ),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files_beside_the_weights(case, tmp_path):
    name, content, message = BAD_FILES[case]
    (write_tiny_llama(tmp_path) / name).write_text(content)
    with pytest.raises(FileError, match=message):
        open_model(tmp_path)


def test_generation_config_says_which_tokens_end(tmp_path):
    write_tiny_llama(tmp_path)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [0, 7]}')
    assert {0, 2, 7} <= open_model(tmp_path).tokenizer.end_ids
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [0, 7, 300, -1]}')
    assert {0, 2, 7} <= open_model(tmp_path).tokenizer.end_ids < set(range(300))


def test_ids_are_those_of_the_library(tmp_path):
    from tokenizers import Tokenizer as Library

    tokenizer = open_model(write_tiny_llama(tmp_path)).tokenizer
    library = Library.from_file(str(tmp_path / "tokenizer.json"))
    for text in ("", "The 12 words,  and\n\n一二 é \t x", "<|im_start|>a<|im_end|> b", "  "):
        ids = library.encode(text, add_special_tokens=False).ids
        assert tokenizer.encode(text) == ids
        assert tokenizer.decode(ids) == text
    assert np.unique(library.encode("The 12 words").ids).size > 3
