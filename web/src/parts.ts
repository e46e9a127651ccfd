/** Elements that several views share. */
import type { FactState, Named, Split, Triple } from "./api";
import { type Child, h } from "./dom";
import { entityText, predicateText, relationText } from "./names";
import { href, type Side } from "./state";

/** The full name in a tooltip, where it is not what is shown. */
function tooltip({ id, label }: Named, shown: string): string | null {
  if (id === shown) return null;
  return id === label || label === shown ? id : `${label} (${id})`;
}

/** The name of an entity in its own direction of writing. */
export function entityName(entity: Named): HTMLElement {
  const text = entityText(entity);
  return h("bdi", { title: tooltip(entity, text) }, text);
}

/** The name of a relation as words. */
export function relationName(relation: Named): HTMLElement {
  return h("bdi", { class: "relation-name", title: relation.id }, relationText(relation));
}

/** A relation as an arrow between two entities. */
export function arrow(relation: Named, inverse = false): HTMLElement {
  return h(
    "span",
    { class: inverse ? "arrow inverse" : "arrow", title: relation.id },
    inverse && h("span", { class: "visually-hidden" }, "inverse of "),
    h("bdi", { class: "arrow-name" }, relationText(relation)),
  );
}

/** A relation as the verb of a sentence; as an arrow where its name does not read like one. */
function predicate(relation: Named): HTMLElement {
  const text = predicateText(relation);
  return text === null ? arrow(relation) : h("bdi", { class: "predicate", title: relation.id }, text);
}

/** A query as a sentence, with ? for the missing slot. */
export function sentence(entity: Named, relation: Named, side: Side): HTMLElement {
  const given = h("span", { class: "entity-name" }, entityName(entity));
  const missing = h("span", { class: "entity-name missing" }, "?");
  const [head, tail] = side === "tails" ? [given, missing] : [missing, given];
  return h("span", { class: "sentence" }, head, arrow(relation), tail);
}

/** A link to a query about an entity. */
export function entityLink(entity: Named, relation?: Named, side?: Side): HTMLAnchorElement {
  const query = relation && side ? { relation: relation.id, side } : {};
  return h(
    "a",
    { class: "entity", href: href({ view: "ask", entity: entity.id, fact: null, ...query }) },
    entityName(entity),
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

/** A triple as a sentence that can be read aloud. */
export function factSentence({ head, relation, tail }: Triple): HTMLElement {
  return h(
    "span",
    { class: "sentence spoken" },
    entityLink(head, relation, "tails"),
    " ",
    predicate(relation),
    " ",
    entityLink(tail, relation, "heads"),
  );
}

const STATES: Record<FactState, { className: string; title: string }> = {
  "in train": { className: "train", title: "The model was trained on this fact" },
  "held out": { className: "held-out", title: "In the graph, but held out of training" },
  new: { className: "new", title: "Not in the graph" },
};

/** Whether a triple is in train, held out (valid, test), or new. */
export function badge(split: Split | null): HTMLElement {
  const state: FactState = split === null ? "new" : split === "train" ? "in train" : "held out";
  const { className, title } = STATES[state];
  const text = state === "held out" ? `${title} (${split})` : title;
  return h("span", { class: `badge ${className}`, title: text }, state);
}

/** A bar from 0 to 1; the value is shown as text beside it. */
export function bar(share: number): HTMLElement {
  const fill = h("span", { class: "fill" });
  fill.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return h("span", { class: "bar", "aria-hidden": "true" }, fill);
}

/** The id, if the label is another text. An IRI is in the tooltip already. */
export function idNote(named: Named): Child {
  return named.id === named.label ? null : h("bdi", { class: "id", title: named.id }, entityText({ id: named.id, label: named.id }));
}
