/** A part of the page with states for loading, errors and content. */
import { LatestRequest, Problem } from "./api";
import { announce, type Child, h, present } from "./dom";

// Milliseconds before the loading state is shown.
const LOADING_DELAY = 150;

export class Panel {
  private readonly latest = new LatestRequest();
  private key: string | null = null;

  constructor(
    readonly element: HTMLElement,
    private readonly skeleton: () => Child[] = () => [h("p", { class: "loading" }, "Loading …")],
  ) {}

  /** Load and draw the content of `key`, unless it is shown already. */
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
    const timer = setTimeout(() => this.fill(this.skeleton()), LOADING_DELAY);
    try {
      const value = await load(signal);
      if (signal.aborted) return;
      clearTimeout(timer);
      this.fill(draw(value));
    } catch (error) {
      if (signal.aborted) return;
      const problem = error instanceof Problem ? error : unexpected(error);
      this.key = null;
      const retry = (): void => void this.show(key, load, draw, actions);
      this.fill([problemNotice(problem, retry, actions(problem))]);
      announce(problem.detail);
    } finally {
      clearTimeout(timer);
      if (!signal.aborted) this.element.removeAttribute("aria-busy");
    }
  }

  /** Show content that needs no loading. */
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

function problemNotice(problem: Problem, retry: () => void, actions: Child[]): HTMLElement {
  const button = h("button", { type: "button", class: "button", onclick: retry }, "Try again");
  const buttons = actions.length > 0 ? actions : [button];
  const element = notice(
    titles[problem.code] ?? problem.title,
    problem.detail,
    h("div", { class: "row" }, ...buttons),
  );
  element.classList.add("problem");
  return element;
}

const titles: Record<string, string> = {
  "unknown-name": "Unknown name",
  "ambiguous-name": "Ambiguous name",
  "unknown-run": "Unknown run",
  "no-geometry": "No Möbius maps in this model",
  unauthorized: "A token is required",
  busy: "The server is busy",
  timeout: "Timeout",
  internal: "Internal error",
};

/** Grey bars where a list will be. */
export function skeletonRows(rows: number): () => Child[] {
  return () => [
    h("p", { class: "visually-hidden" }, "Loading …"),
    h("div", { class: "skeleton", "aria-hidden": "true" }, ...Array.from({ length: rows }, () => h("div"))),
  ];
}
