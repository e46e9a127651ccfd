/** What is known of an entity: its types, facts, questions that suit it, and what is like it. */
import { type EntityCard, type Fact, get, type Named, type Neighbour } from "./api";
import { type Child, h } from "./dom";
import { entityLink, factLine, idNote, sentence } from "./parts";
import { href, type Side } from "./state";
import { decimal, plural } from "./text";

const FACTS_SHOWN = 6;
const QUESTIONS_SHOWN = 6;
const TYPES_SHOWN = 8;

export interface Known {
  card: EntityCard;
  neighbours: Neighbour[];
}

export async function lookUp(name: string, run: string, signal: AbortSignal): Promise<Known> {
  const [card, similar] = await Promise.all([
    get<EntityCard>("/api/entity", { run, name }, signal),
    get<{ neighbours: Neighbour[] }>("/api/similar", { run, entity: name, top: 8 }, signal),
  ]);
  return { card, neighbours: similar.neighbours };
}

export function drawCard({ card, neighbours }: Known): Child[] {
  const [first, rest] = [card.some.slice(0, FACTS_SHOWN), card.some.slice(FACTS_SHOWN)];
  const unseen = card.facts - card.some.length;
  return [
    h("h3", {}, card.label, " ", idNote(card)),
    types(card.types),
    card.description !== null && h("p", {}, card.description),
    questions(card),
    h("h4", {}, plural(card.facts, "known fact")),
    factList(first),
    rest.length > 0 &&
      h("details", {}, h("summary", {}, `${plural(rest.length, "more fact")}`), factList(rest)),
    unseen > 0 && h("p", { class: "hint" }, `… and ${plural(unseen, "fact")} not listed here.`),
    h("h4", {}, "Similar"),
    h(
      "ul",
      { class: "similar" },
      ...neighbours.map(({ entity, similarity }) =>
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
      { class: "hint", title: all.slice(TYPES_SHOWN).join(", ") },
      `and ${plural(more, "more type")}`,
    );
  return h(
    "p",
    { class: "types" },
    ...all.slice(0, TYPES_SHOWN).map((type) => h("span", { class: "type" }, type)),
    rest,
  );
}

function factList(facts: Fact[]): HTMLElement {
  return h("ul", { class: "facts" }, ...facts.map((fact) => h("li", {}, factLine(fact))));
}

interface Suited {
  relation: Named;
  side: Side;
}

/** The questions that make sense for an entity: those its own facts answer. */
export function suitedQuestions(card: EntityCard): Suited[] {
  const found = new Map<string, Suited>();
  for (const { head, relation } of card.some) {
    const side = head.id === card.id ? "tails" : "heads";
    found.set(`${side} ${relation.id}`, { relation, side });
  }
  return [...found.values()];
}

function questions(card: EntityCard): Child {
  const suited = suitedQuestions(card).slice(0, QUESTIONS_SHOWN);
  if (suited.length === 0) return null;
  return h(
    "div",
    {},
    h("h4", {}, "Ask"),
    h("ul", { class: "questions" }, ...suited.map((one) => h("li", {}, questionLink(card, one)))),
  );
}

export function questionLink(entity: Named, { relation, side }: Suited): HTMLElement {
  const link = href({
    view: "ask",
    entity: entity.id,
    relation: relation.id,
    side,
    which: "all",
    type: null,
  });
  return h("a", { class: "question-link", href: link }, sentence(entity, relation, side));
}
