/** The geometry of a relation: the map of one dimension on the sphere and in the plane. */
import { type DimensionMap, type Geometry, get, Problem, type RunInfo } from "./api";
import { suggestions } from "./ask";
import { byId, type Child, h } from "./dom";
import { DimensionPicker } from "./dimensions";
import { describe, matrixOf, multiplierText } from "./map-classes";
import { Flow, point } from "./mobius";
import { notice, Panel } from "./panel";
import { Plane } from "./plane";
import { arrow } from "./parts";
import type { Sphere } from "./sphere";
import { adjust, current, go, type State } from "./state";
import { complexText, decimal, percent, plural, pointText } from "./text";
import { onThemeChange } from "./theme";

export class GeometryView {
  private readonly panel = new Panel(byId("geometry-body"));
  private readonly stage = h("div", {
    class: "stage",
    tabindex: 0,
    role: "application",
    "aria-label": "Riemann sphere. Arrow keys turn it, plus and minus zoom.",
  });
  private readonly planeCanvas = h("canvas", {
    class: "plane",
    role: "img",
    "aria-label": "A grid of the plane, and its image under the map",
  });
  private readonly plane = new Plane(this.planeCanvas);
  private readonly facts = h("div", { class: "map-facts" });
  private readonly pause = h("button", {
    type: "button",
    class: "button small",
    hidden: true,
    onclick: () => this.togglePause(),
  });
  private sphere: Sphere | null = null;
  private geometry: Geometry | null = null;
  private picker: DimensionPicker | null = null;

  constructor() {
    onThemeChange(() => {
      this.sphere?.recolor();
      this.plane.draw();
    });
  }

  update(state: State, run: RunInfo): void {
    if (!run.has_geometry) {
      this.panel.place(`none ${run.name}`, () => [noGeometry(run)]);
    } else if (state.relation === null) {
      this.panel.place("no relation", () => [
        notice(
          "Choose a relation",
          "Pick a relation to see its Möbius map in each dimension.",
        ),
      ]);
    } else {
      const relation = state.relation;
      void this.panel.show(
        `${run.name} ${relation}`,
        (signal) => get<Geometry>("/api/geometry", { run: run.name, relation }, signal),
        (geometry) => this.draw(geometry),
        (problem: Problem) => suggestions(problem, "relation"),
      );
      this.select(state.dim);
    }
  }

  private draw(geometry: Geometry): Child[] {
    this.geometry = geometry;
    this.picker = new DimensionPicker(geometry.dimensions, (dim) => adjust({ dim }));
    const progress = h("input", {
      id: "progress",
      type: "range",
      min: 0,
      max: 100,
      value: 100,
      oninput: () => this.plane.setProgress(Number(progress.value) / 100),
    });
    queueMicrotask(() => {
      this.select(current().dim);
      void this.startSphere();
    });
    return [
      h(
        "h2",
        {},
        h(
          "span",
          { class: "sentence" },
          h("span", { class: "entity-name" }, "z"),
          arrow(geometry.relation),
          h("span", { class: "entity-name" }, "(a z + b) / (c z + d)"),
        ),
      ),
      h(
        "p",
        { class: "hint" },
        `${plural(geometry.num_triples, "fact")}. One map per dimension (${plural(geometry.dimensions.length, "dimension")}): ${shares(geometry)}.`,
      ),
      h("section", { class: "picker", "aria-label": "Dimensions" }, ...this.picker.draw()),
      h(
        "div",
        { class: "scenes" },
        h(
          "figure",
          {},
          this.stage,
          h(
            "figcaption",
            {},
            "The sphere: 0 in the south, ∞ in the north. Drag or use the arrow keys.",
            this.pause,
          ),
        ),
        h(
          "figure",
          {},
          this.planeCanvas,
          h(
            "figcaption",
            { class: "slider" },
            h("label", { for: "progress" }, "Progress of the map"),
            progress,
          ),
        ),
      ),
      this.facts,
    ];
  }

  private select(dim: number | null): void {
    const { geometry } = this;
    const chosen = geometry?.dimensions.find((one) => one.dimension === dim) ?? geometry?.dimensions[0];
    if (!chosen || geometry?.relation.id !== current().relation) return;
    this.picker?.select(chosen.dimension);
    const flow = Flow.of(matrixOf(chosen));
    this.facts.replaceChildren(...drawFacts(chosen, flow, geometry.dimensions.length));
    this.showMap(chosen, flow);
  }

  private showMap(chosen: DimensionMap, flow: Flow | null): void {
    const moving = chosen.map_class === "identity" || chosen.map_class === "degenerate" ? null : flow;
    this.plane.show(flow, `--line-${chosen.map_class}`);
    this.sphere?.show(moving, `--line-${chosen.map_class}`);
  }

  private async startSphere(): Promise<void> {
    if (this.sphere !== null || this.stage.childElementCount > 0) return;
    this.stage.append(h("p", { class: "loading" }, "Loading the sphere …"));
    try {
      const { Sphere } = await import("./sphere");
      this.stage.replaceChildren();
      this.sphere = new Sphere(this.stage);
      this.pause.hidden = false;
      this.labelPause();
      this.select(current().dim);
    } catch {
      this.stage.replaceChildren(
        notice(
          "No 3-D graphics",
          "This browser does not support WebGL. The plane shows the same map.",
        ),
      );
      this.stage.removeAttribute("tabindex");
      this.stage.setAttribute("role", "group");
      this.stage.setAttribute("aria-label", "Riemann sphere");
    }
  }

  private togglePause(): void {
    this.sphere?.setMoving(!this.sphere.isMoving);
    this.labelPause();
  }

  private labelPause(): void {
    this.pause.textContent = this.sphere?.isMoving ? "Pause" : "Play";
  }
}

function shares(geometry: Geometry): string {
  const found = Object.entries(geometry.class_shares).filter(([, share]) => share > 0);
  return found
    .sort(([, p], [, q]) => q - p)
    .map(([mapClass, share]) => `${percent(share)} ${mapClass}`)
    .join(", ");
}

function drawFacts(
  { dimension, map_class: mapClass, matrix, relative_determinant: determinant }: DimensionMap,
  flow: Flow | null,
  dimensions: number,
): Child[] & Node[] {
  const fixed =
    mapClass === "identity" || mapClass === "degenerate"
      ? []
      : (flow?.fixedPoints ?? []).map((at) => pointText(point(at)));
  const [end, start] = fixed;
  const points =
    fixed.length === 0
      ? "–"
      : flow?.attracts
        ? `${end} attracts, ${start} repels`
        : end === start
          ? `${end}, twice`
          : `${end} and ${start}`;
  const names = ["a", "b", "c", "d"] as const;
  return [
    h(
      "h3",
      {},
      `Dimension ${dimension}`,
      h("span", { class: "of" }, ` of ${dimensions}`),
      " ",
      h("span", { class: `map-class class-${mapClass}` }, mapClass),
    ),
    h("p", {}, describe(mapClass, flow)),
    h(
      "dl",
      {},
      ...term("Fixed points", points),
      ...term("Multiplier k", flow === null || mapClass === "degenerate" ? "–" : multiplierText(flow.multiplier)),
      ...term(
        "Matrix",
        matrix.map((entry, number) => `${names[number]} = ${complexText(entry, 3)}`).join("   "),
      ),
      ...term(
        "Relative determinant",
        `${decimal(determinant)}  (1: rotation of the sphere, 0: degenerate)`,
      ),
    ),
  ];
}

const term = (name: string, text: string): HTMLElement[] => [h("dt", {}, name), h("dd", {}, text)];

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
