/** The view of entities as points, colored by type. */
import { type EntityMap, getWhenDone, type MapPoint, type RunInfo } from "./api";
import { byId, type Child, h, present } from "./dom";
import { entityText, typeText } from "./names";
import { entityLink, entityName } from "./parts";
import { Panel } from "./panel";
import { Scatter, SHAPES } from "./scatter";
import { adjust, current, go, type Method, type State } from "./state";
import { count, plural } from "./text";
import { onThemeChange } from "./theme";

const MAX_POINTS = 2000;
// Milliseconds to wait for a layout that is computed already, before another one is shown meanwhile.
const PATIENCE = 600;
const NAMES: Record<Method, string> = { pca: "PCA", tsne: "t-SNE" };
/** Entities that the text alternative names. */
const NAMED = 20;

export class MapView {
  private readonly panel = new Panel(byId("map-body"), () => [
    h("div", { class: "map-loading" }, h("p", { class: "loading" }, "Loading the map …")),
  ]);
  private readonly methods = byId("map-methods");
  private readonly state = h("p", { class: "hint map-state", role: "status" });
  private readonly count = h("p", { class: "hint map-count" });
  private readonly frame = h("div", { class: "map-parts" });
  private scatter: Scatter | null = null;

  constructor() {
    onThemeChange(() => this.scatter?.draw());
  }

  update(state: State, run: RunInfo): void {
    const available = run.map_methods;
    const best: Method = available.includes("tsne") ? "tsne" : "pca";
    const method = state.method !== null && available.includes(state.method) ? state.method : best;
    this.offer(available, method);
    void this.panel.show(
      `${run.name} ${method}`,
      (signal) => this.load(run, method, signal),
      (map) => {
        this.draw(map);
        return [this.frame, this.state];
      },
    );
    if (state.entity !== null) this.scatter?.find(state.entity);
  }

  /** Offer the methods that the server has; nothing to choose from is not shown. */
  private offer(available: readonly Method[], chosen: Method): void {
    this.methods.closest("fieldset")?.toggleAttribute("hidden", available.length < 2);
    if (this.methods.childElementCount !== available.length) {
      this.methods.replaceChildren(
        ...available.map((method) => {
          const input = h("input", {
            type: "radio",
            name: "method",
            value: method,
            onchange: () => adjust({ method }),
          });
          return h("label", {}, input, h("span", {}, NAMES[method]));
        }),
      );
    }
    for (const input of this.methods.querySelectorAll("input")) input.checked = input.value === chosen;
  }

  /** Load a layout; while t-SNE is being computed, that by PCA is shown. */
  private async load(run: RunInfo, method: Method, signal: AbortSignal): Promise<EntityMap> {
    this.state.textContent = "";
    const wanted = layout(run, method, signal);
    if (method === "pca") return wanted;
    wanted.catch(() => undefined);
    const soon = await Promise.race([wanted, new Promise<null>((done) => setTimeout(done, PATIENCE, null))]);
    if (soon !== null) return soon;
    const meanwhile = await layout(run, "pca", signal);
    this.state.textContent = "Layout by PCA for now. t-SNE is being computed, which takes some seconds …";
    void wanted.then(
      (map) => {
        if (signal.aborted) return;
        this.scatter?.replace(map);
        this.count.textContent = countLine(map);
        this.frame.querySelector("canvas")?.setAttribute("data-method", map.method);
        this.state.textContent = "Layout by t-SNE.";
      },
      (error: Error) => {
        if (!signal.aborted) this.state.textContent = `Layout by PCA: t-SNE has failed (${error.message})`;
      },
    );
    return meanwhile;
  }

  private draw(map: EntityMap): void {
    const canvas = h("canvas", {
      class: "map",
      tabindex: 0,
      role: "application",
      "data-method": map.method,
      "aria-label":
        "Map of entities. Arrow keys go from point to point, Enter asks about one, plus and minus zoom.",
      "aria-describedby": "map-text map-named",
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
    this.count.textContent = countLine(map);
    this.frame.replaceChildren(
      this.count,
      ...present([legend(map, scatter)]),
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
      h("p", { id: "map-text", class: "visually-hidden" }, inWords(map)),
      named,
    );
  }
}

function layout(run: RunInfo, method: Method, signal: AbortSignal): Promise<EntityMap> {
  return getWhenDone<EntityMap>("/api/map", { run: run.name, method, limit: MAX_POINTS }, signal);
}

function countLine({ points, num_entities: all, method }: EntityMap): string {
  const shown =
    points.length < all
      ? `${count(points.length)} of ${plural(all, "entity", "entities")}, those with the most facts.`
      : `All ${plural(all, "entity", "entities")}.`;
  const meaning = {
    tsne: "Entities with similar embeddings are close together; distances between groups mean little.",
    pca: "The two directions in which embeddings differ most.",
  }[method];
  return `${shown} ${meaning}`;
}

/** What the map shows, for those who do not see it. */
function inWords({ points, types }: EntityMap): string {
  const counts = types.map((name, type) => `${typeText(name)} ${points.filter((point) => point.type === type).length}`);
  const first = points.slice(0, NAMED).map(entityText);
  return [
    counts.length > 0 && `Entities by type: ${counts.join(", ")}.`,
    `Those with the most facts: ${first.join(", ")}.`,
  ]
    .filter(Boolean)
    .join(" ");
}

function describe(point: MapPoint | null, map: EntityMap): (Node | string)[] {
  if (point === null) return ["Point at an entity to see its name; click, or tap twice, to ask about it."];
  const type = point.type === null ? "" : ` · ${typeText(map.types[point.type] ?? "")}`;
  return [
    h("strong", {}, entityName(point)),
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
    ...map.types.map((name, type) => entry(type, typeText(name))),
    entry(null, map.types.length > 0 ? "other" : "all entities"),
  ];
  return h(
    "div",
    { class: "legend", role: "group", "aria-label": "Types; press to hide or show" },
    ...entries,
  );
}
