/** The options of a query, behind one button: which answers, how many, and of which type. */
import { get, type RunInfo } from "./api";
import { freshId, h } from "./dom";
import { typeText } from "./names";
import { adjust, type State, TOP_CHOICES, type Which } from "./state";
import { count } from "./text";

const WHICH: Record<Which, string> = { all: "all", new: "new", known: "in the graph" };
/** Types in the list; more would be of no use in it. */
const MAX_TYPES = 500;

export class QueryFilters {
  readonly button: HTMLButtonElement;
  readonly element: HTMLElement;
  private readonly which = new Map<Which, HTMLInputElement>();
  private readonly top: HTMLSelectElement;
  private readonly type: HTMLSelectElement;

  constructor() {
    const id = freshId("filters");
    this.top = h(
      "select",
      { id: freshId("top"), onchange: () => adjust({ top: Number(this.top.value) }) },
      ...TOP_CHOICES.map((top) => h("option", { value: top }, String(top))),
    );
    this.type = h("select", {
      id: freshId("type"),
      onchange: () => adjust({ type: this.type.value || null }),
    });
    this.element = h(
      "div",
      { id, class: "filters for-query", hidden: true },
      this.whichPicker(),
      labelled("Answers", this.top),
      labelled("Type", this.type),
    );
    this.button = h(
      "button",
      {
        type: "button",
        class: "button options-button",
        "aria-expanded": "false",
        "aria-controls": id,
        onclick: () => this.toggle(),
      },
      "Options",
    );
    this.element.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      this.toggle();
      this.button.focus();
    });
  }

  async load(run: RunInfo): Promise<void> {
    const types = run.has_types
      ? (await get<{ types: { id: string; num_entities: number }[] }>("/api/types", { run: run.name })).types
      : [];
    const more = types.length - MAX_TYPES;
    this.type.replaceChildren(
      h("option", { value: "" }, "any"),
      ...types
        .slice(0, MAX_TYPES)
        .map(({ id, num_entities }) =>
          h("option", { value: id, title: id }, `${typeText(id)} (${count(num_entities)})`),
        ),
      ...(more > 0 ? [h("option", { disabled: true }, `${count(more)} rarer types are not listed`)] : []),
    );
    this.type.parentElement?.toggleAttribute("hidden", types.length === 0);
  }

  update({ which, top, type }: State): void {
    for (const [choice, input] of this.which) input.checked = choice === which;
    this.top.value = String(top);
    if (type !== null && ![...this.type.options].some((option) => option.value === type))
      this.type.append(h("option", { value: type }, typeText(type)));
    this.type.value = type ?? "";
    // What differs from the defaults is said on the button, as the options are hidden.
    const chosen = [which === "all" ? "" : WHICH[which], top === 10 ? "" : `top ${top}`, type === null ? "" : typeText(type)];
    const text = chosen.filter((part) => part !== "").join(", ");
    this.button.textContent = text === "" ? "Options" : `Options: ${text}`;
  }

  private toggle(): void {
    this.element.hidden = !this.element.hidden;
    this.button.setAttribute("aria-expanded", String(!this.element.hidden));
  }

  private whichPicker(): HTMLElement {
    const choices = (Object.keys(WHICH) as Which[]).map((which) => {
      const input = h("input", {
        type: "radio",
        name: "which",
        value: which,
        onchange: () => adjust({ which }),
      });
      this.which.set(which, input);
      return h("label", {}, input, h("span", {}, WHICH[which]));
    });
    return h("fieldset", { class: "segments" }, h("legend", {}, "Show"), h("div", {}, ...choices));
  }
}

function labelled(text: string, select: HTMLSelectElement): HTMLElement {
  return h("div", { class: "field" }, h("label", { for: select.id }, text), select);
}
