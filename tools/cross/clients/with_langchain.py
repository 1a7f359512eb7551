"""LangChain's ChatOpenAI: a model with a tool bound to it."""

import os

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI


@tool
def get_weather(city: str) -> str:
    """Tell the weather of a city."""
    return "rain"


def main() -> None:
    model = ChatOpenAI(base_url=os.environ["BASE_URL"], api_key="none", model="local")
    bound = model.bind_tools([get_weather])
    messages = [HumanMessage("What is the weather in Seoul?")]
    answer = None
    for chunk in bound.stream(messages):
        answer = chunk if answer is None else answer + chunk
    (call,) = answer.tool_calls
    messages += [answer, ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"])]
    print(bound.invoke(messages).content)


if __name__ == "__main__":
    main()
