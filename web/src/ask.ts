/** The view of one query: its answers, an explanation, and the given entity. */
import { type Answer, type Entity, type EntityCard, get, type Prediction, Problem, type RunInfo } from "./api";
import { answerRow, givenEntity, noAnswers, predict, queryKey, queryOf, uncalibratedNote } from "./answers";
import { drawCard, lookUp, queryLink, suggestedQueries } from "./card";
import { announce, byId, type Child, h, NARROW } from "./dom";
import { sentence } from "./parts";
import { notice, Panel, skeletonRows } from "./panel";
import type { QueryForm } from "./query-form";
import { adjust, current, go, type State } from "./state";
import { plural } from "./text";
import { drawExplanation, explain, tripleOf } from "./explanation";

export class AskView {
  private readonly answers = new Panel(byId("answers"), skeletonRows(8));
  private readonly card = new Panel(byId("card"), skeletonRows(5));
  private readonly whyBox = byId("why");
  private readonly why = new Panel(byId("why-body"), skeletonRows(5));
  private run: RunInfo | null = null;

  constructor(private readonly form: QueryForm) {
    byId("why-close").addEventListener("click", () => this.closeWhy());
    NARROW.addEventListener("change", () => this.placeWhy(current().why));
  }

  update(state: State, run: RunInfo): void {
    this.run = run;
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
          "Pick a relation to see predictions, or one of the suggestions beside.",
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
        : `${plural(answers.length, "answer")}. First: ${answers[0]?.label}`,
    );
    // The explanation is placed after the panel has taken in the list.
    queueMicrotask(() => this.placeWhy(current().why));
    return [
      h("h2", { class: "query-title" }, sentence(entity, relation, state.side)),
      uncalibratedNote(run),
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
        "aria-label": `Why ${answer.label}?`,
        onclick: () => (current().why === answer.id ? this.closeWhy() : go({ why: answer.id })),
      },
      "Why?",
    );
    return answerRow(answer, all, state, button);
  }

  private updateWhy(state: State, run: RunInfo): void {
    const triple = state.why === null ? null : tripleOf(state, state.why);
    this.whyBox.hidden = triple === null;
    if (triple === null) {
      this.why.clear();
      this.placeWhy(null);
      return;
    }
    const wasShown = this.placeWhy(state.why);
    void this.why.show(
      JSON.stringify([run.name, triple]),
      (signal) => explain(triple, run.name, signal),
      (explanation) => {
        const answer = state.side === "tails" ? explanation.tail : explanation.head;
        byId("why-title").textContent = `Why ${answer.label}?`;
        return drawExplanation(explanation, this.run?.has_geometry === true);
      },
    );
    if (wasShown) byId("why-title").focus({ preventScroll: !NARROW.matches });
  }

  /** Beside the answers on a wide screen, under its answer on a narrow one. */
  private placeWhy(answer: string | null): boolean {
    let isListed = false;
    for (const row of byId("answers").querySelectorAll<HTMLElement>("li.answer")) {
      const isOpen = row.dataset["id"] === answer;
      row.classList.toggle("explained", isOpen);
      row.querySelector(".why-button")?.setAttribute("aria-expanded", String(isOpen));
      if (isOpen) isListed = true;
      if (isOpen && NARROW.matches) row.append(this.whyBox);
    }
    if (!isListed || !NARROW.matches) byId("aside").prepend(this.whyBox);
    return isListed;
  }

  private closeWhy(): void {
    const opener = document.querySelector<HTMLElement>('.why-button[aria-expanded="true"]');
    adjust({ why: null });
    opener?.focus();
  }
}

/** Buttons for the names that may have been meant. */
export function suggestions(problem: Problem, field: "entity" | "relation"): Child[] {
  const choices =
    problem.candidates.length > 0 ? problem.candidates : problem.nearest.map((id) => ({ id, label: id }));
  return choices.map(({ id, label }) => {
    const text = id === label ? label : `${label} (${id})`;
    return h("button", { type: "button", class: "button", onclick: () => go({ [field]: id }) }, text);
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
      h("h2", {}, "What is missing from the graph?"),
      h(
        "p",
        {},
        `The graph “${run.graph}” has ${plural(run.num_entities, "entity", "entities")} and ${plural(run.num_triples, "fact")}. Ask for the head or tail of a fact: the trained model ranks all entities, those in the graph and those that may be missing.`,
      ),
      links.length > 0 && h("p", { class: "hint" }, "For example"),
      h("ul", { class: "queries large" }, ...links),
    ),
  ];
}
