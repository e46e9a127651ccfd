/** The server's API, typed. */
export interface Named {
  id: string;
  label: string;
}

export interface RunInfo {
  name: string;
  graph: string;
  model: string;
  dim: number;
  entities: number;
  relations: number;
  facts: number;
  types: boolean;
  geometry: boolean;
  calibrated: boolean;
  metrics: { mrr?: number | null } | null;
}

export interface Answer extends Named {
  rank: number;
  score: number;
  probability: number | null;
  known: boolean;
}

export interface Reply {
  run: string;
  question: { head: Named | null; relation: Named | null; tail: Named | null };
  answers: Answer[];
}

export interface Entity extends Named {
  description: string | null;
  types: string[];
}

export interface Fact {
  head: Named;
  relation: Named;
  tail: Named;
}

export interface EntityCard extends Entity {
  facts: number;
  some: Fact[];
}

export interface Neighbour {
  rank: number;
  entity: Named;
  similarity: number;
  common_types: string[] | null;
}

export interface Relation extends Named {
  facts: number;
}

export interface Analogy {
  head: Named;
  tail: Named;
  similarity: number;
  head_similarity: number;
  tail_similarity: number;
}

export interface PathKind {
  links: { relation: Named; backwards: boolean }[];
  count: number;
  example: Named[];
  confidence: number | null;
  pairs: number;
  supported: number;
  exact: boolean;
}

export interface Contribution {
  number: number;
  contribution: number;
  map: { kind: Kind; stretch: number | null; degrees: number | null; words: string } | null;
}

export interface Explanation extends Fact {
  score: number;
  among_tails: { rank: number; candidates: number };
  among_heads: { rank: number; candidates: number };
  splits: string[];
  facts_of_relation: number;
  analogies: Analogy[];
  paths: { kinds: PathKind[]; kinds_found: number; kinds_tried: number; complete: boolean };
  dimensions: {
    largest: Contribution[];
    dimensions: number;
    gains: number;
    losses: number;
    biases: number;
  } | null;
}

export type Kind =
  "identity" | "parabolic" | "elliptic" | "circular" | "hyperbolic" | "loxodromic" | "degenerate";
type Pair = [number, number];

export interface DimensionMap {
  dimension: number;
  kind: Kind;
  matrix: [Pair, Pair, Pair, Pair];
  fixed_points: (Pair | null)[];
  multiplier: Pair | null;
  steadiness: number;
}

export interface Geometry {
  run: string;
  relation: Named;
  facts: number;
  kinds: Partial<Record<Kind, number>>;
  dimensions: DimensionMap[];
}

export interface MapPoint extends Named {
  x: number;
  y: number;
  type: number | null;
}

export interface EntityMap {
  run: string;
  method: "pca" | "tsne";
  types: string[];
  points: MapPoint[];
}

export interface GraphStatistics {
  entities?: number;
  relations?: number;
  splits?: Record<string, { triples?: number }>;
  degrees?: { percentiles?: Record<string, number> };
  relation_categories?: Record<string, number>;
}

/** What the server answers when it cannot: a problem with a sentence for people. */
export class Problem extends Error {
  constructor(
    readonly code: string,
    readonly title: string,
    readonly detail: string,
    readonly nearest: string[] = [],
    readonly candidates: Named[] = [],
  ) {
    super(detail);
  }
}

const TOKEN = "fivestar-token";
let askForToken: (refused: boolean) => Promise<string | null> = async () => null;

/** How to get a token from the user; null if they give none. */
export function whenUnauthorized(ask: (refused: boolean) => Promise<string | null>): void {
  askForToken = ask;
}

type Query = Record<string, string | number | null | undefined>;

export function get<T>(path: string, query: Query, signal?: AbortSignal): Promise<T> {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined) parameters.set(name, String(value));
  }
  const text = parameters.toString();
  return request<T>(text === "" ? path : `${path}?${text}`, {}, signal);
}

export function post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  const headers = { "Content-Type": "application/json" };
  return request<T>(path, { method: "POST", headers, body: JSON.stringify(body) }, signal);
}

async function request<T>(url: string, init: RequestInit, signal?: AbortSignal): Promise<T> {
  for (;;) {
    const sent = sessionStorage.getItem(TOKEN);
    const response = await send(url, init, sent, signal);
    if (response.ok) return (await response.json()) as T;
    if (response.status === 401) {
      // Another request may have got a token meanwhile.
      if (sessionStorage.getItem(TOKEN) !== sent) continue;
      const token = await askForToken(sent !== null);
      signal?.throwIfAborted();
      if (token !== null) {
        sessionStorage.setItem(TOKEN, token);
        continue;
      }
    }
    throw await problemOf(response);
  }
}

async function send(
  url: string,
  init: RequestInit,
  token: string | null,
  signal?: AbortSignal,
): Promise<Response> {
  const headers = new Headers(init.headers);
  if (token !== null) headers.set("Authorization", `Bearer ${token}`);
  try {
    return await fetch(url, { ...init, headers, ...(signal && { signal }) });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(
      "unreachable",
      "The server does not answer",
      "Is fivestar serve still running? Try again when it is.",
    );
  }
}

async function problemOf(response: Response): Promise<Problem> {
  try {
    const body = await response.json();
    return new Problem(
      body.code ?? "internal",
      body.title ?? "Error",
      body.detail ?? "",
      body.nearest,
      body.candidates,
    );
  } catch {
    return new Problem(
      "internal",
      `Error ${response.status}`,
      "The server sent something that is no answer.",
    );
  }
}

/** Requests of which only the latest counts: beginning one ends the one before. */
export class Latest {
  private controller: AbortController | null = null;

  begin(): AbortSignal {
    this.stop();
    this.controller = new AbortController();
    return this.controller.signal;
  }

  stop(): void {
    this.controller?.abort();
  }
}
