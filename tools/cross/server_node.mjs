// OpenAI's client for Node against a server, whose address and folder of packages are given.
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const [address, packages] = process.argv.slice(2);
const found = createRequire(`${packages}/`)("openai");
const OpenAI = found.OpenAI ?? found.default ?? found;
const client = new OpenAI({ baseURL: `${address}/v1`, apiKey: "none", maxRetries: 0 });
const model = (await client.models.list()).data[0].id;
const messages = [{ role: "user", content: "Name three rivers." }];
const chat = (more) => client.chat.completions.create({ model, messages, temperature: 0, max_tokens: 24, ...more });
const done = [];

async function check(name, work) {
  await work();
  done.push(name);
}

await check("chat", async () => {
  const made = await chat({});
  assert.equal(made.object, "chat.completion");
  assert.ok(made.choices[0].message.content.length > 0 && made.usage.completion_tokens > 0);
});

await check("stream", async () => {
  const whole = (await chat({})).choices[0].message.content;
  let said = "", usage = null;
  for await (const chunk of await chat({ stream: true, stream_options: { include_usage: true } })) {
    said += chunk.choices[0]?.delta?.content ?? "";
    usage = chunk.usage ?? usage;
  }
  assert.equal(said, whole);
  assert.ok(usage.total_tokens > 0);
});

await check("the stream's own reader", async () => {
  const stream = client.chat.completions.stream({ model, messages, temperature: 0, max_tokens: 24 });
  const final = await stream.finalChatCompletion();
  assert.equal(final.choices[0].message.content, (await chat({})).choices[0].message.content);
});

const parameters = {
  type: "object",
  properties: { city: { enum: ["Seoul", "Busan"] } },
  required: ["city"],
  additionalProperties: false,
};

await check("tools", async () => {
  const tools = [{ type: "function", function: { name: "weather", parameters } }];
  const made = await chat({ tools, tool_choice: "required", max_tokens: 60 });
  const [call] = made.choices[0].message.tool_calls;
  assert.equal(call.function.name, "weather");
  assert.ok(["Seoul", "Busan"].includes(JSON.parse(call.function.arguments).city));
  let name = "", written = "";
  const stream = await chat({ tools, tool_choice: "required", max_tokens: 60, stream: true });
  for await (const chunk of stream) {
    for (const delta of chunk.choices[0]?.delta?.tool_calls ?? []) {
      name += delta.function.name ?? "";
      written += delta.function.arguments ?? "";
    }
  }
  assert.equal(name, "weather");
  assert.equal(written, call.function.arguments);
});

await check("json_schema", async () => {
  const response_format = { type: "json_schema", json_schema: { name: "place", schema: parameters } };
  const made = await chat({ response_format, max_tokens: 60 });
  assert.ok(JSON.parse(made.choices[0].message.content).city);
});

await check("logprobs", async () => {
  const made = await chat({ logprobs: true, top_logprobs: 2 });
  const [first] = made.choices[0].logprobs.content;
  assert.ok(first.logprob <= 0 && first.top_logprobs.length === 2);
});

await check("completions", async () => {
  const made = await client.completions.create({ model, prompt: "Once upon", max_tokens: 8 });
  assert.equal(typeof made.choices[0].text, "string");
});

await check("embeddings", async () => {
  const made = await client.embeddings.create({ model, input: ["a", "b"] });
  assert.equal(made.data.length, 2);
  const length = Math.hypot(...made.data[0].embedding);
  assert.ok(Math.abs(length - 1) < 1e-3, `a vector of length ${length}`);
});

await check("responses", async () => {
  const made = await client.responses.create({ model, input: "Hello", max_output_tokens: 8 });
  assert.equal(typeof made.output_text, "string");
  let said = "";
  const input = { model, input: "Hello", max_output_tokens: 8, temperature: 0, stream: true };
  for await (const event of await client.responses.create(input)) {
    if (event.type === "response.output_text.delta") said += event.delta;
  }
  assert.ok(said.length > 0);
});

await check("cancellation", async () => {
  const stop = new AbortController();
  let chunks = 0;
  try {
    const stream = await client.chat.completions.create(
      { model, messages, stream: true, max_tokens: 400 }, { signal: stop.signal });
    for await (const _ of stream) {
      chunks += 1;
      if (chunks === 3) stop.abort();
    }
  } catch (error) {
    assert.ok(error instanceof OpenAI.APIUserAbortError, String(error));
  }
  for (let tries = 0; ; tries++) {
    const told = await (await fetch(`${address}/metrics`)).text();
    if (/^llm_lite_running 0$/m.test(told)) break;
    assert.ok(tries < 200, "the answer still runs");
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
});

await check("errors", async () => {
  await assert.rejects(chat({ temperature: -1 }), (e) => e instanceof OpenAI.BadRequestError && e.param === "temperature");
  await assert.rejects(client.models.retrieve("gpt"), (e) => e instanceof OpenAI.NotFoundError && e.code === "model_not_found");
});

console.log(`${done.length} of OpenAI's client for Node: ${done.join(", ")}`);
