/** The view of one question: its answers, the reasons, and the entity asked about. */
import { type Answer, type Entity, type EntityCard, get, Problem, type Reply, type RunInfo } from "./api";
import { answerRow, ask, asked, noAnswers, questionKey, subject, uncalibratedNote } from "./answers";
import { drawCard, lookUp, questionLink, suitedQuestions } from "./card";
import { announce, byId, type Child, h, NARROW } from "./dom";
import { sentence } from "./parts";
import { notice, Panel, skeletonRows } from "./panel";
import type { Question } from "./question";
import { adjust, current, go, type State } from "./state";
import { plural } from "./text";
import { drawExplanation, explain, factOf } from "./why";

export class AskView {
  private readonly answers = new Panel(byId("answers"), skeletonRows(8));
  private readonly card = new Panel(byId("card"), skeletonRows(5));
  private readonly whyBox = byId("why");
  private readonly why = new Panel(byId("why-body"), skeletonRows(5));
  private run: RunInfo | null = null;

  constructor(private readonly question: Question) {
    byId("why-close").addEventListener("click", () => this.closeWhy());
    NARROW.addEventListener("change", () => this.placeWhy(current().why));
  }

  update(state: State, run: RunInfo): void {
    this.run = run;
    const whole = asked(state);
    if (whole !== null) {
      let misnamed: "entity" | "relation" = "entity";
      const load = async (signal: AbortSignal): Promise<Reply> => {
        try {
          return await ask(whole, state, run.name, signal);
        } catch (error) {
          if (!(await this.question.isRelation(whole.relation))) misnamed = "relation";
          throw error;
        }
      };
      const draw = (reply: Reply): Child[] => this.drawAnswers(reply, run);
      void this.answers.show(questionKey(state, run.name), load, draw, (problem) =>
        remedies(problem, misnamed),
      );
    } else if (state.entity !== null) {
      this.answers.place(`entity ${state.entity}`, () => [
        notice(
          "Choose a relation",
          "Then the most likely answers stand here. Questions that suit the entity are beside.",
        ),
      ]);
    } else {
      void this.answers.show(
        `welcome ${run.name}`,
        (signal) => examples(run, signal),
        (found) => welcome(run, found),
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
      (known) => {
        this.question.learn(known.card);
        return drawCard(known);
      },
      (problem) => {
        // The answers say the same of a name that is unknown.
        this.card.element.hidden = state.relation !== null;
        return remedies(problem, "entity");
      },
    );
  }

  private drawAnswers(reply: Reply, run: RunInfo): Child[] {
    const state = current();
    const { relation } = reply.question;
    const entity = subject(reply, state.side);
    if (entity === null || relation === null) return [];
    this.question.learn(entity);
    const found = reply.answers;
    announce(
      found.length === 0 ? "No answers" : `${plural(found.length, "answer")}. First: ${found[0]?.label}`,
    );
    // The list is drawn before the panel takes it in: the reasons find their place after that.
    queueMicrotask(() => this.placeWhy(current().why));
    return [
      h("h2", { class: "asked" }, sentence(entity, relation, state.side)),
      uncalibratedNote(run),
      found.length === 0
        ? noAnswers(state)
        : h("ol", { class: "answers" }, ...found.map((answer) => this.row(answer, found, state))),
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
    const fact = state.why === null ? null : factOf(state, state.why);
    this.whyBox.hidden = fact === null;
    if (fact === null) {
      this.why.clear();
      this.placeWhy(null);
      return;
    }
    const wasShown = this.placeWhy(state.why);
    void this.why.show(
      JSON.stringify([run.name, fact]),
      (signal) => explain(fact, run.name, signal),
      (found) => {
        byId("why-title").textContent = `Why ${(state.side === "tails" ? found.tail : found.head).label}?`;
        return drawExplanation(found, this.run?.geometry === true);
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

/** What to do about a name that was not understood: those it may stand for. */
export function remedies(problem: Problem, field: "entity" | "relation"): Child[] {
  const choices =
    problem.candidates.length > 0 ? problem.candidates : problem.nearest.map((id) => ({ id, label: id }));
  return choices.map(({ id, label }) => {
    const text = id === label ? label : `${label} (${id})`;
    return h("button", { type: "button", class: "button", onclick: () => go({ [field]: id }) }, text);
  });
}

/** Some entities with many facts, to begin with. */
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
    const suited = suitedQuestions(card);
    const fresh = suited.find(({ relation }) => !used.has(relation.id)) ?? suited[0];
    if (!fresh) return [];
    used.add(fresh.relation.id);
    return [h("li", {}, questionLink(card, fresh))];
  });
  return [
    h(
      "div",
      { class: "welcome" },
      h("h2", {}, "What is missing from the graph?"),
      h(
        "p",
        {},
        `The graph “${run.graph}” has ${plural(run.entities, "entity", "entities")} and ${plural(run.facts, "fact")}. Ask for one end of a fact, and the trained model ranks the answers: those it knows, and those it thinks are missing.`,
      ),
      links.length > 0 && h("p", { class: "hint" }, "For example"),
      h("ul", { class: "questions large" }, ...links),
    ),
  ];
}
