"""OpenAI's agents, by both of the addresses that they can ask."""

import asyncio
import os

from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI

set_tracing_disabled(True)


@function_tool
def get_weather(city: str) -> str:
    """Tell the weather of a city."""
    return "rain"


async def main() -> None:
    client = AsyncOpenAI(base_url=os.environ["BASE_URL"], api_key="none")
    for kind in (OpenAIChatCompletionsModel, OpenAIResponsesModel):
        model = kind(model="local", openai_client=client)
        agent = Agent(name="a", instructions="Be brief.", tools=[get_weather], model=model)
        result = Runner.run_streamed(agent, "What is the weather in Seoul?")
        async for _ in result.stream_events():
            pass
        print(result.final_output)


if __name__ == "__main__":
    asyncio.run(main())
