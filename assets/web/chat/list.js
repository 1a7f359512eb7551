// The list of conversations: those of the window too, by day, with search.
import { json } from "../base/api.js";
import { $, composes, el, iconButton, toast } from "../base/dom.js";
import { t } from "../base/words.js";

const TYPING = 200; // ms until a search begins

export class ConversationList {
  /** `does` has open(id), removed(id) and listed(conversations). */
  constructor(does) {
    this.does = does;
    this.place = $("list");
    this.open = null;
    this.shown = 50;
    this.conversations = [];
    this.next = null;
    this.found = null;
    $("search").addEventListener("input", () => this.searchSoon());
    $("search").addEventListener("keydown", (event) => {
      if (event.key === "Escape" && $("search").value && !composes(event)) {
        event.stopPropagation();
        $("search").value = "";
        this.search();
      }
    });
    document.addEventListener("language", () => this.draw());
  }

  /** Read it again: all that was shown of it. */
  async refresh() {
    const first = await json(`page/conversations?limit=${Math.min(this.shown, 200)}`);
    this.conversations = first.conversations;
    this.next = first.next;
    this.does.listed(this.conversations);
    if (!this.renaming) this.draw();
  }

  async more() {
    const page = await json(`page/conversations?limit=50&after=${encodeURIComponent(this.next)}`);
    this.conversations.push(...page.conversations);
    this.shown = this.conversations.length;
    this.next = page.next;
    this.draw();
  }

  setOpen(id) {
    this.open = id;
    this.draw();
  }

  searchSoon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.search(), TYPING);
  }

  async search() {
    const query = $("search").value.trim();
    this.found = query ? (await json(`page/search?q=${encodeURIComponent(query)}`)).found : null;
    this.draw();
  }

  draw() {
    const focus = this.place.contains(document.activeElement) ? document.activeElement.dataset.id : null;
    this.place.replaceChildren(...(this.found ? this.results() : this.groups()));
    if (focus) this.place.querySelector(`[data-id="${focus}"]`)?.focus({ preventScroll: true });
  }

  groups() {
    if (!this.conversations.length) return [el("p", { class: "none small-text" }, t("noneYet"))];
    const made = [];
    let name = null;
    let rows = null;
    for (const conversation of this.conversations) {
      const group = groupOf(conversation);
      if (group !== name) {
        name = group;
        rows = el("ul", { "aria-label": group });
        made.push(el("h2", {}, group), rows);
      }
      rows.append(this.row(conversation));
    }
    if (this.next)
      made.push(
        el("button", { type: "button", class: "text-button", onclick: () => this.more() }, t("more")),
      );
    return made;
  }

  row(conversation) {
    const { id } = conversation;
    const title = conversation.title || t("untitled");
    const isOpen = id === this.open;
    const row = el("li", { class: isOpen ? "row open" : "row" });
    row.append(
      el(
        "button",
        {
          type: "button",
          class: "name",
          dir: "auto",
          "data-id": id,
          title,
          "aria-current": isOpen ? "true" : null,
          onclick: () => this.does.open(id),
        },
        title,
      ),
      el(
        "span",
        { class: "tools" },
        iconButton("pin", conversation.pinned ? t("unpin") : t("pin"), () =>
          this.change(id, { pinned: !conversation.pinned }),
        ),
        iconButton("edit", t("rename"), () => this.rename(row, conversation)),
        iconButton("trash", t("remove"), () => this.remove(conversation)),
      ),
    );
    return row;
  }

  results() {
    if (!this.found.length) return [el("p", { class: "none small-text" }, t("nothingFound"))];
    return [
      el(
        "ul",
        { "aria-label": t("search") },
        ...this.found.map((found) => {
          const title = found.title || t("untitled");
          const snippet = found.message ? el("span", { class: "snippet", dir: "auto" }, ...marked(found)) : null;
          return el(
            "li",
            { class: "row" },
            el(
              "button",
              {
                type: "button",
                class: "name",
                dir: "auto",
                onclick: () => this.does.open(found.conversation, found.message),
              },
              title,
              snippet,
            ),
          );
        }),
      ),
    ];
  }

  async change(id, body) {
    await this.attempt(() => json(`page/conversations/${id}`, { method: "PATCH", body }));
  }

  rename(row, conversation) {
    const field = el("input", {
      class: "rename",
      dir: "auto",
      "aria-label": t("title"),
      maxlength: "200",
    });
    field.value = conversation.title;
    const end = async (keep) => {
      if (!this.renaming) return;
      this.renaming = false;
      const title = field.value.trim();
      if (keep && title && title !== conversation.title) await this.change(conversation.id, { title });
      else this.draw();
      this.place.querySelector(`[data-id="${conversation.id}"]`)?.focus();
    };
    field.addEventListener("keydown", (event) => {
      if (composes(event)) return;
      if (event.key === "Enter") end(true);
      if (event.key === "Escape") {
        event.stopPropagation();
        end(false);
      }
    });
    field.addEventListener("blur", () => end(true));
    this.renaming = true;
    row.replaceChildren(field);
    field.select();
  }

  async remove({ id, title }) {
    await this.attempt(() => json(`page/conversations/${id}`, { method: "DELETE" }));
    if (id === this.open) this.does.removed(id);
    toast(t("deleted", { title: title || t("untitled") }), [t("undo"), () => this.restore(id)]);
    this.place.focus();
  }

  async restore(id) {
    await this.attempt(() => json(`page/conversations/${id}/restore`, { method: "POST", body: {} }));
    this.does.open(id);
  }

  async attempt(what) {
    try {
      await what();
      await this.refresh();
    } catch (error) {
      toast(t("failed", { why: error.message }));
    }
  }
}

function groupOf({ pinned, updated }) {
  if (pinned) return t("pinned");
  const day = new Date();
  day.setHours(0, 0, 0, 0);
  const days = (day.getTime() / 1000 - updated) / 86400;
  if (days < 0) return t("today");
  if (days < 1) return t("yesterday");
  if (days < 7) return t("week");
  const date = new Date(updated * 1000);
  const year = date.getFullYear() === day.getFullYear() ? undefined : "numeric";
  return date.toLocaleDateString(document.documentElement.lang, { month: "long", year });
}

function marked({ snippet, marks }) {
  const parts = [];
  let at = 0;
  for (const [begin, end] of marks) {
    parts.push(snippet.slice(at, begin), el("mark", {}, snippet.slice(begin, end)));
    at = end;
  }
  return [...parts, snippet.slice(at)];
}
