/** The facts on the sphere as text: where each head is, and which tail it lands nearest. */
import type { FactPoint, SphereFacts } from "./api";
import { h } from "./dom";
import type { FactsInFlow } from "./facts-in-flow";
import { entityText, relationText } from "./names";
import { badge, entityLink, entityName } from "./parts";
import { count, plural, pointText } from "./text";

export class FactList {
  private cells: HTMLElement[] = [];
  private readonly rows = h("tbody");
  private readonly title = h("span");
  readonly element = h(
    "details",
    { class: "fact-list" },
    h("summary", {}, this.title),
    h(
      "table",
      {},
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          ...["Head", "is at", "lands nearest", "Tail"].map((name) => h("th", { scope: "col" }, name)),
        ),
      ),
      this.rows,
    ),
  );

  show(facts: FactsInFlow): void {
    const { relation, facts: rows, num_facts: all } = facts.given;
    this.title.textContent = `The facts as a table: ${count(rows.length)} of ${plural(all, "fact")}`;
    this.cells = rows.map(() => h("td", { class: "figure" }));
    this.rows.replaceChildren(
      ...rows.map((fact, row) =>
        h(
          "tr",
          { class: fact.is_answer ? "answer-row" : null },
          h("td", {}, entityLink(fact.head, relation, "tails")),
          this.cells[row],
          h("td", {}, landing(fact)),
          h("td", {}, entityLink(fact.tail, relation, "heads"), " ", badge(fact.split)),
        ),
      ),
    );
  }

  /** Show where the heads are at a power of the map. */
  move(facts: FactsInFlow, s: number): void {
    for (const [row, z] of facts.positions(s).entries()) {
      const cell = this.cells[row];
      if (!cell) continue;
      cell.textContent = pointText(z);
      cell.dataset["position"] = z === null ? "∞" : `${z[0]} ${z[1]}`;
    }
  }
}

function landing({ nearest, lands }: FactPoint): HTMLElement {
  return h(
    "span",
    { class: lands ? "landed" : "missed" },
    h("span", { "aria-hidden": "true" }, lands ? "✓ " : "✗ "),
    entityName(nearest),
    h("span", { class: "visually-hidden" }, lands ? ", its own" : ", another's"),
  );
}

/** What the sphere and the plane show, in words: the text alternative of both. */
export function describeFacts({ facts, relation, pairing }: SphereFacts): string {
  const pair = ({ head, tail }: FactPoint): string => `${entityText(head)} (${entityText(tail)})`;
  const landed = facts.filter(({ lands }) => lands).map(pair);
  const missed = facts
    .filter(({ lands }) => !lands)
    .map(({ head, nearest, tail }) => `${entityText(head)} lands nearest ${entityText(nearest)} (not ${entityText(tail)})`);
  const tails = pairing === "bilinear" ? "the conjugates of their tails" : "their tails";
  return [
    `Heads of ${relationText(relation)} move to their images; rings show ${tails}.`,
    landed.length > 0 && `These land nearest their own: ${landed.join(", ")}.`,
    missed.length > 0 && `Others do not: ${missed.join("; ")}.`,
  ]
    .filter(Boolean)
    .join(" ");
}
