// The panel at the right: three tabs, of which one is shown and drawn.
import { $ } from "../base/dom.js";
import { keepLook, look } from "../base/look.js";

const NAMES = ["heads", "lens", "engine"];

export class Panel {
  /** `views` by name, each with show(on). */
  constructor(views) {
    this.views = views;
    this.isOpen = false;
    this.tab = NAMES.includes(look.tab) ? look.tab : "heads";
    for (const name of NAMES) $(`tab-${name}`).addEventListener("click", () => this.choose(name));
    $("tabs").addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      this.choose(NAMES[(NAMES.indexOf(this.tab) + step + NAMES.length) % NAMES.length]);
      $(`tab-${this.tab}`).focus();
    });
    this.choose(this.tab);
  }

  choose(name) {
    this.tab = name;
    keepLook({ tab: name });
    for (const one of NAMES) {
      const chosen = one === name;
      $(`tab-${one}`).setAttribute("aria-selected", String(chosen));
      $(`tab-${one}`).tabIndex = chosen ? 0 : -1;
      $(`panel-${one}`).hidden = !chosen;
    }
    this.showViews();
  }

  open(on) {
    this.isOpen = on;
    this.showViews();
  }

  showViews() {
    for (const one of NAMES) this.views[one].show(this.isOpen && one === this.tab);
  }
}
