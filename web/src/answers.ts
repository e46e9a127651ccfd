/** Queries and the ranked list of their answers. */
import { type Answer, type Named, post, type Prediction, type RunInfo } from "./api";
import { type Child, h } from "./dom";
import { badge, bar, entityName, idNote } from "./parts";
import { notice } from "./panel";
import { href, type Side, type State } from "./state";
import { decimal, percent } from "./text";

interface Query {
  entity: string;
  relation: string;
}

/** The query of the state, if it is complete. */
export function queryOf(state: State): Query | null {
  return state.entity === null || state.relation === null
    ? null
    : { entity: state.entity, relation: state.relation };
}

/** Everything that a list of answers depends on. */
export function queryKey(state: State, run: string): string {
  return JSON.stringify([run, state.entity, state.relation, state.side, state.which, state.top, state.type]);
}

export function predict(
  { entity, relation }: Query,
  state: State,
  run: string,
  signal: AbortSignal,
): Promise<Prediction> {
  const end = state.side === "tails" ? { head: entity } : { tail: entity };
  const types = state.type === null ? [] : [state.type];
  const body = { run, ...end, relation, top: state.top, which: state.which, types };
  return post<Prediction>(`/api/predict/${state.side}`, body, signal);
}

/** The given entity of a query. */
export function givenEntity({ query }: Prediction, side: Side): Named | null {
  return side === "tails" ? query.head : query.tail;
}

const opposite = (side: Side): Side => (side === "tails" ? "heads" : "tails");

/** The length of a bar: the probability, or the score relative to the listed ones. */
function barLength(answer: Answer, answers: readonly Answer[]): number {
  if (answer.probability !== null) return answer.probability;
  const scores = answers.map(({ score }) => score);
  const [low, high] = [Math.min(...scores), Math.max(...scores)];
  return high > low ? 0.04 + (0.96 * (answer.score - low)) / (high - low) : 1;
}

/** Bar and probability of an answer; a tick for a fact that the model was trained on. */
function likelihood(answer: Answer, answers: readonly Answer[]): HTMLElement {
  const score = `Score ${decimal(answer.score)}`;
  if (answer.state === "in train")
    return h("span", { class: "likelihood" }, h("span", { class: "tick", title: score, "aria-hidden": "true" }, "✓"));
  const figure =
    answer.probability === null
      ? h("span", { class: "figure", title: "Score (this model is not calibrated)" }, decimal(answer.score))
      : h("span", { class: "figure", title: score }, percent(answer.probability));
  return h("span", { class: "likelihood" }, bar(barLength(answer, answers)), figure);
}

/** A link to the query that has the answer on the other side of the same relation. */
function answerLink(answer: Answer, state: State): HTMLElement {
  const link = href({ view: "ask", entity: answer.id, side: opposite(state.side), which: "all", type: null });
  return h("a", { class: "answer-name", href: link }, entityName(answer));
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
    badge(answer.split),
    likelihood(answer, answers),
    ...more,
  );
}

export function noAnswers(state: State): HTMLElement {
  const wanted = { all: "answers", new: "new answers", known: "answers in the graph" }[state.which];
  const reset = h("a", { class: "button", href: href({ which: "all", type: null }) }, "Show all answers");
  return notice(
    `No ${wanted}`,
    "No answer matches the filters.",
    (state.which !== "all" || state.type !== null) && h("div", { class: "row" }, reset),
  );
}

export function uncalibratedNote(run: RunInfo | undefined): Child {
  return (
    run?.is_calibrated === false &&
    h("p", { class: "hint" }, "This model is not calibrated: bars compare scores, not probabilities.")
  );
}
