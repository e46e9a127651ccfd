/** The question: an entity, a relation, and which end is asked for. */
import { type Entity, get, type Named, type Relation, type RunInfo } from "./api";
import { freshId, h } from "./dom";
import { sentence } from "./parts";
import { Combobox, type Option } from "./search";
import { adjust, current, go, MOST_ANSWERS, type Side, type State, type Which } from "./state";
import { count, plural } from "./text";

const MOST_OPTIONS = 12;
const SOME_ENTITY: Named = { id: "", label: "entity" };
const SOME_RELATION: Named = { id: "", label: "relation" };

export class Question {
  private readonly entity: Combobox;
  private readonly relation: Combobox;
  private readonly sides = new Map<Side, HTMLInputElement>();
  private readonly sideLabels = new Map<Side, HTMLElement>();
  private readonly which = new Map<Which, HTMLInputElement>();
  private readonly top: HTMLSelectElement;
  private readonly type: HTMLSelectElement;
  /** Where views put choices of their own. */
  readonly options = h("div", { class: "options for-question" });
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
      ...MOST_ANSWERS.map((most) => h("option", { value: most }, String(most))),
    );
    this.type = h("select", {
      id: freshId("type"),
      onchange: () => adjust({ type: this.type.value || null }),
    });
    this.options.append(this.whichPicker(), labelled("Answers", this.top), labelled("Type", this.type));
    form.append(this.entity.element, this.relation.element, this.sidePicker(), this.options);
    form.addEventListener("submit", (event) => event.preventDefault());
  }

  /** Learn the label of an entity that came by the address. */
  learn(entity: Named): void {
    this.labels.set(entity.id, entity.label);
    this.update(current());
  }

  /** Offer the relations and types of a run. */
  useRun(run: RunInfo): void {
    if (run.name === this.loadedFor) return;
    this.loadedFor = run.name;
    this.loading = this.load(run);
    // The views say what is wrong, and the list when it is opened; the next change tries again.
    this.loading.catch(() => {
      this.loadedFor = null;
    });
  }

  private async load(run: RunInfo): Promise<void> {
    const types = run.types
      ? get<{ types: { id: string; entities: number }[] }>("/api/types", { run: run.name })
      : null;
    const { relations } = await get<{ relations: Relation[] }>("/api/relations", { run: run.name });
    this.relations = relations;
    const found = (await types)?.types ?? [];
    const any = h("option", { value: "" }, "any");
    this.type.replaceChildren(
      any,
      ...found.map(({ id, entities }) => h("option", { value: id }, `${id} (${count(entities)})`)),
    );
    this.type.parentElement?.toggleAttribute("hidden", found.length === 0);
    this.update(current());
  }

  /** Whether a name is that of a relation; waits for their list. */
  async isRelation(id: string): Promise<boolean> {
    await this.loading.catch(() => undefined);
    return this.relations.some((relation) => relation.id === id);
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
        ?.replaceChildren(sentence(entity ?? SOME_ENTITY, relation ?? SOME_RELATION, side));
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
    return matches.map(({ id, label, facts }) => ({ id, label, note: plural(facts, "fact") }));
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
      { class: "segments sides for-question" },
      h("legend", {}, "Question"),
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
  const query = { run: current().run, q, limit: MOST_OPTIONS };
  const { entities } = await get<{ entities: Entity[] }>("/api/entities", query, signal);
  return entities.map(({ id, label, types, description }) => {
    const notes = [id === label ? "" : id, types.slice(0, 2).join(", ") || (description ?? "")];
    return { id, label, note: notes.filter((note) => note !== "").join(" · ") };
  });
}
