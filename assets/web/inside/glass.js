// What the server tells of an answer's inside, by the answer's name.
import { json, request } from "../base/api.js";

const MOST = 600; // answers to requests that are remembered
const known = new Map();

function remembered(address, ask) {
  if (!known.has(address)) {
    const asked = ask(address);
    known.set(address, asked);
    asked.catch(() => known.delete(address));
    if (known.size > MOST) known.delete(known.keys().next().value);
  }
  return known.get(address);
}

const query = (values) => new URLSearchParams(values).toString();

/** {texts, prompt_tokens, first_query, layers, recurrent_layers, heads} of prompt and answer. */
export const tokensOf = (response) => remembered(`inspect/cache?${query({ response })}`, json);

/** Where a position looks: probabilities of all positions, the mean of the heads given. */
export async function attentionRow(response, layer, heads, position) {
  const asked = { response, layer, heads: heads.join(","), first: position, last: position + 1 };
  const found = await remembered(`inspect/attention?${query(asked)}`, json);
  const rows = found.attention.map((head) => head[0]);
  return rows[0].map((_, at) => rows.reduce((sum, row) => sum + row[at], 0) / rows.length);
}

/** [{layer, tokens: [{text, p}]}] behind a position. */
export async function lensOf(response, position) {
  const found = await remembered(`inspect/lens?${query({ response, position, count: 3 })}`, json);
  return found.layers.map(({ layer, texts, probabilities }) => ({
    layer,
    tokens: texts.map((text, at) => ({ text, p: probabilities[at] })),
  }));
}

/** Pictures of a layer's heads (or of one): {bytes, side, length}. */
export async function mapsOf(response, layer, side, head = null, signal = undefined) {
  const asked = { response, layer, side, ...(head === null ? {} : { head }) };
  const answer = await request(`page/maps?${query(asked)}`, { signal });
  const bytes = new Uint8Array(await answer.arrayBuffer());
  const number = (name) => Number(answer.headers.get(name));
  return { bytes, side: number("X-Side"), length: number("X-Length") };
}
