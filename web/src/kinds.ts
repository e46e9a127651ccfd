/** The kinds of Möbius maps: how they are called, drawn and explained. */
import type { DimensionMap, Kind } from "./api";
import { abs, type Complex } from "./complex";
import { degrees, Flow, type Moebius, point } from "./moebius";
import { complexText, decimal, degreesText, pointText } from "./text";

export const KINDS: readonly Kind[] = [
  "loxodromic",
  "hyperbolic",
  "elliptic",
  "circular",
  "parabolic",
  "identity",
  "degenerate",
];

/** A letter beside the colour, so that no kind is told by colour alone. */
export const LETTERS: Record<Kind, string> = {
  loxodromic: "L",
  hyperbolic: "H",
  elliptic: "E",
  circular: "C",
  parabolic: "P",
  identity: "I",
  degenerate: "×",
};

export const MEANINGS: Record<Kind, string> = {
  loxodromic: "spirals from one fixed point to the other",
  hyperbolic: "flows from one fixed point straight to the other",
  elliptic: "turns about two fixed points",
  circular: "a half-turn: done twice, all is as before",
  parabolic: "flows out of its one fixed point and back into it",
  identity: "leaves everything where it is",
  degenerate: "no map: sends everything to one point",
};

export function matrixOf({ matrix: [a, b, c, d] }: DimensionMap): Moebius {
  return { a, b, c, d };
}

/** One sentence that says what a map does. */
export function describe(kind: Kind, flow: Flow | null): string {
  const fixed = flow?.fixedPoints?.map((ray) => pointText(point(ray)));
  if (!flow || kind === "degenerate") return "It is no map: it sends everything to one point.";
  if (!fixed || kind === "identity") return "It leaves everything where it is.";
  const [to, from] = fixed;
  const k = flow.multiplier;
  const turn = degreesText(degrees(k));
  // A kind is told with some tolerance: what the map does besides is said, too.
  const drift = flow.attracts
    ? `, and drifts towards ${to}, ${decimal(abs(k))} times nearer with each step`
    : "";
  switch (kind) {
    case "parabolic":
      return to === from
        ? `Points flow out of ${to} and back into it.`
        : `Points flow out of ${from} and into ${to}; the two almost meet.`;
    case "circular":
    case "elliptic":
      return `It turns the sphere by ${turn} about ${to} and ${from}${drift}.`;
    case "hyperbolic":
      return `Points flow from ${from} to ${to}, ${decimal(abs(k))} times nearer with each step.`;
    case "loxodromic":
      return `Points spiral from ${from} to ${to}, ${decimal(abs(k))} times nearer and turned by ${turn} with each step.`;
  }
}

export function multiplierText(k: Complex): string {
  return `${complexText(k)}  (|k| = ${decimal(abs(k))}, arg k = ${degreesText(degrees(k))})`;
}
