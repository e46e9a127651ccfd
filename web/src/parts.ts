/** Elements that several views share. */
import type { Named, Split, Triple } from "./api";
import { h } from "./dom";
import { href, type Side } from "./state";
import { shortName } from "./text";

/** A relation as an arrow between two entities. */
export function arrow(relation: Named, inverse = false): HTMLElement {
  return h(
    "span",
    { class: inverse ? "arrow inverse" : "arrow", title: relation.id },
    inverse && h("span", { class: "visually-hidden" }, "inverse of "),
    h("span", { class: "arrow-name" }, shortName(relation.label)),
  );
}

/** A query as a sentence, with ? for the missing slot. */
export function sentence(entity: Named, relation: Named, side: Side): HTMLElement {
  const given = h("span", { class: "entity-name" }, entity.label);
  const missing = h("span", { class: "entity-name missing" }, "?");
  const [head, tail] = side === "tails" ? [given, missing] : [missing, given];
  return h("span", { class: "sentence" }, head, arrow(relation), tail);
}

/** A link to a query about an entity. */
export function entityLink(entity: Named, relation?: Named, side?: Side): HTMLAnchorElement {
  const query = relation && side ? { relation: relation.id, side } : {};
  return h(
    "a",
    { class: "entity", href: href({ view: "ask", entity: entity.id, ...query }) },
    entity.label,
  );
}

/** A triple; its head and tail link to queries. */
export function tripleLine({ head, relation, tail }: Triple): HTMLElement {
  return h(
    "span",
    { class: "sentence" },
    entityLink(head, relation, "tails"),
    arrow(relation),
    entityLink(tail, relation, "heads"),
  );
}

/** Whether a triple is in train, held out (valid, test), or new. */
export function badge(split: Split | null): HTMLElement {
  if (split === null) return h("span", { class: "badge new", title: "Not in the graph" }, "new");
  return split === "train"
    ? h("span", { class: "badge known", title: "In the training split" }, "train")
    : h("span", { class: "badge known", title: "Held out: not trained on" }, split);
}

/** A bar from 0 to 1; the value is shown as text beside it. */
export function bar(share: number): HTMLElement {
  const fill = h("span", { class: "fill" });
  fill.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return h("span", { class: "bar", "aria-hidden": "true" }, fill);
}

/** The id, if it differs from the label. */
export function idNote(named: Named): HTMLElement | null {
  return named.id === named.label ? null : h("span", { class: "id" }, named.id);
}
