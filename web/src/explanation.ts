/** The explanation of a triple: what supports it, what speaks against it, and how the score is made up. */
import {
  type Analogy,
  type Contribution,
  type Explanation,
  type Named,
  type OtherAnswers,
  type PathPattern,
  type QueryRank,
  type SimilarEntities,
  type Triple,
} from "./api";
import { type Child, h } from "./dom";
import { arrow, badge, bar, entityLink, entityName, relationName } from "./parts";
import { current, href } from "./state";
import { count, decimal, percent, plural, signed } from "./text";

export function drawExplanation(explanation: Explanation, hasGeometry: boolean): Child[] {
  const { head, relation, tail } = explanation;
  return [
    h(
      "p",
      { class: "fact" },
      h("span", { class: "sentence" }, entityLink(head), arrow(relation), entityLink(tail)),
      badge(explanation.splits[0] ?? null),
    ),
    h("p", { class: "hint" }, ...rankSentences(explanation)),
    h("h4", {}, "For and against"),
    drawFindings(explanation),
    h("h4", {}, "Supporting paths"),
    ...drawPaths(explanation),
    h("h4", {}, "Analogous facts"),
    ...drawAnalogies(explanation),
    h("h4", {}, "Contribution per dimension"),
    ...drawDimensions(explanation, hasGeometry),
  ];
}

/** Probability and rank as an answer to either query; the fact has the mean probability. */
function rankSentences({ head, tail, probability, tail_rank: tails, head_rank: heads, score }: Explanation): Child[] {
  const ranked = ({ rank, candidates, probability: share }: QueryRank): string =>
    share === null
      ? ` has rank ${rankText(rank)} of ${count(candidates)}`
      : ` has ${percent(share)}, rank ${rankText(rank)} of ${count(candidates)}`;
  return [
    "As the tail, ",
    entityName(tail),
    `${ranked(tails)}; as the head, `,
    entityName(head),
    `${ranked(heads)}.`,
    probability !== null && ` The fact has the mean, ${percent(probability)}.`,
    ` Ranks are among entities that would make a new fact. Score ${decimal(score)}.`,
  ];
}

/** A rank; ties get the mean of their ranks. */
const rankText = (rank: number): string => (Number.isInteger(rank) ? count(rank) : rank.toFixed(1));

interface Finding {
  supports: boolean;
  text: Child[];
}

/** What can be counted in train, what supports the triple first. */
function drawFindings(explanation: Explanation): HTMLElement {
  const { head, relation, tail, evidence } = explanation;
  const findings = [
    similarFinding(evidence.similar_heads, "head", head, [relationName(relation), " ", entityName(tail)]),
    similarFinding(evidence.similar_tails, "tail", tail, [entityName(head), " as a head"]),
    pathFinding(explanation),
    otherFinding(evidence.other_tails, head, "tail", relation),
    otherFinding(evidence.other_heads, tail, "head", relation),
  ].filter((finding) => finding !== null);
  if (findings.length === 0) return h("p", { class: "none" }, "Nothing in train speaks for or against it.");
  const rows = [...findings.filter(({ supports }) => supports), ...findings.filter(({ supports }) => !supports)];
  return h("ul", { class: "findings" }, ...rows.map(findingRow));
}

function findingRow({ supports, text }: Finding): HTMLElement {
  return h(
    "li",
    { class: supports ? "finding for" : "finding against" },
    h("span", { class: "visually-hidden" }, supports ? "For: " : "Against: "),
    h("span", {}, ...text),
  );
}

function similarFinding(
  { count: most, support, share, supports }: SimilarEntities,
  side: string,
  entity: Named,
  otherEnd: Child[],
): Finding | null {
  if (share === 0) return null;
  const verb = support === 1 ? "has" : "have";
  const all = percent(share);
  return {
    supports,
    text: [
      `${support === 0 ? "None" : support} of the ${plural(most, side)} most similar to `,
      entityName(entity),
      ` ${verb} `,
      ...otherEnd,
      ` (of all ${side}s: ${all}).`,
    ],
  };
}

function pathFinding({ paths }: Explanation): Finding | null {
  const { patterns, num_patterns: all, num_measured: measured, num_supporting: supporting } = paths;
  if (patterns.length === 0) return null; // no path is no evidence
  const which = measured < all ? `the best ${count(measured)}` : count(measured);
  const verb = supporting > 1 ? "support" : "supports";
  const number = supporting === 0 ? "None" : count(supporting);
  return { supports: supporting > 0, text: [`${number} of ${which} path patterns between them ${verb} it.`] };
}

