// The page: it puts its parts together, and passes on between them what happens.
import { json } from "./base/api.js";
import { $, composes, fillIcons, setIcon, toast } from "./base/dom.js";
import { isDark, keepLook, look, setTheme } from "./base/look.js";
import { fillWords, language, setLanguage, t } from "./base/words.js";
import { Conversation, leaveAll, openConversation } from "./chat/conversation.js";
import { ConversationList } from "./chat/list.js";
import { sampling, usual } from "./chat/sampling.js";
import { openKeys, openSettings } from "./chat/settings.js";
import { ChatView } from "./chat/view.js";
import { Engine } from "./inside/engine.js";
import { Heads } from "./inside/heads.js";
import { Lens } from "./inside/lens.js";
import { isUnderWay, runWords } from "./inside/modes.js";
import { Panel } from "./inside/panel.js";
import { subject } from "./inside/subject.js";
import { XRay } from "./inside/xray.js";

const BUSY_POLL = 1000; // ms
const IDLE_POLL = 4000;
const SWITCH_POLL = 400; // while the weight mode is switched
const narrow = matchMedia("(max-width: 800px)");
const touch = matchMedia("(hover: none)");
const medium = matchMedia("(max-width: 1179px)");

class App {
  status = null;
  conversation = new Conversation();
  lastEnded = null;

  constructor() {
    fillIcons();
    fillWords();
    this.list = new ConversationList({
      open: (id, message) => this.open(id, message),
      removed: () => this.begin(),
      listed: (all) => this.named(all),
    });
    this.chat = new ChatView(this);
    this.xray = new XRay();
    this.engine = new Engine(this);
    this.panel = new Panel({ heads: new Heads(), lens: new Lens(), engine: this.engine });
    this.watch(this.conversation);
    this.chat.open(this.conversation);
    this.buttons();
    this.keys();
    this.sides();
    this.theme();
  }

  get modelName() {
    return this.status?.model?.name || "";
  }

  get context() {
    return this.status?.serving?.context || 0;
  }

  async start() {
    await this.poll();
    await this.list.refresh().catch((error) => this.notice(t("failed", { why: error.message })));
    const id = location.hash.slice(1);
    if (/^\d+$/.test(id)) await this.open(id);
    addEventListener("hashchange", () => {
      const wanted = location.hash.slice(1);
      if (/\D/.test(wanted)) return;
      if (wanted !== (this.conversation.id || "")) wanted ? this.open(wanted) : this.begin();
    });
    document.addEventListener("visibilitychange", () => !document.hidden && this.poll());
    addEventListener("pagehide", () => leaveAll());
  }

  // Conversations

  begin() {
    this.show(new Conversation());
    $("say").focus();
  }

  async open(id, message = null) {
    try {
      const conversation = await openConversation(id);
      if (message && !conversation.busy) await conversation.select(message);
      this.show(conversation);
    } catch (error) {
      toast(t("failed", { why: error.message }));
      if (error.status === 404 && !this.conversation.id) history.replaceState(null, "", location.pathname);
    }
  }

  show(conversation) {
    this.conversation = conversation;
    this.watch(conversation);
    this.address();
    this.titled();
    this.notice("");
    this.lastEnded = null;
    this.xray.show(false);
    this.chat.open(conversation);
    this.list.setOpen(conversation.id);
    subject.show(conversation, conversation.lastAnswer);
    if (narrow.matches) this.side("sidebar", false);
  }

  watch(conversation) {
    if (this.watched?.has(conversation)) return;
    (this.watched ??= new WeakSet()).add(conversation);
    conversation.addEventListener("begun", () => {
      if (conversation === this.conversation) this.address();
      this.list.open = this.conversation.id;
    });
    conversation.addEventListener("busy", () => {
      if (conversation.answer) this.lastEnded = conversation.answer;
      else this.soon();
      this.list.refresh().catch(() => {});
      this.soon();
    });
  }

  /** The history gives a conversation its title. */
  named(conversations) {
    const own = conversations.find(({ id }) => id === this.conversation.id);
    if (own) this.conversation.title = own.title;
    this.titled();
  }

