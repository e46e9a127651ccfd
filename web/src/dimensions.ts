/** The picker of a dimension: a button per dimension, with the color and letter of its class. */
import type { DimensionMap, MapClass } from "./api";
import { type Child, h } from "./dom";
import { MAP_CLASSES, LETTERS, MEANINGS } from "./map-classes";
import { plural } from "./text";

export class DimensionPicker {
  private readonly grid = h("div", { class: "dimensions", role: "radiogroup", "aria-label": "Dimension" });
  private readonly hidden = new Set<MapClass>();
  private buttons: HTMLButtonElement[] = [];

  constructor(
    private readonly dimensions: readonly DimensionMap[],
    private readonly choose: (dimension: number) => void,
  ) {
    this.buttons = dimensions.map((one) => this.button(one));
    this.grid.append(...this.buttons);
    this.grid.addEventListener("keydown", (event) => this.key(event));
  }

  draw(): Child[] {
    return [this.legend(), this.grid];
  }

  select(dimension: number): void {
    for (const [row, { dimension: number }] of this.dimensions.entries()) {
      const button = this.buttons[row];
      const isChosen = number === dimension;
      button?.setAttribute("aria-checked", String(isChosen));
      if (button) button.tabIndex = isChosen ? 0 : -1;
      if (isChosen) button?.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
  }

  private button({ dimension, map_class: mapClass }: DimensionMap): HTMLButtonElement {
    return h(
      "button",
      {
        type: "button",
        role: "radio",
        class: `dimension class-${mapClass}`,
        "aria-checked": "false",
        "aria-label": `Dimension ${dimension}, ${mapClass}`,
        tabindex: -1,
        onclick: () => this.choose(dimension),
      },
      h("span", { class: "dimension-number" }, String(dimension)),
      h("span", { class: "dimension-letter" }, LETTERS[mapClass]),
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
    const step = {
      ArrowRight: 1,
      ArrowDown: this.columns(shown),
      ArrowLeft: -1,
      ArrowUp: -this.columns(shown),
    }[event.key];
    const target =
      event.key === "Home" ? 0 : event.key === "End" ? shown.length - 1 : step === undefined ? -1 : at + step;
    if (at < 0 || (target < 0 && step === undefined)) return;
    event.preventDefault();
    const next = shown[Math.max(0, Math.min(shown.length - 1, target))];
    next?.focus();
    next?.click();
  }

  private columns(shown: HTMLButtonElement[]): number {
    const top = shown[0]?.offsetTop;
    const columns = shown.findIndex((button) => button.offsetTop !== top);
    return columns < 0 ? shown.length : columns;
  }
}
