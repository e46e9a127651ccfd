/** The view of entities as points, colored by type. */
import { type EntityMap, get, type MapPoint, type RunInfo } from "./api";
import { byId, type Child, h } from "./dom";
import { entityLink } from "./parts";
import { Panel } from "./panel";
import { Scatter, SHAPES } from "./scatter";
import { adjust, current, go, type Method, type State } from "./state";
import { count, plural } from "./text";
import { onThemeChange } from "./theme";

const MAX_POINTS = 2000;

export class MapView {
  private readonly panel = new Panel(byId("map-body"), () => [
    h(
      "div",
      { class: "map-loading" },
      h(
        "p",
        { class: "loading" },
        current().method === "tsne"
          ? "Computing the layout; the first time takes some seconds …"
          : "Loading the map …",
      ),
    ),
  ]);
  private readonly methods = new Map<Method, HTMLInputElement>();
  private scatter: Scatter | null = null;

  constructor() {
    byId("map-methods").append(...this.methodChoices());
    onThemeChange(() => this.scatter?.draw());
  }

  update(state: State, run: RunInfo): void {
    for (const [method, input] of this.methods) input.checked = method === state.method;
    void this.panel.show(
      `${run.name} ${state.method}`,
      (signal) =>
        get<EntityMap>("/api/map", { run: run.name, method: state.method, limit: MAX_POINTS }, signal),
      (map) => this.draw(map, run),
    );
    if (state.entity !== null) this.scatter?.find(state.entity);
  }

  private methodChoices(): HTMLElement[] {
    const names: Record<Method, string> = { pca: "PCA", tsne: "t-SNE" };
    return (["pca", "tsne"] as const).map((method) => {
      const input = h("input", {
        type: "radio",
        name: "method",
        value: method,
        onchange: () => adjust({ method }),
      });
      this.methods.set(method, input);
      return h("label", {}, input, h("span", {}, names[method]));
    });
  }

  private draw(map: EntityMap, run: RunInfo): Child[] {
    const canvas = h("canvas", {
      class: "map",
      tabindex: 0,
      role: "application",
      "aria-label":
        "Map of entities. Arrow keys go from point to point, Enter asks about one, plus and minus zoom.",
      "aria-describedby": "map-named",
    });
    const named = h("p", { id: "map-named", class: "map-named", "aria-live": "polite" });
    const ask = (point: MapPoint): void => go({ view: "ask", entity: point.id });
    const scatter = new Scatter(canvas, map, (point) => named.replaceChildren(...describe(point, map)), ask);
    this.scatter = scatter;
    named.replaceChildren(...describe(null, map));
    const entity = current().entity;
    if (entity !== null) requestAnimationFrame(() => scatter.find(entity));
    const zoom = (text: string, label: string, act: () => void): HTMLElement =>
      h("button", { type: "button", class: "button small", "aria-label": label, onclick: act }, text);
    return [
      legend(map, scatter),
      h(
        "div",
        { class: "map-frame" },
        canvas,
        h(
          "div",
          { class: "map-zoom" },
          zoom("+", "Zoom in", () => scatter.zoomBy(1.4)),
          zoom("−", "Zoom out", () => scatter.zoomBy(1 / 1.4)),
          zoom("⟲", "Show everything", () => scatter.reset()),
        ),
      ),
      named,
      map.points.length < run.num_entities &&
        h(
          "p",
          { class: "hint" },
          `The ${count(map.points.length)} of ${plural(run.num_entities, "entity", "entities")} with the most facts.`,
        ),
    ];
  }
}

function describe(point: MapPoint | null, map: EntityMap): (Node | string)[] {
  if (point === null) return ["Point at an entity to see its name; click, or tap twice, to ask about it."];
  const type = point.type === null ? "" : ` · ${map.types[point.type] ?? ""}`;
  return [
    h("strong", {}, point.label),
    type,
    " ",
    h("span", { class: "ask-about" }, "Ask about ", entityLink(point)),
  ];
}

function legend(map: EntityMap, scatter: Scatter): Child {
  const entry = (type: number | null, name: string): HTMLElement | null => {
    const many = map.points.filter((point) => point.type === type).length;
    if (many === 0) return null;
    const button = h(
      "button",
      {
        type: "button",
        class: "legend-item",
        "aria-pressed": "true",
        onclick: () => button.setAttribute("aria-pressed", String(scatter.toggle(type))),
      },
      h(
        "span",
        { class: `shape type-${type ?? "none"}`, "aria-hidden": "true" },
        type === null ? "●" : (SHAPES[type] ?? "●"),
      ),
      `${name} `,
      h("span", { class: "figure" }, count(many)),
    );
    return button;
  };
  const entries = [
    ...map.types.map((name, type) => entry(type, name)),
    entry(null, map.types.length > 0 ? "other" : "all entities"),
  ];
  return h(
    "div",
    { class: "legend", role: "group", "aria-label": "Types; press to hide or show" },
    ...entries,
  );
}
