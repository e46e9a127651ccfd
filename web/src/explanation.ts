/** The explanation of an answer: analogous facts, supporting paths, contribution per dimension. */
import { type Analogy, type Contribution, type Explanation, get, type Named, type PathPattern, type Split } from "./api";
import { type Child, h } from "./dom";
import { arrow, badge, bar, entityLink } from "./parts";
import { href, type State } from "./state";
import { count, decimal, percent, plural, shortName, signed } from "./text";

/** The names of the triple to explain. */
export function tripleOf(state: State, answer: string): Record<"head" | "relation" | "tail", string> | null {
  if (state.entity === null || state.relation === null) return null;
  const [head, tail] = state.side === "tails" ? [state.entity, answer] : [answer, state.entity];
  return { head, relation: state.relation, tail };
}

export async function explain(
  triple: Record<string, string>,
  run: string,
  signal: AbortSignal,
): Promise<Explanation> {
  const reply = await get<{ explanation: Explanation }>("/api/explain", { run, ...triple }, signal);
  return reply.explanation;
}

export function drawExplanation(explanation: Explanation, hasGeometry: boolean): Child[] {
  const { head, relation, tail, tail_rank: tails, head_rank: heads } = explanation;
  return [
    h(
      "p",
      { class: "fact" },
      h("span", { class: "sentence" }, entityLink(head), arrow(relation), entityLink(tail)),
      badge((explanation.splits[0] ?? null) as Split | null),
    ),
    h(
      "p",
      { class: "hint" },
      `${tail.label} ranks ${rankText(tails.rank)} of ${plural(tails.candidates, "tail")}, ${head.label} ` +
        `${rankText(heads.rank)} of ${plural(heads.candidates, "head")}. Score ${decimal(explanation.score)}.`,
    ),
    h("h4", {}, "Analogous facts"),
    ...drawAnalogies(explanation),
    h("h4", {}, "Supporting paths"),
    ...drawPaths(explanation),
    h("h4", {}, "Contribution per dimension"),
    ...drawDimensions(explanation, hasGeometry),
  ];
}

/** A rank; ties get the mean of their ranks. */
const rankText = (rank: number): string => (Number.isInteger(rank) ? count(rank) : rank.toFixed(1));

function drawAnalogies(explanation: Explanation): Child[] {
  if (explanation.analogies.length === 0)
    return [h("p", { class: "none" }, "No other fact of this relation in train.")];
  return [
    h(
      "ul",
      { class: "evidence" },
      ...explanation.analogies.map((analogy) => h("li", {}, ...analogySentence(analogy, explanation))),
    ),
  ];
}

function analogySentence(analogy: Analogy, { head, relation, tail }: Explanation): Child[] {
  const compare = (other: Named, own: Named, similarity: number): string[] =>
    other.id === own.id ? [] : [`${other.label} is ${percent(similarity)} similar to ${own.label}`];
  const similarities = [
    ...compare(analogy.head, head, analogy.head_similarity),
    ...compare(analogy.tail, tail, analogy.tail_similarity),
  ];
  return [
    h("span", { class: "sentence" }, entityLink(analogy.head), arrow(relation), entityLink(analogy.tail)),
    h("p", { class: "hint" }, `${similarities.join(", ")}.`),
  ];
}

function drawPaths({ paths, relation }: Explanation): Child[] {
  if (paths.patterns.length === 0)
    return [h("p", { class: "none" }, "No path of at most three facts connects them.")];
  const rest = paths.num_patterns - paths.patterns.length;
  return [
    h(
      "ul",
      { class: "evidence" },
      ...paths.patterns.map((pattern) =>
        h("li", {}, chain(pattern), h("p", { class: "hint" }, patternText(pattern, relation))),
      ),
    ),
    rest > 0 &&
      h(
        "p",
        { class: "hint" },
        `… and ${paths.complete ? "" : "at least "}${plural(rest, "other path pattern")}.`,
      ),
  ];
}

/** The example of a path pattern: entities joined by arrows. */
function chain({ links, example }: PathPattern): HTMLElement {
  const steps = links.flatMap(({ relation, inverse }, number) => {
    const next = example[number + 1];
    return [arrow(relation, inverse), next && h("span", { class: "chip" }, entityLink(next))];
  });
  const first = example[0];
  return h("div", { class: "chain" }, first && h("span", { class: "chip" }, entityLink(first)), ...steps);
}

function patternText({ count: paths, confidence, pairs, support, exact }: PathPattern, relation: Named): string {
  const total = plural(paths, "path");
  if (confidence === null) return `${total}.`;
  const ratio = exact ? `${count(support)} of ${count(pairs)}` : `${count(support)} of ${count(pairs)} sampled`;
  return `${total}. Confidence ${percent(confidence)}: ${ratio} connected pairs have ${shortName(relation.label)}.`;
}

function drawDimensions({ dimensions, relation }: Explanation, hasGeometry: boolean): Child[] {
  if (dimensions === null) {
    return [h("p", { class: "none" }, "The score of this model is not a sum over dimensions.")];
  }
  const largest = Math.max(...dimensions.largest.map(({ contribution }) => Math.abs(contribution)));
  const total =
    `Of ${plural(dimensions.num_dimensions, "dimension")}: positive ${decimal(dimensions.positive)}, negative ${decimal(dimensions.negative)}` +
    (dimensions.bias === 0 ? "." : `, bias ${decimal(dimensions.bias)}.`);
  return [
    h("p", { class: "hint" }, total),
    h(
      "ul",
      { class: "contributions" },
      ...dimensions.largest.map((one) => contributionRow(one, largest, relation, hasGeometry)),
    ),
  ];
}

function contributionRow(
  { dimension, contribution, map }: Contribution,
  largest: number,
  relation: Named,
  hasGeometry: boolean,
): HTMLElement {
  const amount = bar(Math.abs(contribution) / largest);
  amount.classList.toggle("negative", contribution < 0);
  const link = href({ view: "geometry", relation: relation.id, dim: dimension });
  return h(
    "li",
    {},
    h("span", { class: "contribution-name" }, `Dimension ${dimension}`),
    amount,
    h("span", { class: "figure" }, (contribution > 0 ? "+" : "") + decimal(contribution)),
    map && h("span", { class: "map-description" }, signed(map.description)),
    map &&
      hasGeometry &&
      h("a", { class: "show", href: link, "aria-label": `Show dimension ${dimension} on the sphere` }, "Sphere"),
  );
}
