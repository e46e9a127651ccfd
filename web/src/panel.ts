/** A part of the page that loads: designed states for loading, failing and nothing to show. */
import { Latest, Problem } from "./api";
import { announce, type Child, h, present } from "./dom";

// Answers that come sooner than this need no sign of waiting.
const PATIENCE = 150;

export class Panel {
  private readonly latest = new Latest();
  private key: string | null = null;

  constructor(
    readonly element: HTMLElement,
    private readonly skeleton: () => Child[] = () => [h("p", { class: "loading" }, "Loading …")],
  ) {}

  /** Load and draw what `key` stands for, unless that is shown already. */
  async show<T>(
    key: string,
    load: (signal: AbortSignal) => Promise<T>,
    draw: (value: T) => Child[],
    actions: (problem: Problem) => Child[] = () => [],
  ): Promise<void> {
    if (key === this.key) return;
    this.key = key;
    const signal = this.latest.begin();
    this.element.setAttribute("aria-busy", "true");
    const patience = setTimeout(() => this.fill(this.skeleton()), PATIENCE);
    try {
      const value = await load(signal);
      if (signal.aborted) return;
      clearTimeout(patience);
      this.fill(draw(value));
    } catch (error) {
      if (signal.aborted) return;
      const problem = error instanceof Problem ? error : unexpected(error);
      this.key = null;
      const again = (): void => void this.show(key, load, draw, actions);
      this.fill([problemNotice(problem, again, actions(problem))]);
      announce(problem.detail);
    } finally {
      clearTimeout(patience);
      if (!signal.aborted) this.element.removeAttribute("aria-busy");
    }
  }

  /** Show something that needs no loading. */
  place(key: string, draw: () => Child[]): void {
    if (key === this.key) return;
    this.latest.stop();
    this.key = key;
    this.element.removeAttribute("aria-busy");
    this.fill(draw());
  }

  clear(): void {
    this.place("", () => []);
  }

  private fill(children: Child[]): void {
    this.element.replaceChildren(...present(children));
  }
}

function unexpected(error: unknown): Problem {
  return new Problem(
    "internal",
    "Something went wrong on this page",
    error instanceof Error ? error.message : String(error),
  );
}

export function notice(title: string, text: Child, ...more: Child[]): HTMLElement {
  return h("div", { class: "notice" }, h("h2", {}, title), h("p", {}, text), ...more);
}

function problemNotice(problem: Problem, again: () => void, actions: Child[]): HTMLElement {
  const retry = h("button", { type: "button", class: "button", onclick: again }, "Try again");
  const buttons = actions.length > 0 ? actions : [retry];
  const element = notice(
    titles[problem.code] ?? problem.title,
    problem.detail,
    h("div", { class: "row" }, ...buttons),
  );
  element.classList.add("problem");
  return element;
}

const titles: Record<string, string> = {
  "unknown-name": "No such name",
  "ambiguous-name": "Several things have this name",
  "unknown-run": "No such run",
  "no-geometry": "No sphere for this run",
  unauthorized: "A token is needed",
  busy: "The server is busy",
  timeout: "That took too long",
  internal: "The server made a mistake",
};

/** Grey bars where a list will be. */
export function skeletonRows(rows: number): () => Child[] {
  return () => [
    h("p", { class: "visually-hidden" }, "Loading …"),
    h("div", { class: "skeleton", "aria-hidden": "true" }, ...Array.from({ length: rows }, () => h("div"))),
  ];
}
