/** Asking, and the ranked list of answers. */
import { type Answer, type Named, post, type Reply, type RunInfo } from "./api";
import { type Child, h } from "./dom";
import { badge, bar, idNote } from "./parts";
import { notice } from "./panel";
import { href, type Side, type State } from "./state";
import { decimal, percent } from "./text";

interface Asked {
  entity: string;
  relation: string;
}

/** The state's question, if it is a whole one. */
export function asked(state: State): Asked | null {
  return state.entity === null || state.relation === null
    ? null
    : { entity: state.entity, relation: state.relation };
}

/** All that a list of answers depends on. */
export function questionKey(state: State, run: string): string {
  return JSON.stringify([run, state.entity, state.relation, state.side, state.which, state.top, state.type]);
}

export function ask(
  { entity, relation }: Asked,
  state: State,
  run: string,
  signal: AbortSignal,
): Promise<Reply> {
  const end = state.side === "tails" ? { head: entity } : { tail: entity };
  const types = state.type === null ? [] : [state.type];
  const body = { run, ...end, relation, top: state.top, which: state.which, types };
  return post<Reply>(`/api/predict/${state.side}`, body, signal);
}

/** The entity that was asked about, by its names. */
export function subject({ question }: Reply, side: Side): Named | null {
  return side === "tails" ? question.head : question.tail;
}

const opposite = (side: Side): Side => (side === "tails" ? "heads" : "tails");

/** How long each bar is: the probability, or where the score lies between the listed ones. */
function barShare(answer: Answer, answers: readonly Answer[]): number {
  if (answer.probability !== null) return answer.probability;
  const scores = answers.map(({ score }) => score);
  const [low, high] = [Math.min(...scores), Math.max(...scores)];
  return high > low ? 0.04 + (0.96 * (answer.score - low)) / (high - low) : 1;
}

export function figure(answer: Answer): HTMLElement {
  return answer.probability === null
    ? h("span", { class: "figure", title: "Score: this run is not calibrated" }, decimal(answer.score))
    : h("span", { class: "figure", title: `Score ${decimal(answer.score)}` }, percent(answer.probability));
}

/** An answer leads to the question that has it on the other side of the same relation. */
function answerLink(answer: Answer, state: State): HTMLElement {
  const link = href({ view: "ask", entity: answer.id, side: opposite(state.side), which: "all", type: null });
  return h("a", { class: "answer-name", href: link }, answer.label);
}

export function answerRow(
  answer: Answer,
  answers: readonly Answer[],
  state: State,
  ...more: Child[]
): HTMLLIElement {
  return h(
    "li",
    { class: "answer", "data-id": answer.id },
    h("span", { class: "rank" }, String(answer.rank)),
    h("span", { class: "answer-text" }, answerLink(answer, state), idNote(answer)),
    badge(answer.known),
    h("span", { class: "likelihood" }, bar(barShare(answer, answers)), figure(answer)),
    ...more,
  );
}

export function noAnswers(state: State): HTMLElement {
  const kind = state.which === "all" ? "answers" : `${state.which} answers`;
  const reset = h("a", { class: "button", href: href({ which: "all", type: null }) }, "Show all answers");
  return notice(
    `No ${kind}`,
    "Nothing fits what was asked for.",
    (state.which !== "all" || state.type !== null) && h("div", { class: "row" }, reset),
  );
}

export function uncalibratedNote(run: RunInfo | undefined): Child {
  return (
    run?.calibrated === false &&
    h("p", { class: "hint" }, "This run is not calibrated: bars compare scores, they are no probabilities.")
  );
}
