/** Small helpers to build elements; text is only ever set as text. */
type Attribute = string | number | boolean | null | undefined | ((event: never) => void);
export type Child = Node | string | null | false | undefined;

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, Attribute> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") {
      element.addEventListener(name.replace(/^on/, ""), value as EventListener);
    } else if (value === true) {
      element.setAttribute(name, "");
    } else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, String(value));
    }
  }
  element.append(...present(children));
  return element;
}

export function present(children: readonly Child[]): (Node | string)[] {
  return children.filter(
    (child): child is Node | string => child !== null && child !== false && child !== undefined,
  );
}

export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  const element = document.getElementById(id);
  if (element === null) throw new Error(`the page has no #${id}`);
  return element as T;
}

/** Tell screen readers what happened. */
export function announce(text: string): void {
  byId("status").textContent = text;
}

/** The current color of a CSS custom property, as rgb(…). */
export function cssColor(property: string): string {
  const probe = byId("color-probe");
  probe.style.color = `var(${property})`;
  return getComputedStyle(probe).color;
}

/** A canvas of the size of its box, in device pixels; drawing is in CSS pixels. */
export function fitCanvas(canvas: HTMLCanvasElement): CanvasRenderingContext2D | null {
  const { clientWidth: width, clientHeight: height } = canvas;
  const ratio = Math.min(window.devicePixelRatio || 1, 2);
  const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== wide) canvas.width = wide;
  if (canvas.height !== high) canvas.height = high;
  const pen = canvas.getContext("2d");
  pen?.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen?.clearRect(0, 0, width, height);
  return pen;
}

let lastId = 0;
export const freshId = (prefix: string): string => `${prefix}-${++lastId}`;

export const NARROW = window.matchMedia("(max-width: 899px)");
export const CALM = window.matchMedia("(prefers-reduced-motion: reduce)");
