// The AI SDK with its provider for compatible servers, and with OpenAI's own (/v1/responses).
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const near = createRequire(`${process.env.PACKAGES}/`);
const load = (name) => import(pathToFileURL(near.resolve(name)).href);
const { generateText, isStepCount, stepCountIs, streamText, tool } = await load("ai");
const { createOpenAICompatible } = await load("@ai-sdk/openai-compatible");
const { createOpenAI } = await load("@ai-sdk/openai");
const { z } = await load("zod");

const baseURL = process.env.BASE_URL;
const getWeather = tool({
  description: "The weather of a city.",
  inputSchema: z.object({ city: z.string() }),
  execute: async () => "rain",
});
const asked = {
  prompt: "What is the weather in Seoul?",
  tools: { get_weather: getWeather },
  stopWhen: (stepCountIs ?? isStepCount)(3),
};
const compatible = createOpenAICompatible({ name: "local", baseURL, apiKey: "none" });
const streamed = streamText({ model: compatible("local"), ...asked });
let said = "";
for await (const piece of streamed.textStream) said += piece;
console.log(said);
const own = createOpenAI({ baseURL, apiKey: "none" });
console.log((await generateText({ model: own.responses("local"), ...asked })).text);
