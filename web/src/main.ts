/** Sets up the page and its views. */
import { About } from "./about";
import { get, type RunInfo, whenUnauthorized } from "./api";
import { AskView } from "./ask";
import { CompareView } from "./compare";
import { byId, h } from "./dom";
import { GeometryView } from "./geometry";
import { HomeView } from "./home";
import { MapView } from "./map";
import { shortName } from "./names";
import { Panel } from "./panel";
import { QueryForm } from "./query-form";
import { current, go, href, type State, subscribe, type View } from "./state";
import { startThemeButton } from "./theme";
import { askToken } from "./token";
import { WhyBox } from "./why";

const TITLES: Record<View, string> = {
  home: "Missing links",
  ask: "Ask",
  geometry: "Geometry",
  map: "Map",
  compare: "Compare",
};

class Page {
  private readonly form = new QueryForm(byId("query"));
  private readonly why = new WhyBox();
  private readonly home = new HomeView(this.why);
  private readonly ask = new AskView(this.form, this.why);
  private readonly geometry = new GeometryView(this.form);
  private readonly map = new MapView();
  private readonly compare = new CompareView(this.form);
  private readonly about = new About();
  private readonly runPicker = byId<HTMLSelectElement>("run");
  private shownView: View | null = null;

  constructor(private readonly runs: readonly RunInfo[]) {
    this.runPicker.replaceChildren(
      ...runs.map(({ name, model }) => h("option", { value: name }, `${name} (${model})`)),
    );
    this.runPicker.addEventListener("change", () => go({ run: this.runPicker.value }));
  }

  update(state: State): void {
    const run = this.runs.find(({ name }) => name === state.run) ?? this.runs[0];
    if (!run) return;
    this.runPicker.value = run.name;
    this.showView(state.view);
    const named = [state.entity, state.relation].map((name) => name && shortName(name));
    document.title = [...named, TITLES[state.view], "fivestar"]
      .filter(Boolean)
      .join(" · ");
    this.form.update(state);
    this.form.useRun(run);
    this.about.update(run);
    if (state.view === "home") this.home.update(state, run);
    if (state.view === "ask") this.ask.update(state, run);
    if (state.view === "geometry") this.geometry.update(state, run);
    if (state.view === "map") this.map.update(state, run);
    if (state.view === "compare") this.compare.update(state, run, this.runs);
  }

  private showView(view: View): void {
    document.body.dataset["view"] = view;
    for (const section of document.querySelectorAll<HTMLElement>("section[data-view]"))
      section.hidden = section.dataset["view"] !== view;
    for (const link of document.querySelectorAll<HTMLAnchorElement>("nav a[data-view]")) {
      const target = link.dataset["view"] as View;
      // The first view is about the whole graph.
      const whole = { entity: null, relation: null };
      link.href = href(target === "home" ? { view: target, ...whole } : { view: target, fact: null });
      if (target === view) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    if (this.shownView !== null && this.shownView !== view) window.scrollTo(0, 0);
    this.shownView = view;
  }
}

function start(): void {
  startThemeButton(byId<HTMLButtonElement>("theme"));
  whenUnauthorized(askToken);
  byId("skip").addEventListener("click", (event) => {
    event.preventDefault();
    byId("main").focus();
  });
  const opening = new Panel(byId("opening"));
  void opening.show(
    "runs",
    (signal) => get<{ runs: RunInfo[] }>("/api/runs", {}, signal),
    ({ runs }) => {
      byId("page").hidden = false;
      const page = new Page(runs);
      subscribe((state) => page.update(state));
      page.update(current());
      return [];
    },
  );
}

start();
