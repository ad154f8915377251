// The turns on the page, and where the page is scrolled to.

import {byId} from "./dom.js";
import {turnView} from "./turn_view.js";

const NEAR = 80;  // pixels from the end within which the page follows the answer

export class Transcript {
  constructor(actions) {
    this.actions = {...actions, drawn: () => this.follow()};
    this.list = byId("turns");
    this.scroller = byId("scroll");
    this.jump = byId("jump");
    this.views = new WeakMap();
    this.following = true;
    this.scroller.addEventListener("scroll", () => this.scrolled(), {passive: true});
    this.jump.addEventListener("click", () => {
      this.toEnd();
      byId("message").focus();
    });
  }

  scrolled() {
    const left = this.scroller.scrollHeight - this.scroller.scrollTop - this.scroller.clientHeight;
    this.following = left < NEAR;
    this.jump.hidden = left < 3 * NEAR;
  }

  follow() {
    if (this.following) this.scroller.scrollTop = this.scroller.scrollHeight;
    else this.scrolled();
  }

  toEnd() {
    this.following = true;
    this.follow();
    this.scrolled();
  }

  view(turn) {
    let view = this.views.get(turn);
    if (!view) {
      view = turnView(turn, this.actions);
      this.views.set(turn, view);
    }
    return view;
  }

  // busy: an answer is being generated, so nothing else can begin.
  show(conversation, busy) {
    const path = conversation.path();
    const views = path.map((turn) => this.view(turn));
    const elements = views.map((view) => view.element);
    const same = elements.length === this.list.children.length && elements.every((one, at) => this.list.children[at] === one);
    if (!same) this.list.replaceChildren(...elements);
    path.forEach((turn, at) => views[at].update(conversation.siblings(turn), busy));
    byId("welcome").hidden = path.length > 0;
    this.follow();
  }
}
