/** The classes of Möbius maps: letters, colors and descriptions. */
import type { DimensionMap, MapClass } from "./api";
import { abs, type Complex } from "./complex";
import { degrees, Flow, type Mobius, point } from "./mobius";
import { complexText, decimal, degreesText, pointText } from "./text";

export const MAP_CLASSES: readonly MapClass[] = [
  "loxodromic",
  "hyperbolic",
  "elliptic",
  "circular",
  "parabolic",
  "identity",
  "degenerate",
];

/** A letter beside the color: color alone is not accessible. */
export const LETTERS: Record<MapClass, string> = {
  loxodromic: "L",
  hyperbolic: "H",
  elliptic: "E",
  circular: "C",
  parabolic: "P",
  identity: "I",
  degenerate: "×",
};

export const MEANINGS: Record<MapClass, string> = {
  loxodromic: "spirals from one fixed point to the other",
  hyperbolic: "flows from one fixed point straight to the other",
  elliptic: "rotates about two fixed points",
  circular: "half-turn: applied twice, it is the identity",
  parabolic: "flows out of its one fixed point and back into it",
  identity: "the identity",
  degenerate: "not invertible: maps everything to one point",
};

export function matrixOf({ matrix: [a, b, c, d] }: DimensionMap): Mobius {
  return { a, b, c, d };
}

/** One sentence that describes a map. */
export function describe(mapClass: MapClass, flow: Flow | null): string {
  const fixed = flow?.fixedPoints?.map((ray) => pointText(point(ray)));
  if (!flow || mapClass === "degenerate") return "Not invertible: it maps everything to one point.";
  if (!fixed || mapClass === "identity") return "The identity.";
  const [to, from] = fixed;
  const k = flow.multiplier;
  const turn = degreesText(degrees(k));
  // Classes have a tolerance, so an elliptic map may also attract a little.
  const drift = flow.attracts
    ? `, and drifts towards ${to}, ${decimal(abs(k))} times nearer with each step`
    : "";
  switch (mapClass) {
    case "parabolic":
      return to === from
        ? `Points flow out of ${to} and back into it.`
        : `Points flow out of ${from} and into ${to}; the two almost meet.`;
    case "circular":
    case "elliptic":
      return `It rotates the sphere by ${turn} about ${to} and ${from}${drift}.`;
    case "hyperbolic":
      return `Points flow from ${from} to ${to}, ${decimal(abs(k))} times nearer with each step.`;
    case "loxodromic":
      return `Points spiral from ${from} to ${to}, ${decimal(abs(k))} times nearer and rotated by ${turn} with each step.`;
  }
}

export function multiplierText(k: Complex): string {
  return `${complexText(k)}  (|k| = ${decimal(abs(k))}, arg k = ${degreesText(degrees(k))})`;
}
