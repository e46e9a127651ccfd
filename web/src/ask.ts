/** The view of one query: its answers, an explanation, and the given entity. */
import {
  type Answer,
  type Entity,
  type EntityCard,
  type Explanation,
  get,
  type Prediction,
  Problem,
  type RunInfo,
} from "./api";
import { answerRow, givenEntity, noAnswers, predict, queryKey, queryOf, uncalibratedNote } from "./answers";
import { drawCard, lookUp, queryLink, suggestedQueries } from "./card";
import { announce, byId, type Child, h, NARROW } from "./dom";
import { entityText, shortName } from "./names";
import { entityName, sentence } from "./parts";
import { notice, Panel, skeletonRows } from "./panel";
import type { QueryForm } from "./query-form";
import { adjust, current, type FactIds, go, type State } from "./state";
import { plural } from "./text";
import type { WhyBox } from "./why";

export class AskView {
  private readonly answers = new Panel(byId("answers"), skeletonRows(8));
  private readonly card = new Panel(byId("card"), skeletonRows(5));

  constructor(
    private readonly form: QueryForm,
    private readonly why: WhyBox,
  ) {
    NARROW.addEventListener("change", () => current().view === "ask" && this.placeWhy(current().why));
  }

  update(state: State, run: RunInfo): void {
    const query = queryOf(state);
    if (query !== null) {
      let wrongField: "entity" | "relation" = "entity";
      const load = async (signal: AbortSignal): Promise<Prediction> => {
        try {
          return await predict(query, state, run.name, signal);
        } catch (error) {
          if (!(await this.form.isRelation(query.relation))) wrongField = "relation";
          throw error;
        }
      };
      const draw = (reply: Prediction): Child[] => this.drawAnswers(reply, run);
      void this.answers.show(queryKey(state, run.name), load, draw, (problem) =>
        suggestions(problem, wrongField),
      );
    } else if (state.entity !== null) {
      this.answers.place(`entity ${state.entity}`, () => [
        notice(
          "Choose a relation",
          "Pick a relation to see predictions, or one of the suggested queries.",
        ),
      ]);
    } else {
      void this.answers.show(
        `welcome ${run.name}`,
        (signal) => examples(run, signal),
        (cards) => welcome(run, cards),
      );
    }
    this.updateCard(state, run);
    this.updateWhy(state, run);
  }

  private updateCard(state: State, run: RunInfo): void {
    this.card.element.hidden = state.entity === null;
    if (state.entity === null) return this.card.clear();
    const name = state.entity;
    void this.card.show(
      `${run.name} ${name}`,
      (signal) => lookUp(name, run.name, signal),
      (details) => {
        this.form.setLabel(details.card);
        return drawCard(details);
      },
      (problem) => {
        // The list of answers reports an unknown name as well.
        this.card.element.hidden = state.relation !== null;
        return suggestions(problem, "entity");
      },
    );
  }

  private drawAnswers(reply: Prediction, run: RunInfo): Child[] {
    const state = current();
    const { relation } = reply.query;
    const entity = givenEntity(reply, state.side);
    if (entity === null || relation === null) return [];
    this.form.setLabel(entity);
    const { answers } = reply;
    announce(
      answers.length === 0
        ? "No answers"
        : `${plural(answers.length, "answer")}. First: ${answers[0] && entityText(answers[0])}`,
    );
    // The explanation is placed after the panel has taken in the list.
    queueMicrotask(() => this.placeWhy(current().why));
    return [
      // The form shows the query; here it is for those who go from heading to heading.
      h("h2", { class: "query-title visually-hidden" }, "Answers: ", sentence(entity, relation, state.side)),
      uncalibratedNote(run),
      ...reply.warnings.map((warning) => h("p", { class: "warning" }, `${warning[0]?.toUpperCase()}${warning.slice(1)}.`)),
      answers.length === 0
        ? noAnswers(state)
        : h("ol", { class: "answers" }, ...answers.map((answer) => this.row(answer, answers, state))),
    ];
  }

