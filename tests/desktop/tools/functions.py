"""A function that a model may call, and how it calls one."""

WEATHER = """[{"name": "weather", "description": "The weather in a city.", "parameters":
{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}]"""


def call(name, arguments):
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'