  titled() {
    document.title = this.conversation.title ? `${this.conversation.title} – llm-lite` : "llm-lite";
  }

  /** The address names the conversation, so that it can be loaded again. */
  address() {
    const { id } = this.conversation;
    const wanted = id ? `#${id}` : location.pathname;
    if (location.hash !== (id ? wanted : "")) history.pushState(null, "", wanted);
  }

  /** Something of the open conversation has changed. */
  changed() {
    if (this.conversation.answer) this.lastEnded = this.conversation.answer;
    const isLast =
      !subject.message ||
      subject.conversation !== this.conversation ||
      !this.conversation.messages.includes(subject.message) ||
      this.conversation.busy;
    subject.show(this.conversation, isLast ? this.conversation.lastAnswer : subject.message);
    this.xray.grow();
    this.chat.showContext();
    if (this.conversation.busy) this.drawEngineSoon();
  }

  drawEngineSoon() {
    this.engineTimer ??= setTimeout(() => {
      this.engineTimer = null;
      this.engine.draw();
    }, 250);
  }

  look(message) {
    subject.show(this.conversation, message);
    this.xray.show(true);
    if (!touch.matches) this.xray.spans[this.xray.roving]?.focus({ preventScroll: true }); // its card covers a phone
  }

  // How the server is

  async poll() {
    clearTimeout(this.timer);
    if (!document.hidden) {
      try {
        const status = await json("page/status");
        if (this.offline) {
          this.notice("");
          toast(t("connected"));
        }
        this.offline = false;
        this.take(status);
      } catch (error) {
        this.offline = true;
        this.notice(error.status ? t("failed", { why: error.message }) : t("offline"));
      }
    }
    const often = isUnderWay(this.status) ? SWITCH_POLL : this.conversation.busy ? BUSY_POLL : IDLE_POLL;
    this.timer = setTimeout(() => this.poll(), often);
  }