  private row(answer: Answer, all: readonly Answer[], state: State): HTMLElement {
    const button = h(
      "button",
      {
        type: "button",
        class: "why-button",
        "aria-expanded": "false",
        "aria-label": `Why ${entityText(answer)}?`,
        onclick: () => (current().why === answer.id ? this.closeWhy() : go({ why: answer.id })),
      },
      "Why?",
    );
    return answerRow(answer, all, state, button);
  }

  private updateWhy(state: State, run: RunInfo): void {
    const fact = state.why === null ? null : tripleOf(state, state.why);
    if (fact === null) {
      this.why.clear();
      this.placeWhy(null);
      return;
    }
    const wasShown = this.placeWhy(state.why);
    const title = ({ head, tail }: Explanation): Child[] => ["Why ", entityName(state.side === "tails" ? tail : head), "?"];
    this.why.show(fact, run, title, () => this.closeWhy());
    if (wasShown) this.why.focus({ preventScroll: !NARROW.matches });
  }

  /** Beside the answers on a wide screen, under its answer on a narrow one. */
  private placeWhy(answer: string | null): boolean {
    let isListed = false;
    for (const row of byId("answers").querySelectorAll<HTMLElement>("li.answer")) {
      const isOpen = row.dataset["id"] === answer;
      row.classList.toggle("explained", isOpen);
      row.querySelector(".why-button")?.setAttribute("aria-expanded", String(isOpen));
      if (isOpen) isListed = true;
      if (isOpen && NARROW.matches) row.append(this.why.element);
    }
    if (!isListed || !NARROW.matches) byId("aside").prepend(this.why.element);
    return isListed;
  }

  private closeWhy(): void {
    const opener = document.querySelector<HTMLElement>('.why-button[aria-expanded="true"]');
    adjust({ why: null });
    opener?.focus();
  }
}

/** The ids of the triple that an answer makes. */
function tripleOf({ entity, relation, side }: State, answer: string): FactIds | null {
  if (entity === null || relation === null) return null;
  return side === "tails" ? [entity, relation, answer] : [answer, relation, entity];
}

/** Buttons for the names that may have been meant. */
export function suggestions(problem: Problem, field: "entity" | "relation"): Child[] {
  const choices =
    problem.candidates.length > 0 ? problem.candidates : problem.nearest.map((id) => ({ id, label: id }));
  return choices.map(({ id, label }) => {
    const text = id === label ? shortName(label) : `${shortName(label)} (${shortName(id)})`;
    const choose = (): void => go({ [field]: id });
    return h("button", { type: "button", class: "button", title: id, onclick: choose }, h("bdi", {}, text));
  });
}

/** Some entities with many facts, as examples. */
async function examples(run: RunInfo, signal: AbortSignal): Promise<EntityCard[]> {
  const { entities } = await get<{ entities: Entity[] }>(
    "/api/entities",
    { run: run.name, q: "", limit: 6 },
    signal,
  );
  return Promise.all(
    entities.map(({ id }) => get<EntityCard>("/api/entity", { run: run.name, name: id }, signal)),
  );
}

function welcome(run: RunInfo, cards: EntityCard[]): Child[] {
  const used = new Set<string>();
  const links = cards.flatMap((card) => {
    const suggested = suggestedQueries(card);
    const query = suggested.find(({ relation }) => !used.has(relation.id)) ?? suggested[0];
    if (!query) return [];
    used.add(query.relation.id);
    return [h("li", {}, queryLink(card, query))];
  });
  return [
    h(
      "div",
      { class: "welcome" },
      h("h2", {}, "Ask for the missing part of a fact"),
      h(
        "p",
        {},
        `The graph “${run.graph}” has ${plural(run.num_entities, "entity", "entities")} and ${plural(run.num_triples, "fact")}. Choose an entity and a relation above: the model ranks all entities for the blank, and says which answers are in the graph already.`,
      ),
      links.length > 0 && h("p", { class: "hint" }, "For example"),
      h("ul", { class: "queries large" }, ...links),
    ),
  ];
}
