/** An entity: its types, facts, suggested queries and nearest neighbors. */
import { type EntityCard, get, type Named, type Neighbor, type Triple } from "./api";
import { type Child, h } from "./dom";
import { typeText } from "./names";
import { entityLink, entityName, idNote, sentence, tripleLine } from "./parts";
import { href, type Side } from "./state";
import { decimal, plural } from "./text";

const FACTS_SHOWN = 6;
const QUERIES_SHOWN = 6;
const TYPES_SHOWN = 8;

export interface EntityDetails {
  card: EntityCard;
  neighbors: Neighbor[];
}

export async function lookUp(name: string, run: string, signal: AbortSignal): Promise<EntityDetails> {
  const [card, similar] = await Promise.all([
    get<EntityCard>("/api/entity", { run, name }, signal),
    get<{ neighbors: Neighbor[] }>("/api/similar", { run, entity: name, top: 8 }, signal),
  ]);
  return { card, neighbors: similar.neighbors };
}

export function drawCard({ card, neighbors }: EntityDetails): Child[] {
  const [first, rest] = [card.triples.slice(0, FACTS_SHOWN), card.triples.slice(FACTS_SHOWN)];
  const unlisted = card.num_triples - card.triples.length;
  return [
    h("h3", {}, entityName(card), " ", idNote(card)),
    types(card.types),
    card.description !== null && h("p", { dir: "auto" }, card.description),
    queries(card),
    h("h4", {}, plural(card.num_triples, "fact")),
    factList(first),
    rest.length > 0 &&
      h("details", {}, h("summary", {}, `${plural(rest.length, "more fact")}`), factList(rest)),
    unlisted > 0 && h("p", { class: "hint" }, `… and ${plural(unlisted, "fact")} not listed here.`),
    h("h4", {}, "Similar"),
    h(
      "ul",
      { class: "similar" },
      ...neighbors.map(({ entity, similarity }) =>
        h("li", {}, entityLink(entity), h("span", { class: "figure" }, decimal(similarity))),
      ),
    ),
  ];
}

function types(all: string[]): Child {
  if (all.length === 0) return null;
  const more = all.length - TYPES_SHOWN;
  const rest =
    more > 0 &&
    h(
      "span",
      { class: "hint", title: all.slice(TYPES_SHOWN).map(typeText).join(", ") },
      `and ${plural(more, "more type")}`,
    );
  return h(
    "p",
    { class: "types" },
    ...all.slice(0, TYPES_SHOWN).map((type) => h("bdi", { class: "type", title: type }, typeText(type))),
    rest,
  );
}

function factList(triples: Triple[]): HTMLElement {
  return h("ul", { class: "facts" }, ...triples.map((triple) => h("li", {}, tripleLine(triple))));
}

interface SuggestedQuery {
  relation: Named;
  side: Side;
}

/** Queries that the triples of an entity answer. */
export function suggestedQueries(card: EntityCard): SuggestedQuery[] {
  const found = new Map<string, SuggestedQuery>();
  for (const { head, relation } of card.triples) {
    const side = head.id === card.id ? "tails" : "heads";
    found.set(`${side} ${relation.id}`, { relation, side });
  }
  return [...found.values()];
}

function queries(card: EntityCard): Child {
  const suggested = suggestedQueries(card).slice(0, QUERIES_SHOWN);
  if (suggested.length === 0) return null;
  return h(
    "div",
    {},
    h("h4", {}, "Ask"),
    h("ul", { class: "queries" }, ...suggested.map((query) => h("li", {}, queryLink(card, query)))),
  );
}

export function queryLink(entity: Named, { relation, side }: SuggestedQuery): HTMLElement {
  const link = href({
    view: "ask",
    entity: entity.id,
    relation: relation.id,
    side,
    which: "all",
    type: null,
  });
  return h("a", { class: "query-link", href: link }, sentence(entity, relation, side));
}
