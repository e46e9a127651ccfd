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
  num_entities: number;
  num_relations: number;
  num_triples: number;
  has_types: boolean;
  has_geometry: boolean;
  is_calibrated: boolean;
  map_methods: ("pca" | "tsne")[];
  metrics: { mrr?: number | null } | null;
}

export type Split = "train" | "valid" | "test";
/** What the model knows of a triple. */
export type FactState = "in train" | "held out" | "new";

export interface Answer extends Named {
  rank: number;
  score: number;
  probability: number | null;
  /** The first split that holds the triple; null if it is new. */
  split: Split | null;
  state: FactState;
}

export interface Prediction {
  run: string;
  query: { head: Named | null; relation: Named | null; tail: Named | null };
  answers: Answer[];
  /** Names of the query that no fact in train has. */
  warnings: string[];
}

export interface Entity extends Named {
  description: string | null;
  types: string[];
}

export interface Triple {
  head: Named;
  relation: Named;
  tail: Named;
}

export interface EntityCard extends Entity {
  num_triples: number;
  triples: Triple[];
}

export interface Neighbor {
  rank: number;
  entity: Named;
  similarity: number;
  common_types: string[] | null;
}

export interface Relation extends Named {
  num_triples: number;
}

/** A triple that the graph does not hold. */
export interface ProbableFact extends Triple {
  probability: number | null;
}

export interface RelationFacts extends Named {
  num_facts: number;
}

/** How much of the graph was searched. */
export interface SearchScope {
  relations: number;
  num_relations: number;
  queries: number;
  num_queries: number;
  num_candidates: number;
  num_second_answers: number;
  is_complete: boolean;
}

export interface ProbableFacts {
  run: string;
  status: "running" | "done";
  progress: number;
  facts: ProbableFact[];
  num_facts: number;
  relations: RelationFacts[];
  searched: SearchScope | null;
}

export interface Analogy {
  head: Named;
  tail: Named;
  similarity: number;
  head_similarity: number;
  tail_similarity: number;
}

export interface PathPattern {
  links: { relation: Named; inverse: boolean }[];
  count: number;
  example: Named[];
  confidence: number | null;
  pairs: number;
  support: number;
  exact: boolean;
  supports: boolean;
}

/** How many of the entities most similar to one end of a triple have its other end. */
export interface SimilarEntities {
  count: number;
  support: number;
  share: number;
  supports: boolean;
}

/** Other tails of the head, or other heads of the tail. */
export interface OtherAnswers {
  count: number;
  example: Named | null;
  single_share: number;
  is_against: boolean;
}

/** An answer to one query: its rank among answers that are not in the graph. */
export interface QueryRank {
  rank: number;
  candidates: number;
  probability: number | null;
}

export interface Contribution {
  dimension: number;
  contribution: number;
  map: { map_class: MapClass; scale: number | null; degrees: number | null; description: string } | null;
}

export interface Explanation extends Triple {
  score: number;
  /** The mean over both queries. */
  probability: number | null;
  tail_rank: QueryRank;
  head_rank: QueryRank;
  splits: Split[];
  state: FactState;
  relation_triples: number;
  evidence: {
    similar_heads: SimilarEntities;
    similar_tails: SimilarEntities;
    other_tails: OtherAnswers;
    other_heads: OtherAnswers;
  };
  analogies: Analogy[];
  paths: {
    patterns: PathPattern[];
    num_patterns: number;
    num_screened: number;
    num_measured: number;
    num_supporting: number;
    base_rate: number;
    complete: boolean;
  };
  dimensions: {
    largest: Contribution[];
    num_dimensions: number;
    positive: number;
    negative: number;
    bias: number;
  } | null;
}

export type MapClass =
  "identity" | "parabolic" | "elliptic" | "circular" | "hyperbolic" | "loxodromic" | "degenerate";
export type Pair = [number, number];

export interface DimensionMap {
  dimension: number;
  map_class: MapClass;
  matrix: [Pair, Pair, Pair, Pair];
  fixed_points: (Pair | null)[];
  multiplier: Pair | null;
  relative_determinant: number;
}

export interface Geometry {
  run: string;
  relation: Named;
  num_triples: number;
  class_shares: Partial<Record<MapClass, number>>;
  dimensions: DimensionMap[];
}

/** A fact in one dimension; null is ∞. */
export interface FactPoint {
  head: Named;
  tail: Named;
  split: Split | null;
  is_answer: boolean;
  position: Pair;
  image: Pair | null;
  target: Pair;
  nearest: Named;
  lands: boolean;
}

export interface RankedDimension {
  dimension: number;
  map_class: MapClass;
  contribution: number;
  landing_count: number;
}

export interface SphereFacts {
  relation: Named;
  pairing: "hermitian" | "bilinear";
  dimension: number;
  chosen_by: "request" | "contribution to the answer" | "landing" | "mean contribution";
  /** The modulus at the equator of the sphere. */
  scale: number;
  num_facts: number;
  facts: FactPoint[];
  landing: { count: number; total: number; expected: number; deviation: number; is_telling: boolean };
  sentence: string | null;
  dimensions: RankedDimension[];
}

export interface MapPoint extends Named {
  x: number;
  y: number;
  type: number | null;
}

export interface EntityMap {
  run: string;
  method: "pca" | "tsne";
  num_entities: number;
  types: string[];
  points: MapPoint[];
}

/** A query, and the rank of its true answer in both runs. */
export interface QueryComparison extends Triple {
  side: "tails" | "heads";
  ranks: Pair;
  difference: number;
}

export type ComparedMetrics = Record<"mrr" | "hits@1" | "hits@10", number>;

export interface RelationComparison {
  relation: Named;
  num_queries: number;
  metrics: [ComparedMetrics, ComparedMetrics];
}

export interface RunComparison {
  run: string;
  other: string;
  split: "test" | "valid";
  num_held_out: number;
  num_triples: number;
  num_relations: number;
  metrics: [ComparedMetrics, ComparedMetrics];
  difference: { mrr: number; low: number; high: number; p: number };
  relations: RelationComparison[];
  queries: QueryComparison[];
}

export interface GraphStatistics {
  entities?: number;
  relations?: number;
  splits?: Record<string, { triples?: number }>;
  degrees?: { percentiles?: Record<string, number> };
  relation_categories?: Record<string, number>;
}

/** An error of the server (RFC 9457), with a message for people. */
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

/** Set how to ask the user for a token; null if they give none. */
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

/** Get what takes a while to compute: the server waits for a moment, then says that it is still running. */
export async function getWhenDone<T extends object>(path: string, query: Query, signal: AbortSignal): Promise<T> {
  for (;;) {
    const reply = await get<T | { status: "running" }>(path, query, signal);
    if (!("status" in reply)) return reply;
  }
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
      // Another request may have obtained a token in the meantime.
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
      "The server does not respond",
      "Is fivestar serve still running?",
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
      "The server sent an invalid response.",
    );
  }
}

/** Keeps only the latest of several requests: a new one aborts the one before. */
export class LatestRequest {
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
