/** Facts of the graph as points that the flow of a map carries from the heads to their images. */
import type { FactPoint, SphereFacts } from "./api";
import { scale } from "./complex";
import { Flow, type Mobius, moved, point, type Point, ray, type Ray } from "./mobius";

interface Row {
  fact: FactPoint;
  head: Ray;
  image: Ray;
  target: Ray;
}

/** The map in units of `unit`: the same as dividing by it before and after. */
export function inUnits({ a, b, c, d }: Mobius, unit: number): Mobius {
  return { a, b: scale(b, 1 / unit), c: scale(c, unit), d };
}

export class FactsInFlow {
  readonly rows: readonly Row[];
  /** The flow in units of the scale. */
  readonly flow: Flow | null;

  constructor(
    readonly given: SphereFacts,
    map: Mobius,
  ) {
    const inUnit = (z: Point): Ray => ray(z && scale(z, 1 / given.scale));
    this.flow = Flow.of(inUnits(map, given.scale));
    this.rows = given.facts.map((fact) => ({
      fact,
      head: inUnit(fact.position),
      image: inUnit(fact.image),
      target: inUnit(fact.target),
    }));
  }

  /** Where the heads are at a power of the map, in units of the scale. */
  at(s: number): Ray[] {
    const power = this.flow?.power(s);
    if (power) return this.rows.map(({ head }) => moved(power, head));
    // A degenerate map has no powers in between.
    return this.rows.map(({ head, image }) => (s >= 1 ? image : head));
  }

  /** The same as numbers of the model. */
  positions(s: number): Point[] {
    return this.at(s).map((place) => {
      const z = point(place);
      return z && scale(z, this.given.scale);
    });
  }
}
