/** Pieces that several views share. */
import type { Fact, Named } from "./api";
import { h } from "./dom";
import { href, type Side } from "./state";
import { shortName } from "./text";

/** A relation as an arrow between two things; backwards if it is walked against its direction. */
export function arrow(relation: Named, backwards = false): HTMLElement {
  return h(
    "span",
    { class: backwards ? "arrow backwards" : "arrow", title: relation.id },
    backwards && h("span", { class: "visually-hidden" }, "backwards along "),
    h("span", { class: "arrow-name" }, shortName(relation.label)),
  );
}

/** The question as a sentence; what is asked for is a question mark. */
export function sentence(asked: Named, relation: Named, side: Side): HTMLElement {
  const known = h("span", { class: "thing" }, asked.label);
  const unknown = h("span", { class: "thing unknown" }, "?");
  const [head, tail] = side === "tails" ? [known, unknown] : [unknown, known];
  return h("span", { class: "sentence" }, head, arrow(relation), tail);
}

/** A link that makes an entity the one asked about. */
export function entityLink(entity: Named, relation?: Named, side?: Side): HTMLAnchorElement {
  const question = relation && side ? { relation: relation.id, side } : {};
  return h(
    "a",
    { class: "entity", href: href({ view: "ask", entity: entity.id, ...question }) },
    entity.label,
  );
}

/** A fact, both ends of which lead on: each asks what else stands in its place. */
export function factLine({ head, relation, tail }: Fact): HTMLElement {
  return h(
    "span",
    { class: "sentence" },
    entityLink(head, relation, "tails"),
    arrow(relation),
    entityLink(tail, relation, "heads"),
  );
}

export function badge(known: boolean): HTMLElement {
  return known
    ? h("span", { class: "badge known", title: "The graph says so already" }, "known")
    : h("span", { class: "badge new", title: "Not in the graph: predicted" }, "new");
}

/** A bar from 0 to 1. What it says stands beside it as text. */
export function bar(share: number): HTMLElement {
  const fill = h("span", { class: "fill" });
  fill.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return h("span", { class: "bar", "aria-hidden": "true" }, fill);
}

/** The id, where the label does not say it. */
export function idNote(named: Named): HTMLElement | null {
  return named.id === named.label ? null : h("span", { class: "id" }, named.id);
}
