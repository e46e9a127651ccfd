/** The small print: what graph and what model this is. */
import { get, type GraphStatistics, type RunInfo } from "./api";
import { byId, type Child, h } from "./dom";
import { Panel } from "./panel";
import { count, decimal, plural } from "./text";

export class About {
  private readonly panel = new Panel(byId("about-body"));
  private readonly details = byId<HTMLDetailsElement>("about");
  private run: RunInfo | null = null;

  constructor() {
    this.details.addEventListener("toggle", () => this.load());
  }

  update(run: RunInfo): void {
    this.run = run;
    byId("about-summary").textContent =
      `${run.graph}: ${plural(run.entities, "entity", "entities")}, ${plural(run.relations, "relation")}, ${plural(run.facts, "fact")}`;
    this.load();
  }

  /** The statistics, once somebody wants to see them. */
  private load(): void {
    const { run } = this;
    if (run === null || !this.details.open) return;
    void this.panel.show(
      run.name,
      (signal) => get<GraphStatistics>("/api/graph", { run: run.name }, signal),
      (graph) => draw(graph, run),
    );
  }
}

function draw(graph: GraphStatistics, run: RunInfo): Child[] {
  const mrr = run.metrics?.mrr;
  const splits = Object.entries(graph.splits ?? {}).filter(([, { triples }]) => triples !== undefined);
  const categories = Object.entries(graph.relation_categories ?? {}).filter(([, many]) => many > 0);
  const degrees = graph.degrees?.percentiles;
  return [
    h(
      "dl",
      {},
      ...row(
        "Model",
        `${run.model}, ${plural(run.dim, "dimension")}${typeof mrr === "number" ? `, MRR ${decimal(mrr, 3)}` : ""}`,
      ),
      ...row("Probabilities", run.calibrated ? "calibrated" : "none: the run is not calibrated"),
      ...row("Facts", splits.map(([name, { triples }]) => `${name} ${count(triples ?? 0)}`).join(", ")),
      ...row(
        "Facts of an entity",
        degrees
          ? `median ${count(degrees["p50"] ?? 0)}, mean ${decimal(degrees["mean"] ?? 0, 1)}, most ${count(degrees["p100"] ?? 0)}`
          : "",
      ),
      ...row("Relations", categories.map(([name, many]) => `${name}: ${count(many)}`).join(", ")),
    ),
  ];
}

function row(name: string, text: string): HTMLElement[] {
  return text === "" ? [] : [h("dt", {}, name), h("dd", {}, text)];
}
