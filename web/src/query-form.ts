/** The query form: an entity, a relation, and the side to predict. */
import { type Entity, get, type Named, type Relation, type RunInfo } from "./api";
import { freshId, h } from "./dom";
import { sentence } from "./parts";
import { Combobox, type Option } from "./combobox";
import { adjust, current, go, TOP_CHOICES, type Side, type State, type Which } from "./state";
import { count, plural } from "./text";

const MAX_OPTIONS = 12;
const ANY_ENTITY: Named = { id: "", label: "entity" };
const ANY_RELATION: Named = { id: "", label: "relation" };

export class QueryForm {
  private readonly entity: Combobox;
  private readonly relation: Combobox;
  private readonly sides = new Map<Side, HTMLInputElement>();
  private readonly sideLabels = new Map<Side, HTMLElement>();
  private readonly which = new Map<Which, HTMLInputElement>();
  private readonly top: HTMLSelectElement;
  private readonly type: HTMLSelectElement;
  /** Views append their own controls here. */
  readonly options = h("div", { class: "options for-query" });
  private relations: Relation[] = [];
  private loadedFor: string | null = null;
  private loading: Promise<void> = Promise.resolve();
  private labels = new Map<string, string>();

  constructor(form: HTMLElement) {
    this.entity = new Combobox({
      label: "Entity",
      placeholder: "Search by name …",
      debounce: 120,
      find: findEntities,
      choose: (option) => {
        this.labels.set(option.id, option.label);
        go({ entity: option.id });
      },
    });
    this.entity.element.classList.add("for-entity");
    this.relation = new Combobox({
      label: "Relation",
      placeholder: "Choose a relation …",
      debounce: 0,
      find: async (text) => {
        await this.loading;
        return this.matchingRelations(text);
      },
      choose: (option) => go({ relation: option.id, dim: null }),
    });
    this.relation.element.classList.add("for-relation");
    this.top = h(
      "select",
      { id: freshId("top"), onchange: () => adjust({ top: Number(this.top.value) }) },
      ...TOP_CHOICES.map((top) => h("option", { value: top }, String(top))),
    );
    this.type = h("select", {
      id: freshId("type"),
      onchange: () => adjust({ type: this.type.value || null }),
    });
    this.options.append(this.whichPicker(), labelled("Answers", this.top), labelled("Type", this.type));
    form.append(this.entity.element, this.relation.element, this.sidePicker(), this.options);
    form.addEventListener("submit", (event) => event.preventDefault());
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
    const types = run.has_types
      ? get<{ types: { id: string; num_entities: number }[] }>("/api/types", { run: run.name })
      : null;
    const { relations } = await get<{ relations: Relation[] }>("/api/relations", { run: run.name });
    this.relations = relations;
    const found = (await types)?.types ?? [];
    const any = h("option", { value: "" }, "any");
    this.type.replaceChildren(
      any,
      ...found.map(({ id, num_entities }) => h("option", { value: id }, `${id} (${count(num_entities)})`)),
    );
    this.type.parentElement?.toggleAttribute("hidden", found.length === 0);
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
    const entity =
      state.entity === null
        ? null
        : { id: state.entity, label: this.labels.get(state.entity) ?? state.entity };
    const relation = state.relation === null ? null : this.relationNamed(state.relation);
    this.entity.set(entity?.label ?? "");
    this.relation.set(relation?.label ?? "");
    for (const [side, input] of this.sides) {
      input.checked = side === state.side;
      this.sideLabels
        .get(side)
        ?.replaceChildren(sentence(entity ?? ANY_ENTITY, relation ?? ANY_RELATION, side));
    }
    for (const [which, input] of this.which) input.checked = which === state.which;
    this.top.value = String(state.top);
    this.type.value = state.type ?? "";
  }

  private matchingRelations(text: string): Option[] {
    const wanted = text.toLowerCase();
    const matches = this.relations.filter(({ id, label }) =>
      `${label}\n${id}`.toLowerCase().includes(wanted),
    );
    return matches.map(({ id, label, num_triples }) => ({ id, label, note: plural(num_triples, "fact") }));
  }

  private sidePicker(): HTMLElement {
    const choices = (["tails", "heads"] as const).map((side) => {
      const input = h("input", { type: "radio", name: "side", value: side, onchange: () => go({ side }) });
      const label = h("span");
      this.sides.set(side, input);
      this.sideLabels.set(side, label);
      return h("label", {}, input, label);
    });
    return h(
      "fieldset",
      { class: "segments sides for-query" },
      h("legend", {}, "Query"),
      h("div", {}, ...choices),
    );
  }

  private whichPicker(): HTMLElement {
    const choices = (["all", "new", "known"] as const).map((which) => {
      const input = h("input", {
        type: "radio",
        name: "which",
        value: which,
        onchange: () => adjust({ which }),
      });
      this.which.set(which, input);
      return h("label", {}, input, h("span", {}, which));
    });
    return h("fieldset", { class: "segments" }, h("legend", {}, "Show"), h("div", {}, ...choices));
  }
}

function labelled(text: string, select: HTMLSelectElement): HTMLElement {
  return h("div", { class: "field" }, h("label", { for: select.id }, text), select);
}

async function findEntities(q: string, signal: AbortSignal): Promise<Option[]> {
  const query = { run: current().run, q, limit: MAX_OPTIONS };
  const { entities } = await get<{ entities: Entity[] }>("/api/entities", query, signal);
  return entities.map(({ id, label, types, description }) => {
    const notes = [id === label ? "" : id, types.slice(0, 2).join(", ") || (description ?? "")];
    return { id, label, note: notes.filter((note) => note !== "").join(" · ") };
  });
}
