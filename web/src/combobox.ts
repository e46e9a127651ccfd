/** A combobox: a text field with a list of completions (WAI-ARIA 1.2, list autocomplete). */
import { LatestRequest } from "./api";
import { freshId, h } from "./dom";
import { plural } from "./text";

export interface Option {
  id: string;
  label: string;
  note: string;
}

/** More rows than this are not listed: typing narrows the list. */
const MAX_ROWS = 100;

interface ComboboxSettings {
  label: string;
  placeholder: string;
  /** Milliseconds after the last key before completions are requested. */
  debounce: number;
  find: (text: string, signal: AbortSignal) => Promise<Option[]>;
  choose: (option: Option) => void;
}

export class Combobox {
  readonly element: HTMLElement;
  readonly input: HTMLInputElement;
  private readonly name: HTMLLabelElement;
  private readonly sizer: HTMLElement;
  private readonly list: HTMLUListElement;
  private readonly message: HTMLElement;
  private readonly popup: HTMLElement;
  private readonly latest = new LatestRequest();
  private options: Option[] = [];
  private active = -1;
  private selected = "";
  private timer: ReturnType<typeof setTimeout> | undefined;
  private isSearching = false;
  /** Enter was pressed before the completions arrived. */
  private picksFirst = false;

  constructor(private readonly settings: ComboboxSettings) {
    const [inputId, listId] = [freshId("field"), freshId("list")];
    this.input = h("input", {
      id: inputId,
      type: "text",
      role: "combobox",
      placeholder: settings.placeholder,
      autocomplete: "off",
      dir: "auto",
      size: 1,
      autocapitalize: "off",
      spellcheck: "false",
      enterkeyhint: "go",
      "aria-autocomplete": "list",
      "aria-expanded": "false",
      "aria-controls": listId,
      oninput: () => {
        this.fit();
        this.scheduleSearch(settings.debounce);
      },
      onkeydown: (event: KeyboardEvent) => this.key(event),
      onfocus: () => this.input.select(),
      onclick: () => this.isOpen || this.scheduleSearch(0),
      onblur: () => this.close(),
    });
    this.list = h("ul", { id: listId, role: "listbox", "aria-label": settings.label });
    this.message = h("p", { class: "combobox-message", role: "status" });
    this.popup = h("div", { class: "popup", hidden: true }, this.list, this.message);
    // Keep the focus in the field when the list is pressed.
    this.popup.addEventListener("pointerdown", (event) => event.preventDefault());
    this.name = h("label", { for: inputId }, settings.label);
    this.sizer = h("div", { class: "sizer" }, this.input);
    this.element = h("div", { class: "combobox" }, this.name, this.sizer, this.popup);
    this.fit();
  }

  /** Show the selection, unless the user is typing; the full name is its tooltip. */
  set(text: string, title = text): void {
    const isTyping = document.activeElement === this.input && this.input.value !== this.selected;
    this.selected = text;
    this.input.title = title;
    if (!isTyping) this.input.value = text;
    this.fit();
  }

  /** Change the label and the placeholder. */
  rename(label: string, placeholder: string): void {
    this.name.textContent = label;
    this.list.setAttribute("aria-label", label);
    this.input.placeholder = placeholder;
    this.fit();
  }

  /** Make the field as wide as its text: a hidden copy of the text has that width. */
  private fit(): void {
    this.sizer.dataset["text"] = this.input.value || this.input.placeholder;
  }

  private get isOpen(): boolean {
    return !this.popup.hidden;
  }

  private scheduleSearch(wait: number): void {
    clearTimeout(this.timer);
    this.isSearching = true;
    this.picksFirst = false;
    this.timer = setTimeout(() => void this.search(), wait);
  }

  private async search(): Promise<void> {
    const signal = this.latest.begin();
    // A field that shows its selection searches for everything, not for the selection again.
    const text = this.input.value === this.selected ? "" : this.input.value.trim();
    try {
      const found = await this.settings.find(text, signal);
      if (!signal.aborted) this.open(found, found.length === 0 ? "No matches." : "");
    } catch {
      if (!signal.aborted) this.open([], "Cannot load completions.");
    }
  }

  private open(options: Option[], message: string): void {
    if (document.activeElement !== this.input) return;
    this.isSearching = false;
    const first = options[0];
    if (this.picksFirst && first) return this.pick(first);
    this.options = options.slice(0, MAX_ROWS);
    this.list.replaceChildren(...this.options.map((option, row) => this.row(option, row)));
    this.list.hidden = options.length === 0;
    const more = options.length - this.options.length;
    this.message.textContent = more > 0 ? `${plural(more, "more match", "more matches")}: type to narrow the list.` : message;
    this.popup.hidden = false;
    this.popup.classList.remove("at-end");
    const isCut = this.popup.getBoundingClientRect().right > document.documentElement.clientWidth;
    this.popup.classList.toggle("at-end", isCut);
    this.input.setAttribute("aria-expanded", String(options.length > 0));
    this.activate(this.input.value === this.selected ? -1 : 0);
  }

  private row(option: Option, row: number): HTMLLIElement {
    return h(
      "li",
      {
        id: `${this.list.id}-${row}`,
        role: "option",
        "aria-selected": "false",
        onclick: () => this.pick(option),
        onpointermove: () => this.active === row || this.activate(row),
      },
      h("bdi", { class: "option-label" }, option.label),
      option.note !== "" && h("bdi", { class: "option-note" }, option.note),
    );
  }

  private activate(row: number): void {
    this.active = row < this.options.length ? row : -1;
    for (const [number, element] of [...this.list.children].entries()) {
      element.setAttribute("aria-selected", String(number === this.active));
    }
    const element = this.list.children[this.active];
    if (element) {
      this.input.setAttribute("aria-activedescendant", element.id);
      element.scrollIntoView({ block: "nearest" });
    } else {
      this.input.removeAttribute("aria-activedescendant");
    }
  }

  private key(event: KeyboardEvent): void {
    const { key } = event;
    if (key === "ArrowDown" || key === "ArrowUp") {
      event.preventDefault();
      if (!this.isOpen) this.scheduleSearch(0);
      else this.step(key === "ArrowDown" ? 1 : -1);
    } else if (key === "Enter") {
      event.preventDefault();
      const option = this.options[this.active];
      if (this.isSearching) this.picksFirst = true;
      else if (!this.isOpen) this.scheduleSearch(0);
      else if (option) this.pick(option);
    } else if (key === "Escape" && this.isOpen) {
      event.preventDefault();
      this.close();
    }
  }

  private step(by: number): void {
    const rows = this.options.length;
    if (rows === 0) return;
    const from = this.active === -1 && by < 0 ? 0 : this.active;
    this.activate((from + by + rows) % rows);
  }

  private pick(option: Option): void {
    this.selected = option.label;
    this.close();
    this.settings.choose(option);
  }

  /** Close the list and show the selection again. */
  private close(): void {
    clearTimeout(this.timer);
    this.latest.stop();
    this.isSearching = this.picksFirst = false;
    this.popup.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
    this.input.value = this.selected;
    this.fit();
  }
}
