/** The footer: the graph and the model. */
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
      `${run.graph}: ${plural(run.num_entities, "entity", "entities")}, ${plural(run.num_relations, "relation")}, ${plural(run.num_triples, "fact")}`;
    this.load();
  }

  /** Load the statistics once the footer is opened. */
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
      ...row("Probabilities", run.is_calibrated ? "calibrated" : "not calibrated"),
      ...row("Facts", splits.map(([name, { triples }]) => `${name} ${count(triples ?? 0)}`).join(", ")),
      ...row(
        "Facts per entity",
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
