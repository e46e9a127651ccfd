/** The map of a dimension in numbers: class, fixed points, multiplier, matrix. */
import type { DimensionMap, Geometry } from "./api";
import { type Child, h } from "./dom";
import { describe, multiplierText } from "./map-classes";
import { type Flow, point } from "./mobius";
import { complexText, decimal, percent, pointText } from "./text";

export function shares(geometry: Geometry): string {
  const found = Object.entries(geometry.class_shares).filter(([, share]) => share > 0);
  return found
    .sort(([, p], [, q]) => q - p)
    .map(([mapClass, share]) => `${percent(share)} ${mapClass}`)
    .join(", ");
}

export function drawFacts(
  { dimension, map_class: mapClass, matrix, relative_determinant: determinant }: DimensionMap,
  flow: Flow | null,
  dimensions: number,
): Child[] & Node[] {
  const fixed =
    mapClass === "identity" || mapClass === "degenerate"
      ? []
      : (flow?.fixedPoints ?? []).map((at) => pointText(point(at)));
  const [end, start] = fixed;
  const points =
    fixed.length === 0
      ? "–"
      : flow?.attracts
        ? `${end} attracts, ${start} repels`
        : end === start
          ? `${end}, twice`
          : `${end} and ${start}`;
  const names = ["a", "b", "c", "d"] as const;
  return [
    h(
      "h3",
      {},
      `Dimension ${dimension}`,
      h("span", { class: "of" }, ` of ${dimensions}`),
      " ",
      h("span", { class: `map-class class-${mapClass}` }, mapClass),
    ),
    h("p", {}, describe(mapClass, flow)),
    h(
      "dl",
      {},
      ...term("Fixed points", points),
      ...term("Multiplier k", flow === null || mapClass === "degenerate" ? "–" : multiplierText(flow.multiplier)),
      ...term(
        "Matrix",
        matrix.map((entry, number) => `${names[number]} = ${complexText(entry, 3)}`).join("   "),
      ),
      ...term(
        "Relative determinant",
        `${decimal(determinant)}  (1: rotation of the sphere, 0: degenerate)`,
      ),
    ),
  ];
}

const term = (name: string, text: string): HTMLElement[] => [h("dt", {}, name), h("dd", {}, text)];
