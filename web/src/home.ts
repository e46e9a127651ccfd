/** The first view: facts that the graph is probably missing, each with its probability and an explanation. */
import { type ProbableFacts, get, type ProbableFact, type RunInfo, type SearchScope, type Triple } from "./api";
import { announce, byId, type Child, h } from "./dom";
import { entityText, predicateText, relationText } from "./names";
import { bar, factSentence } from "./parts";
import { notice, Panel } from "./panel";
import { adjust, current, type FactIds, go, href, MAX_SHOWN, type State } from "./state";
import { count, percent, plural } from "./text";
import type { WhyBox } from "./why";

const STEP = 10;
/** Milliseconds between two looks at a search that is running. */
const POLL = 1000;

const idsOf = ({ head, relation, tail }: ProbableFact): FactIds => [head.id, relation.id, tail.id];
const isSame = (one: FactIds, other: FactIds | null): boolean =>
  other !== null && one.every((part, at) => part === other[at]);

export class HomeView {
  private readonly progress = h("progress", { max: 1, "aria-label": "Progress of the search" });
  private readonly panel = new Panel(byId("home-body"), () => [
    h("p", { class: "loading" }, "Searching the graph for missing links …"),
    this.progress,
    h("p", { class: "hint" }, "Only the first time; the result is kept with the run."),
  ]);
  private facts: { ids: FactIds; row: HTMLElement; button: HTMLElement }[] = [];
  private run: RunInfo | null = null;
  /** The number of facts before "Show more" was pressed. */
  private before: number | null = null;

  constructor(private readonly why: WhyBox) {}

  update(state: State, run: RunInfo): void {
    this.run = run;
    byId("home-graph").textContent =
      `${run.graph}: ${plural(run.num_entities, "entity", "entities")}, ${plural(run.num_triples, "fact")}`;
    byId<HTMLAnchorElement>("home-ask").href = href({ view: "ask", fact: null });
    void this.panel.show(
      JSON.stringify([run.name, state.relation, state.shown]),
      (signal) => this.load(run.name, state, signal),
      (reply) => this.draw(reply, run),
      () => [
        state.relation !== null &&
          h("a", { class: "button", href: href({ relation: null }) }, "Show all relations"),
      ].filter((action) => action !== false),
    );
    this.placeWhy();
  }

  private async load(run: string, state: State, signal: AbortSignal): Promise<ProbableFacts> {
    // Twice as many, as facts that are the reverse of another are folded into it.
    const limit = Math.min(2 * state.shown, MAX_SHOWN);
    const query = { run, relation: state.relation, limit };
    for (let isFirst = true; ; isFirst = false) {
      const reply = await get<ProbableFacts>("/api/probable-facts", query, signal);
      if (reply.status === "done") return reply;
      if (isFirst) announce("Searching the graph for missing links");
      this.progress.value = reply.progress;
      await new Promise((resolve) => setTimeout(resolve, POLL));
      signal.throwIfAborted();
    }
  }

  private draw(reply: ProbableFacts, run: RunInfo): Child[] {
    const shown = current().shown;
    const folded = withReverses(reply.facts);
    const hasMore = folded.length > shown || reply.facts.length < Math.min(reply.num_facts, MAX_SHOWN);
    this.facts = folded.slice(0, shown).map(([fact, reverse]) => {
      const button = this.whyButton(fact);
      return { ids: idsOf(fact), button, row: factRow(fact, reverse, button) };
    });
    announce(`${plural(this.facts.length, "probable fact")}.`);
    const before = this.before;
    this.before = null;
    // After the panel has taken in the list.
    queueMicrotask(() => {
      this.placeWhy();
      if (before !== null) this.facts[before]?.row.querySelector("a")?.focus();
    });
    return [
      this.filter(reply),
      !run.is_calibrated &&
        h("p", { class: "hint" }, "This model is not calibrated: facts are in order, but have no probabilities."),
      this.facts.length === 0
        ? notice("No probable fact found", "The model gives no new fact a noticeable probability.")
        : h("ol", { class: "probable" }, ...this.facts.map(({ row }) => row)),
      hasMore && h("button", { type: "button", class: "button", onclick: () => this.showMore() }, "Show more"),
      reply.searched && h("p", { class: "hint scope" }, scopeText(reply.searched)),
    ];
  }

  private showMore(): void {
    this.before = this.facts.length;
    adjust({ shown: Math.min(current().shown + STEP, MAX_SHOWN) });
  }

