/** The view of two models that answer the same query, side by side. */
import { type Answer, type Prediction, type RunInfo } from "./api";
import { answerRow, givenEntity, noAnswers, predict, queryKey, queryOf } from "./answers";
import { drawComparison, loadComparison } from "./comparison";
import { announce, byId, type Child, h } from "./dom";
import { sentence } from "./parts";
import { notice, Panel, skeletonRows } from "./panel";
import type { QueryForm } from "./query-form";
import { current, go, href, type State } from "./state";
import { decimal, plural } from "./text";

interface Outcome {
  reply: Prediction | null;
  error: Error | null;
}

export class CompareView {
  private readonly panel = new Panel(byId("compare-body"), skeletonRows(8));
  private readonly other = byId<HTMLSelectElement>("other-run");

  constructor(private readonly form: QueryForm) {
    form.options.append(byId("compare-choice"));
    this.other.addEventListener("change", () => go({ other: this.other.value }));
  }

  update(state: State, run: RunInfo, runs: readonly RunInfo[]): void {
    const others = runs.filter(({ name }) => name !== run.name);
    byId("compare-choice").hidden = others.length === 0;
    this.other.replaceChildren(
      ...others.map(({ name, model }) => h("option", { value: name }, `${name} (${model})`)),
    );
    const other = others.find(({ name }) => name === state.other) ?? others[0];
    const query = queryOf(state);
    if (!other) {
      this.panel.place("one run", () => [onlyOne(run)]);
      return;
    }
    this.other.value = other.name;
    if (query === null) {
      void this.panel.show(
        `held out ${run.name} ${other.name}`,
        (signal) => loadComparison(run, other, signal),
        drawComparison,
        (problem) =>
          problem.code === "nothing-held-out"
            ? [h("p", { class: "hint" }, "Pick an entity and a relation above to compare single queries.")]
            : [],
      );
      return;
    }
    void this.panel.show(
      `${queryKey(state, run.name)} ${other.name}`,
      async (signal) => {
        const outcomes = await Promise.all(
          [run, other].map((one) => outcome(predict(query, state, one.name, signal))),
        );
        signal.throwIfAborted();
        // A name may be unknown to one of the two models; if to both, show the error.
        const [first, second] = outcomes;
        if (!first || !second || (first.error && second.error)) throw first?.error ?? new Error("no response");
        return [first, second] as const;
      },
      (outcomes) => this.draw(outcomes, [run, other]),
    );
  }

  private draw(outcomes: readonly [Outcome, Outcome], [run, other]: readonly [RunInfo, RunInfo]): Child[] {
    const state = current();
    const [first, second] = [outcomes[0].reply?.answers ?? [], outcomes[1].reply?.answers ?? []];
    const reply = outcomes[0].reply ?? outcomes[1].reply;
    const entity = reply && givenEntity(reply, state.side);
    if (entity) this.form.setLabel(entity);
    const ids = new Set(first.map(({ id }) => id));
    const shared = second.filter(({ id }) => ids.has(id)).length;
    const most = Math.max(first.length, second.length);
    const summary =
      first[0]?.id === second[0]?.id ? "Both rank the same answer first" : "They rank different answers first";
    const text = `${summary}; ${shared} of ${plural(most, "answer")} are in both lists.`;
    announce(text);
    const columns = h(
      "div",
      { class: "columns" },
      column(run, outcomes[0], outcomes[1].reply, state),
      column(other, outcomes[1], outcomes[0].reply, state),
    );
    linkLists(columns);
    return [
      h(
        "p",
        {},
        h("a", { href: href({ entity: null, relation: null }) }, "← All differences of these runs"),
      ),
      entity && reply?.query.relation
        ? h("h2", { class: "query-title" }, sentence(entity, reply.query.relation, state.side))
        : null,
      !outcomes[0].error && !outcomes[1].error && h("p", { class: "hint" }, text),
      columns,
    ];
  }
}

async function outcome(reply: Promise<Prediction>): Promise<Outcome> {
  try {
    return { reply: await reply, error: null };
  } catch (error) {
    return { reply: null, error: error as Error };
  }
}

function column(run: RunInfo, { reply, error }: Outcome, others: Prediction | null, state: State): HTMLElement {
  const mrr = run.metrics?.mrr;
  const about =
    `${run.model}, ${plural(run.dim, "dimension")}` +
    (typeof mrr === "number" ? `, MRR ${decimal(mrr, 3)} on valid` : "");
  const answers = reply?.answers ?? [];
  const rows = answers.map((answer) =>
    answerRow(answer, answers, state, others && rankShift(answer, others.answers, state.top)),
  );
  const body = error
    ? notice("No answer", error.message)
    : rows.length === 0
      ? noAnswers(state)
      : h("ol", { class: "answers" }, ...rows);
  return h(
    "section",
    { class: "column", "aria-label": run.name },
    h("h3", {}, run.name),
    h("p", { class: "hint" }, about),
    body,
  );
}

/** The difference of ranks between the two models. */
function rankShift(answer: Answer, others: readonly Answer[], top: number): HTMLElement {
  const there = others.find(({ id }) => id === answer.id);
  if (!there)
    return h(
      "span",
      { class: "shift only", title: `Not among the first ${top} of the other run` },
      "only here",
    );
  const by = there.rank - answer.rank;
  if (by === 0) return h("span", { class: "shift same", title: "The same rank in both" }, "=");
  const text = by > 0 ? `▲ ${by}` : `▼ ${-by}`;
  const words = `${Math.abs(by)} ${by > 0 ? "higher" : "lower"} than in the other run`;
  return h(
    "span",
    { class: by > 0 ? "shift up" : "shift down", title: words },
    h("span", { "aria-hidden": "true" }, text),
    h("span", { class: "visually-hidden" }, words),
  );
}

/** Highlight the answer under the pointer in both lists. */
function linkLists(columns: HTMLElement): void {
  const light = (event: Event, isOn: boolean): void => {
    const id = (event.target as Element).closest<HTMLElement>("li.answer")?.dataset["id"];
    for (const row of columns.querySelectorAll<HTMLElement>("li.answer")) {
      row.classList.toggle("lit", isOn && id !== undefined && row.dataset["id"] === id);
    }
  };
  for (const on of ["pointerover", "focusin"]) columns.addEventListener(on, (event) => light(event, true));
  for (const off of ["pointerleave", "focusout"])
    columns.addEventListener(off, (event) => light(event, false));
}

function onlyOne(run: RunInfo): HTMLElement {
  return notice(
    "Only one run is served",
    "Start the server with two runs of the same graph to compare their answers:",
    h("pre", {}, `fivestar serve ${run.name} ANOTHER_RUN`),
  );
}
