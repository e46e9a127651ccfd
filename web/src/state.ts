/** The state of the page, kept in the URL hash, so that links can be shared. */
export type View = "home" | "ask" | "geometry" | "map" | "compare";
/** Head, relation and tail by id. */
export type FactIds = readonly [string, string, string];
export type Side = "tails" | "heads";
export type Which = "all" | "new" | "known";
export type Method = "pca" | "tsne";

export interface State {
  view: View;
  run: string | null;
  entity: string | null;
  relation: string | null;
  side: Side;
  which: Which;
  top: number;
  type: string | null;
  /** The answer that is explained. */
  why: string | null;
  /** The fact of the first view that is explained. */
  fact: FactIds | null;
  /** The number of facts in the first view. */
  shown: number;
  dim: number | null;
  /** How far heads are along the flow on the sphere, from 0 to 1. */
  s: number;
  /** The run to compare with. */
  other: string | null;
  /** The layout of the map; null is the best one that the server has. */
  method: Method | null;
}

const DEFAULTS: State = {
  view: "home",
  run: null,
  entity: null,
  relation: null,
  side: "tails",
  which: "all",
  top: 10,
  type: null,
  why: null,
  fact: null,
  shown: 5,
  dim: null,
  s: 0,
  other: null,
  method: null,
};

export const TOP_CHOICES = [10, 25, 50, 100] as const;
export const MAX_SHOWN = 100;

/** The view of a URL that names none: a query is answered, and without one there is the first view. */
const impliedView = (entity: string | null, relation: string | null): View =>
  entity === null && relation === null ? "home" : "ask";

function oneOf<T extends string>(value: string | null, choices: readonly T[], otherwise: T): T {
  return choices.find((choice) => choice === value) ?? otherwise;
}

function whole(value: string | null): number | null {
  return value !== null && /^\d{1,6}$/.test(value) ? Number(value) : null;
}

function share(value: string | null): number {
  const number = value !== null && /^[01](\.\d{1,6})?$/.test(value) ? Number(value) : 0;
  return Math.min(1, number);
}

function parse(hash: string): State {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const text = (name: string): string | null => given.get(name) || null;
  const top = whole(given.get("top"));
  const [entity, relation] = [text("entity"), text("relation")];
  const fact = given.getAll("fact");
  const shown = whole(given.get("shown")) ?? DEFAULTS.shown;
  return {
    view: oneOf(given.get("view"), ["home", "ask", "geometry", "map", "compare"], impliedView(entity, relation)),
    run: text("run"),
    entity,
    relation,
    side: oneOf(given.get("side"), ["tails", "heads"], DEFAULTS.side),
    which: oneOf(given.get("which"), ["all", "new", "known"], DEFAULTS.which),
    top: TOP_CHOICES.find((choice) => choice === top) ?? DEFAULTS.top,
    type: text("type"),
    why: text("why"),
    fact: fact.length === 3 ? (fact as unknown as FactIds) : null,
    shown: Math.min(Math.max(shown, 1), MAX_SHOWN),
    dim: whole(given.get("dim")),
    s: share(given.get("s")),
    other: text("other"),
    method: (["pca", "tsne"] as const).find((method) => method === given.get("method")) ?? null,
  };
}

function format(values: State): string {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(values) as [keyof State, State[keyof State]][]) {
    const usual = name === "view" ? impliedView(values.entity, values.relation) : DEFAULTS[name];
    if (value === null || value === usual) continue;
    // One parameter for each part: names may hold any character.
    if (name === "fact") for (const part of value as FactIds) given.append(name, part);
    else given.set(name, String(value));
  }
  return `#${given}`;
}

let state = parse(location.hash);
const listeners: ((state: State) => void)[] = [];

export const current = (): State => state;

export function subscribe(listener: (state: State) => void): void {
  listeners.push(listener);
}

function changed(): void {
  state = parse(location.hash);
  for (const listener of listeners) listener(state);
}

window.addEventListener("popstate", changed);

/** The URL of the current state with some changes. Another query closes the explanation. */
export function href(change: Partial<State>): string {
  return format(withChange(change));
}

function withChange(change: Partial<State>): State {
  const differs = (name: keyof State): boolean => name in change && change[name] !== state[name];
  const isOtherQuery = (["entity", "relation", "side", "run"] as const).some(differs);
  return {
    ...state,
    ...(isOtherQuery && { why: null, fact: null }),
    // Dimensions of another relation or run have nothing to do with those of this one.
    ...((differs("relation") || differs("run")) && { dim: null }),
    ...((isOtherQuery || differs("dim")) && { s: 0 }),
    ...change,
  };
}

/** Navigate to another state, with a history entry. */
export function go(change: Partial<State>): void {
  const next = href(change);
  if (next === format(state)) return;
  history.pushState(null, "", next);
  changed();
}

/** Change the state without a history entry. */
export function adjust(change: Partial<State>): void {
  history.replaceState(null, "", href(change));
  changed();
}
