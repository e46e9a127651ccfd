/** Two runs on held-out facts: metrics, metrics per relation, and where they disagree most. */
import { type ComparedMetrics, getWhenDone, type QueryComparison, type RunComparison, type RunInfo } from "./api";
import { type Child, h } from "./dom";
import { arrow, entityName, relationName } from "./parts";
import { href } from "./state";
import { count, decimal, plural } from "./text";

const COLUMNS = [
  ["mrr", "MRR"],
  ["hits@10", "Hits@10"],
] as const;

export function loadComparison(run: RunInfo, other: RunInfo, signal: AbortSignal): Promise<RunComparison> {
  return getWhenDone<RunComparison>("/api/compare", { run: run.name, other: other.name }, signal);
}

export function drawComparison(comparison: RunComparison): Child[] {
  return [
    h("h2", {}, `${comparison.run} and ${comparison.other}`),
    h("p", { class: "compare-summary" }, summary(comparison)),
    h("p", { class: "hint" }, basis(comparison)),
    h(
      "div",
      { class: "comparison" },
      h("section", { "aria-labelledby": "disagreements" }, ...disagreements(comparison)),
      h("div", {}, ...relations(comparison)),
    ),
  ];
}

function summary({ run, other, metrics, difference: { low, high } }: RunComparison): string {
  const values = `MRR ${decimal(metrics[0].mrr, 3)} and ${decimal(metrics[1].mrr, 3)}`;
  const interval = `95 % confidence interval of the difference ${decimal(low, 3)} to ${decimal(high, 3)}`;
  const better = low > 0 ? `${run} ranks better` : high < 0 ? `${other} ranks better` : "No clear winner";
  return `${better}: ${values} (${interval}).`;
}

function basis({ split, num_triples: ranked, num_held_out: all }: RunComparison): string {
  const facts = plural(all, `${split} fact`);
  const which =
    ranked < all ? `A random sample of ${count(ranked)} of ${facts}` : `All ${facts}`;
  return `${which} that neither run was trained on, each with a query for its tail and one for its head: ${count(2 * ranked)} queries, ranked among all entities without other known answers.`;
}

function disagreements(comparison: RunComparison): Child[] {
  const { queries, run, other, num_triples: ranked } = comparison;
  const title = h("h3", { id: "disagreements" }, "Where they disagree most");
  if (queries.length === 0) return [title, h("p", {}, "Both runs rank every answer alike.")];
  return [
    title,
    h(
      "p",
      { class: "hint" },
      `The ${count(queries.length)} of ${count(2 * ranked)} queries with the largest difference of reciprocal ranks. Open one to see both lists of answers.`,
    ),
    h("ol", { class: "disagreements" }, ...queries.map((query) => disagreement(query, run, other))),
  ];
}

function disagreement(
  { head, relation, tail, side, ranks, difference }: QueryComparison,
  run: string,
  other: string,
): HTMLElement {
  const isTail = side === "tails";
  const [given, answer] = isTail ? [head, tail] : [tail, head];
  const link = href({ view: "compare", entity: given.id, relation: relation.id, side, which: "all", type: null });
  const name = h("span", { class: "entity-name" }, entityName(given));
  const missing = h("span", { class: "entity-name missing" }, "?");
  const rank = (value: number, isBetter: boolean): HTMLElement =>
    h(isBetter ? "strong" : "span", {}, rankText(value));
  return h(
    "li",
    { class: "disagreement", "data-difference": difference },
    h(
      "a",
      { class: "query-link", href: link },
      h(
        "span",
        { class: "sentence" },
        isTail ? name : missing,
        arrow(relation),
        isTail ? missing : name,
      ),
    ),
    h(
      "span",
      { class: "hint" },
      entityName(answer),
      ": rank ",
      rank(ranks[0], difference > 0),
      ` in ${run}, `,
      rank(ranks[1], difference < 0),
      ` in ${other}`,
    ),
  );
}

/** A rank; ties have a half. */
const rankText = (rank: number): string => (Number.isInteger(rank) ? count(rank) : decimal(rank, 1));

function relations({ relations: rows, num_relations: all, metrics, num_triples: ranked, run, other }: RunComparison): Child[] {
  const heading = h(
    "tr",
    {},
    h("th", { scope: "col" }, "Relation"),
    h("th", { scope: "col" }, "Queries"),
    ...COLUMNS.flatMap(([, name]) => [run, other].map((one) => h("th", { scope: "col" }, name, h("span", { class: "run-name", title: one }, one)))),
  );
  const row = (name: Child, queries: number, both: readonly [ComparedMetrics, ComparedMetrics]): HTMLElement =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, name),
      h("td", {}, count(queries)),
      ...COLUMNS.flatMap(([key]) => cells(both[0][key], both[1][key])),
    );
  const shown = rows.length < all ? `${count(rows.length)} of ${plural(all, "relation")}, those with the most queries. ` : "";
  return [
    h("h3", {}, "Metrics per relation"),
    h("p", { class: "hint" }, `${shown}The higher value is bold.`),
    h(
      "div",
      { class: "table-frame", tabindex: 0, role: "region", "aria-label": "Metrics per relation" },
      h(
        "table",
        {},
        h("thead", {}, heading),
        h(
          "tbody",
          {},
          row("all", 2 * ranked, metrics),
          ...rows.map(({ relation, num_queries: queries, metrics: both }) => row(relationName(relation), queries, both)),
        ),
      ),
    ),
  ];
}

function cells(first: number, second: number): HTMLElement[] {
  const cell = (value: number, isHigher: boolean): HTMLElement =>
    h("td", {}, isHigher ? h("strong", {}, decimal(value, 3)) : decimal(value, 3));
  return [cell(first, first > second), cell(second, second > first)];
}