  soon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.poll(), 300);
  }

  take(status) {
    const before = this.status;
    this.status = status;
    const other = !before || before.model?.name !== status.model?.name;
    if (status.sampling)
      for (const [name, value] of Object.entries(status.sampling)) {
        if (sampling[name] === usual[name]) sampling[name] = value;
        usual[name] = value;
      }
    $("model").textContent = status.model?.name || t("noModel");
    this.showRun(before, status);
    if (other) {
      this.chat.draw();
      this.chat.fit();
    }
    if (before && before.history.changes !== status.history.changes) this.list.refresh().catch(() => {});
    if (status.history.problem) this.notice(t("notKept", { why: status.history.problem }));
    this.progress(status);
    this.engine.draw();
  }

  /** How the model runs, and that it was switched by whoever may. */
  showRun(before, status) {
    $("run").hidden = !status.run;
    if (!status.run) return;
    const { mode, activations } = status.run;
    $("run").textContent = runWords(status);
    $("run").setAttribute("aria-label", `${runWords(status)}. ${t("openModes")}`);
    const is = (one) => one?.run && one.model.name === status.model.name;
    if (is(before) && (before.run.mode !== mode || before.run.activations !== activations))
      toast(t("modeNow", { mode, activations }));
  }

  /** Of an answer that has not begun: what it waits for. */
  progress({ serving }) {
    const message = this.conversation.answer?.message;
    if (!message || message.text || message.thought || !serving) return;
    const begun = serving.requests.filter((request) => request.new_tokens === 0);
    const own = begun.find((request) => request.response === message.response) || begun.at(-1); // its name comes with its first token
    if (!own) return;
    const before = serving.requests.filter((request) => request.waiting).indexOf(own);
    message.progress = own.waiting
      ? t("waiting", { n: serving.running + before })
      : t("reading", { done: own.prefilled, all: own.prompt_tokens });
    this.conversation.changed(message);
  }

  notice(words) {
    $("notice").textContent = words;
    $("notice").hidden = !words;
  }

  // Panels, buttons, keys

  sides() {
    this.side("sidebar", !medium.matches && look.sidebar !== false, false);
    this.side("inside", !medium.matches && look.inside === true, false);
    medium.addEventListener("change", () =>
      this.side("inside", !medium.matches && look.inside === true, false),
    );
    narrow.addEventListener("change", () =>
      this.side("sidebar", !narrow.matches && look.sidebar !== false, false),
    );
    $("shade").addEventListener("click", () => this.closeSide());
  }

  isOpen(name) {
    return !$("app").classList.contains(`no-${name}`);
  }

  isOver(name) {
    return this.isOpen(name) && (name === "inside" ? medium : narrow).matches;
  }

  side(name, on, keep = true) {
    $("app").classList.toggle(`no-${name}`, !on);
    $(`${name}-open`).setAttribute("aria-expanded", String(on));
    if (keep && !medium.matches) keepLook({ [name]: on });
    if (name === "inside") this.panel.open(on);
    const over = this.isOver("sidebar") || this.isOver("inside");
    $("shade").hidden = !over;
    document.querySelector("main").inert = over;
    if (on && this.isOver(name)) (name === "inside" ? $(`tab-${this.panel.tab}`) : $("new-chat")).focus();
    if (!on && keep) $(`${name}-open`).focus({ preventScroll: true });
  }

  closeSide() {
    for (const name of ["inside", "sidebar"])
      if (this.isOver(name)) {
        this.side(name, false);
        return true;
      }
    return false;
  }

  buttons() {
    const click = (id, what) => $(id).addEventListener("click", what);
    click("skip", (event) => {
      event.preventDefault();
      $("say").focus();
    });
    click("new-chat", () => {
      this.begin();
      if (narrow.matches) this.side("sidebar", false);
      $("say").focus();
    });
    click("sidebar-open", () => this.side("sidebar", !this.isOpen("sidebar")));
    click("sidebar-close", () => this.side("sidebar", false));
    click("inside-open", () => this.side("inside", !this.isOpen("inside")));
    click("inside-close", () => this.side("inside", false));
    click("run", () => this.openModes());
    click("xray-switch", () => this.toggleXray());
    click("open-settings", () => openSettings(this.conversation));
    click("open-keys", openKeys);
    click("switch-theme", () => setTheme(isDark() ? "light" : "dark"));
    click("switch-language", () => setLanguage(language() === "en" ? "ko" : "en"));
    for (const name of ["theme", "language"]) document.addEventListener(name, () => this.theme());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.theme());
  }

  theme() {
    const label = t(isDark() ? "toLight" : "toDark");
    setIcon($("switch-theme"), isDark() ? "sun" : "moon");
    $("switch-theme").setAttribute("aria-label", label);
    $("switch-theme").title = label;
    $("switch-language").textContent = t("other");
    $("switch-language").title = t("toOther");
    $("switch-language").lang = language() === "en" ? "ko" : "en";
    if (this.status) this.take(this.status);
  }

  openModes() {
    this.side("inside", true);
    this.panel.choose("engine");
    this.engine.modes.place.scrollIntoView({ block: "nearest" });
    this.engine.modes.weights.field.focus();
  }

  toggleXray() {
    if (!this.xray.on) subject.show(this.conversation, this.conversation.lastAnswer);
    this.xray.show(!this.xray.on);
    if (!this.xray.on) this.chat.draw();
  }

  keys() {
    const alt = {
      KeyN: () => {
        this.begin();
      },
      KeyX: () => this.toggleXray(),
      KeyI: () => this.side("inside", !this.isOpen("inside")),
      KeyB: () => this.side("sidebar", !this.isOpen("sidebar")),
    };
    addEventListener("keydown", (event) => {
      if (composes(event) || document.querySelector("dialog[open]")) return;
      const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
      if (event.altKey && !event.ctrlKey && !event.metaKey && alt[event.code]) {
        event.preventDefault();
        alt[event.code]();
      } else if (event.key === "Escape") this.escape();
      else if (event.key === "/" && !typing) {
        event.preventDefault();
        $("say").focus();
      } else if (event.key === "?" && !typing) {
        event.preventDefault();
        openKeys();
      }
    });
  }

  escape() {
    if (this.closeSide()) return;
    if (this.conversation.busy) this.conversation.stop();
    else if (this.xray.on) this.toggleXray();
  }
}

new App().start();