  private filter({ relations }: ProbableFacts): Child {
    const chosen = current().relation;
    const select = h(
      "select",
      {
        id: "home-relation",
        onchange: () => go({ view: "home", relation: select.value || null, shown: 5 }),
      },
      h("option", { value: "" }, "All relations"),
      ...relations.map((relation) =>
        h(
          "option",
          { value: relation.id, title: relation.id, selected: relation.id === chosen },
          `${relationText(relation)} (${count(relation.num_facts)})`,
        ),
      ),
    );
    return h("div", { class: "field home-filter" }, h("label", { for: "home-relation" }, "Relation"), select);
  }

  private whyButton(fact: ProbableFact): HTMLElement {
    const ids = idsOf(fact);
    return h(
      "button",
      {
        type: "button",
        class: "why-button",
        "aria-expanded": "false",
        "aria-label": `Why? ${factText(fact)}`,
        onclick: () => (isSame(ids, current().fact) ? this.closeWhy() : this.openWhy(ids)),
      },
      "Why?",
    );
  }

  private openWhy(ids: FactIds): void {
    go({ fact: ids });
    this.why.focus({ preventScroll: true });
  }

  /** Put the explanation under its fact. */
  private placeWhy(): void {
    const { fact, view } = current();
    if (view !== "home" || this.run === null) return;
    let isListed = false;
    for (const { ids, row, button } of this.facts) {
      const isOpen = isSame(ids, fact);
      button.setAttribute("aria-expanded", String(isOpen));
      row.classList.toggle("explained", isOpen);
      if (isOpen) row.append(this.why.element);
      isListed ||= isOpen;
    }
    if (fact === null) {
      this.why.clear();
      return;
    }
    // A link may name a fact that is not in the list.
    if (!isListed) byId("home-why").append(this.why.element);
    this.why.show(
      fact,
      this.run,
      (explanation) => ["Why?", h("span", { class: "visually-hidden" }, ` ${factText(explanation)}`)],
      () => this.closeWhy(),
    );
  }

  private closeWhy(): void {
    const opener = this.facts.find(({ ids }) => isSame(ids, current().fact))?.button;
    adjust({ fact: null });
    opener?.focus();
  }
}

const factText = ({ head, relation, tail }: Triple): string =>
  [entityText(head), predicateText(relation) ?? relationText(relation), entityText(tail)].join(" ");

/** Facts, each with its reverse if that is in the list, too: of a symmetric relation, both say the same. */
export function withReverses<T extends ProbableFact>(facts: readonly T[]): [T, T | null][] {
  const key = (fact: T, isReverse: boolean): string => {
    const [head, relation, tail] = idsOf(fact);
    return JSON.stringify(isReverse ? [tail, relation, head] : [head, relation, tail]);
  };
  const rows = new Map<string, [T, T | null]>();
  for (const fact of facts) {
    const reverse = rows.get(key(fact, true));
    if (reverse && reverse[0] !== fact) reverse[1] = fact;
    else rows.set(key(fact, false), [fact, null]);
  }
  return [...rows.values()];
}

function factRow(fact: ProbableFact, reverse: ProbableFact | null, button: HTMLElement): HTMLLIElement {
  const { probability } = fact;
  return h(
    "li",
    { class: "probable-fact" },
    h("div", {}, factSentence(fact), reverse && h("p", { class: "hint" }, reverseText(reverse))),
    h(
      "span",
      { class: "likelihood" },
      probability !== null && bar(probability),
      probability !== null && h("span", { class: "figure" }, percent(probability)),
    ),
    button,
  );
}

function reverseText({ probability }: ProbableFact): string {
  return probability === null ? "And the other way round." : `And the other way round: ${percent(probability)}.`;
}

/** What was searched, and what was not. */
export function scopeText(scope: SearchScope): string {
  const { relations, num_relations: all, queries, num_queries: most, num_candidates: pairs, is_complete } = scope;
  const seconds = scope.num_second_answers;
  const omitted =
    seconds > 0 &&
    `${plural(seconds, "probable fact")} ${seconds === 1 ? "is" : "are"} omitted, which would give an entity a second answer where nearly all others have exactly one.`;
  const rule = ["Heads and tails are entities that have the relation on that side in train.", omitted].filter(Boolean).join(" ");
  if (is_complete) {
    return `Of ${plural(pairs, "possible fact")} of ${plural(relations, "relation")}, those that are not in the graph were compared. ${rule}`;
  }
  const which = relations === all ? `all ${plural(all, "relation")}` : `the ${count(relations)} most frequent of ${plural(all, "relation")}`;
  return (
    `A part of this large graph was searched: ${plural(pairs, "possible fact")} of ${which}, among the heads and tails with ` +
    `the most facts (${percent(queries / most)} of all heads and tails). ${rule}`
  );
}
