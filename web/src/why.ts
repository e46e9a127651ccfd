/** The box that explains one triple; the view that shows it puts it in its place. */
import { type Explanation, get, type RunInfo } from "./api";
import { byId, type Child, present } from "./dom";
import { drawExplanation } from "./explanation";
import { Panel, skeletonRows } from "./panel";
import type { FactIds } from "./state";

async function explain([head, relation, tail]: FactIds, run: string, signal: AbortSignal): Promise<Explanation> {
  const query = { run, head, relation, tail };
  const reply = await get<{ explanation: Explanation }>("/api/explain", query, signal);
  return reply.explanation;
}

export class WhyBox {
  readonly element = byId("why");
  private readonly panel = new Panel(byId("why-body"), skeletonRows(5));
  private readonly title = byId("why-title");
  private onClose: () => void = () => undefined;

  constructor() {
    byId("why-close").addEventListener("click", () => this.onClose());
    this.element.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.onClose();
    });
  }

  /** Explain a triple; `title` is the heading, from names that are only known then. */
  show(fact: FactIds, run: RunInfo, title: (explanation: Explanation) => Child[], onClose: () => void): void {
    this.onClose = onClose;
    this.element.hidden = false;
    void this.panel.show(
      JSON.stringify([run.name, fact]),
      (signal) => explain(fact, run.name, signal),
      (explanation) => {
        this.title.replaceChildren(...present(title(explanation)));
        return drawExplanation(explanation, run.has_geometry);
      },
    );
  }

  focus(options?: FocusOptions): void {
    this.title.focus(options);
  }

  clear(): void {
    this.element.hidden = true;
    this.panel.clear();
  }
}
