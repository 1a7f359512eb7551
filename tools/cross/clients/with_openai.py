"""OpenAI's client: a turn with a call by /v1/chat/completions, streamed, and by /v1/responses."""

import json
import os

import openai

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"name": "get_weather", "description": "The weather of a city.", "parameters": SCHEMA}


def main() -> None:
    client = openai.OpenAI(base_url=os.environ["BASE_URL"], api_key="none")
    model = client.models.list().data[0].id

    messages = [{"role": "user", "content": "What is the weather in Seoul?"}]
    tools = [{"type": "function", "function": WEATHER}]
    with client.chat.completions.stream(model=model, messages=messages, tools=tools) as stream:
        for _ in stream:
            pass
        answer = stream.get_final_completion().choices[0].message
    (call,) = answer.tool_calls
    assert json.loads(call.function.arguments) == {"city": "Seoul"}, call
    messages += [
        answer.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": call.id, "content": "rain"},
    ]
    made = client.chat.completions.create(model=model, messages=messages, tools=tools)
    print(made.choices[0].message.content)

    items = [{"role": "user", "content": "What is the weather in Seoul?"}]
    tools = [{"type": "function", "strict": True, **WEATHER}]
    with client.responses.stream(model=model, input=items, tools=tools) as stream:
        for _ in stream:
            pass
        response = stream.get_final_response()
    (call,) = (item for item in response.output if item.type == "function_call")
    items += [
        *(item.model_dump(exclude={"parsed_arguments"}) for item in response.output),
        {"type": "function_call_output", "call_id": call.call_id, "output": "rain"},
    ]
    print(client.responses.create(model=model, input=items, tools=tools).output_text)


if __name__ == "__main__":
    main()
