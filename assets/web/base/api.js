// Requests to the server that the page came from, and to no other.
import { t } from "./words.js";
import { el, openDialog } from "./dom.js";

// The server's folder, which a proxy may put below its own: the address of this file is under it.
const HOME = new URL("../../", import.meta.url);
const PLACE = "llm-lite.key";
let asking = null;

export class ApiError extends Error {
  constructor(status, message, wait = 0) {
    super(message);
    this.status = status;
    this.wait = wait; // seconds, where the server says when to come again
  }
}

const kept = () => {
  try {
    return sessionStorage.getItem(PLACE) || "";
  } catch {
    return "";
  }
};

// Half a character, as some keyboards leave one, is none in JSON.
const wellFormed = (_, value) =>
  typeof value === "string" && value.toWellFormed ? value.toWellFormed() : value;

/** A response with status 2xx; ApiError with the server's sentence for any other. `path` is within
 * the server's folder: it begins with no slash. */
export async function request(path, { method = "GET", body, signal, keepalive } = {}) {
  for (;;) {
    const headers = body === undefined ? {} : { "Content-Type": "application/json" };
    const key = kept();
    if (key) headers.Authorization = `Bearer ${key}`;
    const said = {
      method,
      headers,
      signal,
      keepalive,
      body: body === undefined ? undefined : JSON.stringify(body, wellFormed),
    };
    const response = await fetch(new URL(path, HOME), said);
    if (response.ok) return response;
    if (response.status === 401 && !keepalive) {
      await askKey(key !== "" && key === kept());
      continue;
    }
    throw await problemOf(response);
  }
}

export async function json(path, options) {
  const response = await request(path, options);
  return response.status === 204 ? null : response.json();
}

async function problemOf(response) {
  let sentence = `${response.status} ${response.statusText}`;
  try {
    sentence = (await response.json()).error.message || sentence;
  } catch {
    // The status says it all.
  }
  return new ApiError(response.status, sentence, Number(response.headers.get("Retry-After")) || 0);
}

/** One dialog, however many requests wait for the key. */
function askKey(wrong) {
  asking ??= new Promise((resolve) => {
    openDialog(
      t("keyTitle"),
      (form) => {
        const field = el("input", {
          id: "key",
          class: "field",
          type: "password",
          autocomplete: "off",
          required: true,
          "aria-describedby": "key-text",
        });
        form.append(
          el(
            "div",
            { class: "dialog-body" },
            el(
              "p",
              { id: "key-text", class: "muted" },
              wrong ? `${t("keyWrong")} ${t("keyText")}` : t("keyText"),
            ),
            el("div", { class: "setting" }, el("label", { for: "key" }, t("key")), field),
          ),
          el("div", { class: "dialog-end" }, el("button", { class: "button" }, t("enter"))),
        );
        form.addEventListener("submit", () => {
          try {
            sessionStorage.setItem(PLACE, field.value.trim());
          } catch {
            // Without it, the key would be asked for again.
          }
        });
      },
      { closable: false },
    ).then(() => {
      asking = null;
      resolve();
    });
  });
  return asking;
}

/** The objects of a stream of server-sent events, up to [DONE]. */
export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let left = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      left += value;
      const lines = left.split("\n");
      left = lines.pop();
      for (const line of lines) {
        if (!line.startsWith("data:")) continue;
        const data = line.slice(5).trim();
        if (data === "[DONE]") return;
        yield JSON.parse(data);
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
