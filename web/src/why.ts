/** Why an answer: known facts like it, paths to it, and the dimensions it comes from. */
import { type Analogy, type Contribution, type Explanation, get, type Named, type PathKind } from "./api";
import { type Child, h } from "./dom";
import { arrow, badge, bar, entityLink } from "./parts";
import { href, type State } from "./state";
import { count, decimal, percent, plural, shortName, signed } from "./text";

/** The three names of the fact in question. */
export function factOf(state: State, answer: string): Record<"head" | "relation" | "tail", string> | null {
  if (state.entity === null || state.relation === null) return null;
  const [head, tail] = state.side === "tails" ? [state.entity, answer] : [answer, state.entity];
  return { head, relation: state.relation, tail };
}

export async function explain(
  fact: Record<string, string>,
  run: string,
  signal: AbortSignal,
): Promise<Explanation> {
  const reply = await get<{ explanation: Explanation }>("/api/explain", { run, ...fact }, signal);
  return reply.explanation;
}

export function drawExplanation(found: Explanation, hasGeometry: boolean): Child[] {
  const { head, relation, tail, among_tails: tails, among_heads: heads } = found;
  return [
    h(
      "p",
      { class: "fact" },
      h("span", { class: "sentence" }, entityLink(head), arrow(relation), entityLink(tail)),
      badge(found.splits.length > 0),
    ),
    h(
      "p",
      { class: "hint" },
      `${tail.label} ranks ${place(tails.rank)} of ${plural(tails.candidates, "tail")}, ${head.label} ` +
        `${place(heads.rank)} of ${plural(heads.candidates, "head")}. Score ${decimal(found.score)}.`,
    ),
    h("h4", {}, "Known facts like it"),
    ...drawAnalogies(found),
    h("h4", {}, "Paths in the graph"),
    ...drawPaths(found),
    h("h4", {}, "Where the score comes from"),
    ...drawDimensions(found, hasGeometry),
  ];
}

/** A rank; ties share the middle of theirs. */
const place = (rank: number): string => (Number.isInteger(rank) ? count(rank) : rank.toFixed(1));

function drawAnalogies(found: Explanation): Child[] {
  if (found.analogies.length === 0)
    return [h("p", { class: "none" }, "No known fact of this relation resembles it.")];
  return [
    h(
      "ul",
      { class: "reasons" },
      ...found.analogies.map((analogy) => h("li", {}, ...analogySentence(analogy, found))),
    ),
  ];
}

function analogySentence(analogy: Analogy, { head, relation, tail }: Explanation): Child[] {
  const like = (other: Named, mine: Named, similarity: number): string[] =>
    other.id === mine.id ? [] : [`${other.label} is ${percent(similarity)} like ${mine.label}`];
  const likeness = [
    ...like(analogy.head, head, analogy.head_similarity),
    ...like(analogy.tail, tail, analogy.tail_similarity),
  ];
  return [
    h("span", { class: "sentence" }, entityLink(analogy.head), arrow(relation), entityLink(analogy.tail)),
    h("p", { class: "hint" }, `${likeness.join(", ")}.`),
  ];
}

function drawPaths({ paths, relation }: Explanation): Child[] {
  if (paths.kinds.length === 0)
    return [h("p", { class: "none" }, "No other path of up to three facts joins the two.")];
  const rest = paths.kinds_found - paths.kinds.length;
  return [
    h(
      "ul",
      { class: "reasons" },
      ...paths.kinds.map((kind) =>
        h("li", {}, chain(kind), h("p", { class: "hint" }, pathText(kind, relation))),
      ),
    ),
    rest > 0 &&
      h(
        "p",
        { class: "hint" },
        `… and ${plural(rest, "other kind")} of path${paths.complete ? "" : ", at least"}.`,
      ),
  ];
}

/** Entities joined by arrows; an arrow points the way its fact does. */
function chain({ links, example }: PathKind): HTMLElement {
  const steps = links.flatMap(({ relation, backwards }, number) => {
    const next = example[number + 1];
    return [arrow(relation, backwards), next && h("span", { class: "chip" }, entityLink(next))];
  });
  const first = example[0];
  return h("div", { class: "chain" }, first && h("span", { class: "chip" }, entityLink(first)), ...steps);
}

function pathText({ count: paths, confidence, pairs, supported, exact }: PathKind, relation: Named): string {
  const many = `${plural(paths, "path")} of this kind`;
  if (confidence === null) return `${many}.`;
  const seen = exact
    ? `${count(supported)} of ${count(pairs)}`
    : `${count(supported)} of ${count(pairs)} sampled`;
  return `${many}. Of pairs joined so, ${percent(confidence)} are joined by ${shortName(relation.label)} (${seen}).`;
}

function drawDimensions({ dimensions, relation }: Explanation, hasGeometry: boolean): Child[] {
  if (dimensions === null) {
    return [h("p", { class: "none" }, "The score of this model is no sum over dimensions.")];
  }
  const most = Math.max(...dimensions.largest.map(({ contribution }) => Math.abs(contribution)));
  const total =
    `Of ${plural(dimensions.dimensions, "dimension")}, gains ${decimal(dimensions.gains)}, losses ${decimal(dimensions.losses)}` +
    (dimensions.biases === 0 ? "." : `, biases ${decimal(dimensions.biases)}.`);
  return [
    h("p", { class: "hint" }, total),
    h(
      "ul",
      { class: "contributions" },
      ...dimensions.largest.map((one) => contributionRow(one, most, relation, hasGeometry)),
    ),
  ];
}

function contributionRow(
  { number, contribution, map }: Contribution,
  most: number,
  relation: Named,
  hasGeometry: boolean,
): HTMLElement {
  const amount = bar(Math.abs(contribution) / most);
  amount.classList.toggle("negative", contribution < 0);
  const link = href({ view: "geometry", relation: relation.id, dim: number });
  return h(
    "li",
    {},
    h("span", { class: "contribution-name" }, `Dimension ${number}`),
    amount,
    h("span", { class: "figure" }, (contribution > 0 ? "+" : "") + decimal(contribution)),
    map && h("span", { class: "words" }, signed(map.words)),
    map &&
      hasGeometry &&
      h("a", { class: "show", href: link, "aria-label": `Show dimension ${number} on the sphere` }, "Sphere"),
  );
}
