/** The geometry of a relation: facts of the graph on the sphere and in the plane, in one dimension. */
import { type Geometry, get, LatestRequest, Problem, type RunInfo, type SphereFacts } from "./api";
import { suggestions } from "./ask";
import { byId, type Child, h } from "./dom";
import { DimensionPicker } from "./dimensions";
import { describeFacts, FactList } from "./fact-list";
import { FactsInFlow } from "./facts-in-flow";
import { drawFacts, shares } from "./map-facts";
import { matrixOf } from "./map-classes";
import { Flow } from "./mobius";
import { notice, Panel } from "./panel";
import { Plane } from "./plane";
import { relationText } from "./names";
import { arrow, entityName } from "./parts";
import type { QueryForm } from "./query-form";
import type { Sphere } from "./sphere";
import { adjust, current, go, href, type State } from "./state";
import { count, plural } from "./text";
import { onThemeChange } from "./theme";
import { Transport } from "./transport";

export class GeometryView {
  private readonly panel = new Panel(byId("geometry-body"));
  private readonly latest = new LatestRequest();
  private readonly stage = h("div", {
    class: "stage",
    tabindex: 0,
    role: "application",
    "aria-label": "Riemann sphere. Arrow keys turn it, plus and minus zoom.",
    "aria-describedby": "sphere-text",
  });
  private readonly planeCanvas = h("canvas", {
    class: "plane",
    role: "img",
    "aria-label": "The same facts in the plane, with a grid and its image under the map",
    "aria-describedby": "sphere-text",
  });
  private readonly plane = new Plane(this.planeCanvas);
  private readonly transport = new Transport(
    (s) => this.move(s),
    (s) => adjust({ s: Math.round(s * 100) / 100 }),
  );
  private readonly list = new FactList();
  private readonly text = h("p", { id: "sphere-text", class: "visually-hidden" });
  private readonly lead = h("div", { class: "lead", "aria-live": "polite" });
  private readonly key = h("p", { class: "hint sphere-key" });
  private readonly mapFacts = h("div", { class: "map-facts" });
  private sphere: Sphere | null = null;
  private geometry: Geometry | null = null;
  private picker: DimensionPicker | null = null;
  private facts: FactsInFlow | null = null;
  /** The dimensions that are loaded; null is the one that the server has chosen. */
  private loaded = new Map<number | null, SphereFacts>();
  private shownDim: number | null | undefined;

  constructor(private readonly form: QueryForm) {
    onThemeChange(() => {
      this.sphere?.recolor();
      this.plane.draw();
    });
  }

  update(state: State, run: RunInfo): void {
    if (!run.has_geometry) {
      this.panel.place(`none ${run.name}`, () => [noGeometry(run)]);
    } else if (state.relation === null) {
      this.panel.place("no relation", () => [h("p", { class: "loading" }, "Loading …")]);
      void this.chooseRelation();
    } else {
      const relation = state.relation;
      void this.panel.show(
        JSON.stringify([run.name, relation, ...Object.values(answerOf(state))]),
        async (signal) => {
          this.loaded = new Map();
          const [geometry, facts] = await Promise.all([
            get<Geometry>("/api/geometry", { run: run.name, relation }, signal),
            load(state, run, signal),
          ]);
          return { geometry, facts };
        },
        ({ geometry, facts }) => this.draw(geometry, facts, state.dim),
        (problem: Problem) => remedies(problem, state),
      );
      void this.select(state, run);
    }
  }

  /** Without a relation in the URL: the one with the most facts. */
  private async chooseRelation(): Promise<void> {
    const relation = await this.form.mostFrequentRelation();
    const { view, relation: chosen } = current();
    if (view !== "geometry" || chosen !== null) return;
    if (relation !== null) adjust({ relation });
    else
      this.panel.place("choose", () => [
        notice("Choose a relation", "Pick a relation to see what it does with its heads."),
      ]);
  }

  private draw(geometry: Geometry, facts: SphereFacts, dim: number | null): Child[] {
    this.geometry = geometry;
    this.facts = null;
    this.shownDim = undefined;
    this.loaded.set(dim, facts);
    const order = facts.facts[0]?.is_answer ? "by contribution to this answer" : "by mean contribution";
    this.picker = new DimensionPicker(facts.dimensions, facts.landing.total, order, (chosen) =>
      adjust({ dim: chosen }),
    );
    queueMicrotask(() => {
      this.show(dim);
      void this.startSphere();
    });
    return [
      h("h2", {}, title(facts)),
      this.lead,
      this.transport.element,
      h(
        "div",
        { class: "scenes" },
        h(
          "figure",
          {},
          this.stage,
          h("figcaption", {}, "On the sphere: 0 is the south pole, ∞ the north pole. Drag to turn it."),
        ),
        h("figure", {}, this.planeCanvas, h("figcaption", {}, "The same in the plane.")),
      ),
      this.text,
      this.key,
      this.list.element,
      this.picker.element,
      this.mapFacts,
    ];
  }

  /** Show the dimension of the state, once it is loaded. */
  private async select(state: State, run: RunInfo): Promise<void> {
    if (this.geometry?.relation.id !== state.relation || this.loaded.size === 0) return;
    this.transport.show(state.s);
    if (this.shownDim === state.dim) return;
    if (!this.loaded.has(state.dim)) {
      const signal = this.latest.begin();
      try {
        const facts = await load(state, run, signal);
        if (signal.aborted) return;
        this.loaded.set(state.dim, facts);
      } catch (error) {
        if (signal.aborted) return;
        this.lead.replaceChildren(h("p", { class: "refused" }, (error as Error).message));
        return;
      }
    }
    if (current().dim === state.dim) this.show(state.dim);
  }