function otherFinding(
  { count: others, example, single_share: single, is_against }: OtherAnswers,
  entity: Named,
  side: "head" | "tail",
  relation: Named,
): Finding | null {
  if (!is_against || example === null) return null;
  const given = side === "tail" ? "heads" : "tails";
  const rest = others > 1 ? ` and ${plural(others - 1, "other")}` : "";
  return {
    supports: false,
    text: [
      entityName(entity),
      ` has another ${side} in train, `,
      entityName(example),
      `${rest}, and ${percent(single)} of the ${given} of `,
      relationName(relation),
      " have exactly one.",
    ],
  };
}

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
  const compare = (other: Named, own: Named, similarity: number): Child[] =>
    other.id === own.id ? [] : [entityName(other), " for ", entityName(own), ` (cosine ${decimal(similarity)})`];
  const [heads, tails] = [
    compare(analogy.head, head, analogy.head_similarity),
    compare(analogy.tail, tail, analogy.tail_similarity),
  ];
  const between = heads.length > 0 && tails.length > 0 ? [", "] : [];
  return [
    h("span", { class: "sentence" }, entityLink(analogy.head), arrow(relation), entityLink(analogy.tail)),
    h("p", { class: "hint" }, ...heads, ...between, ...tails, "."),
  ];
}

/** Paths that support the triple; those that only connect its ends are behind a heading of their own. */
function drawPaths(explanation: Explanation): Child[] {
  const { paths } = explanation;
  if (paths.patterns.length === 0)
    return [h("p", { class: "none" }, "No path of at most three facts connects them.")];
  const supporting = paths.patterns.filter(({ supports }) => supports);
  const others = paths.patterns.filter(({ supports }) => !supports);
  const rest = paths.num_patterns - paths.patterns.length;
  return [
    supporting.length > 0
      ? pathList(supporting, explanation)
      : h("p", { class: "none" }, "No path supports it: pairs connected like these two do not have the relation more often than others."),
    others.length > 0 &&
      h(
        "details",
        {},
        h("summary", {}, `${plural(others.length, "path pattern")} that ${others.length === 1 ? "does" : "do"} not support it`),
        pathList(others, explanation),
      ),
    rest > 0 &&
      h(
        "p",
        { class: "hint" },
        `… and ${paths.complete ? "" : "at least "}${plural(rest, "other path pattern")}.`,
      ),
  ];
}

function pathList(patterns: PathPattern[], { paths, relation }: Explanation): HTMLElement {
  const rows = sameButDirection(patterns).map(([pattern, same]) => {
    const text = patternText(pattern, relation, paths.base_rate);
    const note = same > 0 && ` ${plural(same, "other pattern differs", "other patterns differ")} only in the direction of an arrow.`;
    return h("li", {}, chain(pattern), h("p", { class: "hint" }, ...text, note));
  });
  return h("ul", { class: "evidence" }, ...rows);
}

/** Patterns, each with the number of those that differ from it only in directions: a symmetric relation has both. */
function sameButDirection(patterns: PathPattern[]): [PathPattern, number][] {
  const groups = new Map<string, PathPattern[]>();
  for (const pattern of patterns) {
    const { links, example, pairs, support } = pattern;
    const ids = [...links.map(({ relation }) => relation.id), ...example.map(({ id }) => id)];
    const key = JSON.stringify([ids, pairs, support]);
    groups.set(key, [...(groups.get(key) ?? []), pattern]);
  }
  return [...groups.values()].flatMap(([first, ...rest]) => (first ? [[first, rest.length] as [PathPattern, number]] : []));
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

/** The counts that decide whether a path pattern supports the triple. */
function patternText(
  { count: paths, confidence, pairs, support, exact }: PathPattern,
  relation: Named,
  baseRate: number,
): Child[] {
  const total = paths > 1 ? `${plural(paths, "path")} like this. ` : "";
  if (confidence === null) return [`${total}No other pair is connected like this, so it says nothing.`];
  const others = `${plural(pairs, `other ${exact ? "" : "sampled "}pair`)} connected like this`;
  const name = relationName(relation);
  if (support === 0) return [`${total}None of ${others} has `, name, "."];
  const verb = support === 1 ? "has" : "have";
  return [
    `${total}${count(support)} of ${others} ${verb} `,
    name,
    `: ${percent(confidence)}, against ${percent(baseRate)} of any head and tail.`,
  ];
}

function drawDimensions({ dimensions, ...triple }: Explanation, hasGeometry: boolean): Child[] {
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
      ...dimensions.largest.map((one) => contributionRow(one, largest, triple, hasGeometry)),
    ),
  ];
}

function contributionRow(
  { dimension, contribution, map }: Contribution,
  largest: number,
  { head, relation, tail }: Triple,
  hasGeometry: boolean,
): HTMLElement {
  const amount = bar(Math.abs(contribution) / largest);
  amount.classList.toggle("negative", contribution < 0);
  // The query of the state may have this triple as an answer already, from either side.
  const answer = current().why === null ? { entity: head.id, side: "tails" as const, why: tail.id } : {};
  const link = href({ view: "geometry", ...answer, relation: relation.id, dim: dimension, fact: null });
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
