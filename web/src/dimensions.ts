/** The dimensions of a relation by their contribution, with the color and letter of their class. */
import type { MapClass, RankedDimension } from "./api";
import { h } from "./dom";
import { LETTERS, MAP_CLASSES, MEANINGS } from "./map-classes";
import { bar } from "./parts";
import { decimal, plural } from "./text";

export class DimensionPicker {
  private readonly list = h("div", { class: "dimensions", role: "radiogroup", "aria-label": "Dimension" });
  private readonly hidden = new Set<MapClass>();
  private readonly buttons: HTMLButtonElement[];
  readonly element: HTMLDetailsElement;

  constructor(
    private readonly dimensions: readonly RankedDimension[],
    heads: number,
    order: string,
    private readonly choose: (dimension: number) => void,
  ) {
    const largest = Math.max(...dimensions.map(({ contribution }) => Math.abs(contribution)), 1e-12);
    this.buttons = dimensions.map((one) => this.button(one, largest, heads));
    this.list.append(...this.buttons);
    this.list.addEventListener("keydown", (event) => this.key(event));
    this.element = h(
      "details",
      { class: "picker" },
      h("summary", {}, `All ${plural(dimensions.length, "dimension")}, ${order}`),
      this.legend(),
      this.list,
    );
    this.element.addEventListener("toggle", () => this.reveal());
  }

  select(dimension: number): void {
    for (const [row, { dimension: number }] of this.dimensions.entries()) {
      const isChosen = number === dimension;
      const button = this.buttons[row];
      button?.setAttribute("aria-checked", String(isChosen));
      if (button) button.tabIndex = isChosen ? 0 : -1;
    }
    this.reveal();
  }

  /** Scroll the list, and nothing else, to the chosen dimension. */
  private reveal(): void {
    const chosen = this.buttons.find((button) => button.tabIndex === 0);
    if (!this.element.open || !chosen) return;
    const [top, height] = [chosen.offsetTop - this.list.offsetTop, chosen.offsetHeight];
    if (top < this.list.scrollTop) this.list.scrollTop = top;
    else if (top + height > this.list.scrollTop + this.list.clientHeight)
      this.list.scrollTop = top + height - this.list.clientHeight;
  }

  private button(
    { dimension, map_class: mapClass, contribution, landing_count: landed }: RankedDimension,
    largest: number,
    heads: number,
  ): HTMLButtonElement {
    const amount = (contribution > 0 ? "+" : "") + decimal(contribution);
    const landing = `${landed} of ${heads} land nearest their own`;
    return h(
      "button",
      {
        type: "button",
        role: "radio",
        class: "dimension",
        "aria-checked": "false",
        "aria-label": `Dimension ${dimension}, ${mapClass}, contribution ${amount}, ${landing}`,
        tabindex: -1,
        onclick: () => this.choose(dimension),
      },
      h("span", { class: "figure" }, String(dimension)),
      h("span", { class: `swatch class-${mapClass}`, "aria-hidden": "true" }, LETTERS[mapClass]),
      h("span", { class: "dimension-class" }, mapClass),
      bar(Math.max(0, contribution) / largest),
      h("span", { class: "figure" }, amount),
      h("span", { class: "dimension-landing" }, landing),
    );
  }

  /** The classes of the relation; pressing one hides or shows its dimensions. */
  private legend(): HTMLElement {
    const rows = MAP_CLASSES.flatMap((mapClass) => {
      const many = this.dimensions.filter((one) => one.map_class === mapClass).length;
      if (many === 0) return [];
      const button = h(
        "button",
        {
          type: "button",
          class: "legend-item",
          "aria-pressed": "true",
          title: MEANINGS[mapClass],
          onclick: () => this.toggle(mapClass, button),
        },
        h("span", { class: `swatch class-${mapClass}`, "aria-hidden": "true" }, LETTERS[mapClass]),
        `${mapClass} `,
        h("span", { class: "figure" }, String(many)),
      );
      return [button];
    });
    const label = `Classes of the ${plural(this.dimensions.length, "dimension")}; press to hide or show`;
    return h("div", { class: "legend", role: "group", "aria-label": label }, ...rows);
  }

  private toggle(mapClass: MapClass, button: HTMLElement): void {
    if (!this.hidden.delete(mapClass)) this.hidden.add(mapClass);
    button.setAttribute("aria-pressed", String(!this.hidden.has(mapClass)));
    for (const [row, one] of this.dimensions.entries())
      this.buttons[row]?.toggleAttribute("hidden", this.hidden.has(one.map_class));
  }

  private key(event: KeyboardEvent): void {
    const shown = this.buttons.filter((button) => !button.hidden);
    const at = shown.findIndex((button) => button === document.activeElement);
    const last = shown.length - 1;
    const target = {
      ArrowRight: at + 1,
      ArrowDown: at + 1,
      ArrowLeft: at - 1,
      ArrowUp: at - 1,
      Home: 0,
      End: last,
    }[event.key];
    if (at < 0 || target === undefined) return;
    event.preventDefault();
    const next = shown[Math.max(0, Math.min(last, target))];
    next?.focus();
    next?.click();
  }
}