  private show(dim: number | null): void {
    const given = this.loaded.get(dim);
    const chosen = this.geometry?.dimensions.find(({ dimension }) => dimension === given?.dimension);
    if (!given || !chosen || !this.geometry) return;
    this.shownDim = dim;
    this.transport.stop();
    this.picker?.select(chosen.dimension);
    const map = matrixOf(chosen);
    this.facts = new FactsInFlow(given, map);
    this.list.show(this.facts);
    this.text.textContent = describeFacts(given);
    this.lead.replaceChildren(...drawLead(given, chosen.map_class));
    this.key.replaceChildren(...drawKey(given));
    this.mapFacts.replaceChildren(
      ...drawFacts(chosen, Flow.of(map), this.geometry.dimensions.length),
      h("p", { class: "hint" }, `All dimensions of ${relationText(this.geometry.relation)}: ${shares(this.geometry)}.`),
    );
    this.plane.show(this.facts, `--line-${chosen.map_class}`);
    this.sphere?.show(this.facts, `--line-${chosen.map_class}`);
    this.transport.show(current().s);
  }

  private move(s: number): void {
    this.plane.setProgress(s);
    this.sphere?.move(s);
    if (this.facts) this.list.move(this.facts, s);
  }

  private async startSphere(): Promise<void> {
    if (this.sphere !== null || this.stage.childElementCount > 0) return;
    this.stage.append(h("p", { class: "loading" }, "Loading the sphere …"));
    try {
      const { Sphere } = await import("./sphere");
      this.stage.replaceChildren();
      this.sphere = new Sphere(this.stage);
      this.show(this.shownDim ?? null);
    } catch {
      this.stage.replaceChildren(
        notice(
          "No 3-D graphics",
          "This browser does not support WebGL. The plane shows the same facts.",
        ),
      );
      this.stage.removeAttribute("tabindex");
      this.stage.setAttribute("role", "group");
      this.stage.setAttribute("aria-label", "Riemann sphere");
    }
  }
}

/** The ends of the current answer that are in the URL; the server adds a missing one. */
function answerOf({ entity, side, why }: State): { head: string | null; tail: string | null } {
  if (entity === null) return { head: null, tail: null };
  return side === "tails" ? { head: entity, tail: why } : { head: why, tail: entity };
}

/** Similar names for an unknown one, or a dimension that there is. */
function remedies(problem: Problem, state: State): Child[] {
  if (problem.code === "not-found" && state.dim !== null)
    return [h("a", { class: "button", href: href({ dim: null }) }, "Choose a dimension for me")];
  if (problem.detail.startsWith("no relation")) return suggestions(problem, "relation");
  // An unknown answer has no field of its own.
  return state.why === null ? suggestions(problem, "entity") : [];
}

function load(state: State, run: RunInfo, signal: AbortSignal): Promise<SphereFacts> {
  const query = { run: run.name, relation: state.relation, ...answerOf(state), dimension: state.dim };
  return get<SphereFacts>("/api/sphere", query, signal);
}

/** The current answer, or what every fact of the relation has. */
function title({ relation, facts: [first] }: SphereFacts): HTMLElement {
  const [head, tail] = first?.is_answer ? [entityName(first.head), entityName(first.tail)] : ["head", "tail"];
  const name = (child: Child): HTMLElement => h("span", { class: "entity-name" }, child);
  return h("span", { class: "sentence" }, name(head), arrow(relation), name(tail));
}

const REASONS: Record<SphereFacts["chosen_by"], string> = {
  request: "",
  "contribution to the answer": "Of all dimensions, this one contributes most to the score of this answer.",
  landing: "Of all dimensions, this one beats the random baseline most clearly.",
  "mean contribution": "Of all dimensions, this one contributes most to the scores of these facts on average.",
};

function drawLead({ dimension, sentence, chosen_by: reason }: SphereFacts, mapClass: string): Node[] {
  return [
    h(
      "p",
      { class: "landing" },
      h("span", { class: `map-class class-${mapClass}` }, `Dimension ${dimension}`),
      " ",
      sentence ?? "",
    ),
    h("p", { class: "hint" }, REASONS[reason]),
  ];
}

function drawKey({ facts, num_facts: all, pairing }: SphereFacts): (Node | string)[] {
  const shown =
    facts.length < all
      ? `${count(facts.length)} of ${plural(all, "fact")}, those with the best-connected entities; each head and tail once before any comes again.`
      : `All ${plural(all, "fact")} of the relation.`;
  const tail =
    pairing === "bilinear"
      ? "conjugate of the tail (with the bilinear pairing, images approach it instead of the tail)"
      : "tail";
  const entry = (kind: string, mark: string, text: string): HTMLElement =>
    h("span", { class: "key-entry" }, h("span", { class: kind, "aria-hidden": "true" }, mark), ` ${text}`);
  return [
    entry("head-key", "●", "head"),
    entry("landed-key", "●", "head that has landed nearest its own tail"),
    entry("tail-key", "○", tail),
    h("span", { class: "key-note" }, shown),
  ];
}

function noGeometry(run: RunInfo): HTMLElement {
  return notice(
    "No Möbius maps in this model",
    `The relations of ${run.name} (${run.model}) are not Möbius maps. Those of 5★E are: fivestar train --model fivestar --denominator mobius.`,
    h(
      "div",
      { class: "row" },
      h(
        "button",
        { type: "button", class: "button", onclick: () => go({ view: "ask" }) },
        "Back to Ask",
      ),
    ),
  );
}
