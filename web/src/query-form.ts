/** The query as a sentence with a blank, "Lyon — in country → ?", in which every part can be changed. */
import { type Entity, get, type Named, type Relation, type RunInfo } from "./api";
import { h } from "./dom";
import { Combobox, type Option } from "./combobox";
import { entityText, relationText, shortName, typeText } from "./names";
import { QueryFilters } from "./query-filters";
import { current, go, type Side, type State } from "./state";
import { plural } from "./text";

const MAX_OPTIONS = 12;
const SWAPPED: Record<Side, Side> = { tails: "heads", heads: "tails" };

export class QueryForm {
  /** The head and the tail; the missing one is the blank. */
  private readonly ends: Record<Side, Combobox>;
  private readonly relation: Combobox;
  private readonly swap = h(
    "button",
    { type: "button", class: "icon-button for-query", onclick: () => go({ side: SWAPPED[current().side] }) },
    "⇄",
  );
  private readonly filters = new QueryFilters();
  /** Views append their own controls here. */
  readonly options = h("div", { class: "options for-query" });
  private relations: Relation[] = [];
  private loadedFor: string | null = null;
  private loading: Promise<void> = Promise.resolve();
  private labels = new Map<string, string>();

  constructor(form: HTMLElement) {
    this.relation = new Combobox({
      label: "Relation",
      placeholder: "relation",
      debounce: 0,
      find: async (text) => {
        await this.loading;
        return this.matchingRelations(text);
      },
      choose: (option) => go({ relation: option.id, dim: null }),
    });
    this.relation.element.classList.add("for-relation");
    // Choosing a head asks for tails, and choosing a tail asks for heads.
    this.ends = { tails: this.endField("tails"), heads: this.endField("heads") };
    const link = h("div", { class: "arrow for-relation" }, this.relation.element);
    form.append(
      h(
        "div",
        { class: "query-line" },
        h("div", { class: "query-sentence" }, this.ends.tails.element, link, this.ends.heads.element),
        h("div", { class: "query-tools for-query" }, this.swap, this.filters.button),
      ),
      this.filters.element,
      this.options,
    );
    form.addEventListener("submit", (event) => event.preventDefault());
  }

  private endField(side: Side): Combobox {
    const field = new Combobox({
      label: "Entity",
      placeholder: "",
      debounce: 120,
      find: findEntities,
      choose: (option) => {
        this.labels.set(option.id, option.label);
        go({ entity: option.id, side });
      },
    });
    field.element.classList.add("for-entity");
    return field;
  }

  /** Store the label of an entity that came from the URL. */
  setLabel(entity: Named): void {
    this.labels.set(entity.id, entity.label);
    this.update(current());
  }

  /** Offer the relations and types of a run. */
  useRun(run: RunInfo): void {
    if (run.name === this.loadedFor) return;
    this.loadedFor = run.name;
    this.loading = this.load(run);
    // The views and the open list report the error; the next change tries again.
    this.loading.catch(() => {
      this.loadedFor = null;
    });
  }

  private async load(run: RunInfo): Promise<void> {
    const filters = this.filters.load(run);
    const { relations } = await get<{ relations: Relation[] }>("/api/relations", { run: run.name });
    this.relations = relations;
    await filters;
    this.update(current());
  }

  /** Whether a name is that of a relation; waits until the relations are loaded. */
  async isRelation(id: string): Promise<boolean> {
    await this.loading.catch(() => undefined);
    return this.relations.some((relation) => relation.id === id);
  }

  /** The relation with the most facts; null if there is none. */
  async mostFrequentRelation(): Promise<string | null> {
    await this.loading.catch(() => undefined);
    return this.relations[0]?.id ?? null;
  }

  relationNamed(id: string): Named {
    return this.relations.find((relation) => relation.id === id) ?? { id, label: id };
  }

  update(state: State): void {
    const { entity, side } = state;
    const [given, blank] = [this.ends[side], this.ends[SWAPPED[side]]];
    const label = entity === null ? "" : (this.labels.get(entity) ?? entity);
    given.rename("Entity", state.view === "map" ? "Find an entity" : "entity");
    given.set(shortName(label), entity ?? "");
    given.element.classList.remove("blank");
    blank.rename("Blank", "?");
    blank.set("", `Choose an entity here to ask for ${side === "tails" ? "heads" : "tails"}`);
    blank.element.classList.add("blank");
    const missing = side === "tails" ? "head" : "tail";
    this.swap.setAttribute("aria-label", `Ask for the ${missing} instead`);
    this.swap.title = `Ask for the ${missing} instead`;
    const relation = state.relation === null ? null : this.relationNamed(state.relation);
    this.relation.set(relation === null ? "" : relationText(relation), relation?.id ?? "");
    this.filters.update(state);
  }

  private matchingRelations(text: string): Option[] {
    const wanted = text.toLowerCase();
    const found = this.relations.filter((relation) =>
      `${relationText(relation)}\n${relation.label}\n${relation.id}`.toLowerCase().includes(wanted),
    );
    return found.map((relation) => {
      const words = relationText(relation);
      // The words of two relations may be the same: then their ids differ.
      const id = words === relation.id.replace(/_+/g, " ").trim() ? "" : `${shortName(relation.id)} · `;
      return { id: relation.id, label: words, note: `${id}${plural(relation.num_triples, "fact")}` };
    });
  }
}

async function findEntities(q: string, signal: AbortSignal): Promise<Option[]> {
  const query = { run: current().run, q, limit: MAX_OPTIONS };
  const { entities } = await get<{ entities: Entity[] }>("/api/entities", query, signal);
  return entities.map((entity) => {
    const { id, label, types, description } = entity;
    const about = types.slice(0, 2).map(typeText).join(", ") || (description ?? "");
    const notes = [id === label ? "" : shortName(id), about];
    return { id, label: entityText(entity), note: notes.filter((note) => note !== "").join(" · ") };
  });
}
