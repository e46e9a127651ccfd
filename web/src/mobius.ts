/**
 * Möbius maps z ↦ (a z + b)/(c z + d) and their flows.
 *
 * Points are handled as rays [x : y] with z = x/y, so that ∞ = [1 : 0] is an ordinary point.
 */
import {
  abs,
  add,
  arg,
  type Complex,
  conj,
  cosh,
  div,
  exp,
  log,
  mul,
  ONE,
  scale,
  sinh,
  sqrt,
  sub,
  ZERO,
} from "./complex";

export interface Mobius {
  readonly a: Complex;
  readonly b: Complex;
  readonly c: Complex;
  readonly d: Complex;
}

/** A point of the sphere in homogeneous coordinates, of length 1. */
export interface Ray {
  readonly x: Complex;
  readonly y: Complex;
}

/** A point of the plane; null is ∞. */
export type Point = Complex | null;
export type Vector = readonly [number, number, number];

// Relative determinants below this are degenerate: the map has no flow.
const DEGENERATE = 1e-13;
// Below this, sinh(sθ)/sinh θ is computed by its series.
const NEAR_PARABOLIC = 1e-4;
// Eigenvalues whose moduli differ by less are equal: there is no attracting fixed point.
const TIE = 1e-12;

const norm = (m: Mobius): number => Math.hypot(...m.a, ...m.b, ...m.c, ...m.d);
const determinant = (m: Mobius): Complex => sub(mul(m.a, m.d), mul(m.b, m.c));
const trace = (m: Mobius): Complex => add(m.a, m.d);

function times(m: Mobius, by: Complex): Mobius {
  return { a: mul(m.a, by), b: mul(m.b, by), c: mul(m.c, by), d: mul(m.d, by) };
}

/** p·m + q·1: all matrices that commute with m have this form. */
function combine(p: Complex, m: Mobius, q: Complex): Mobius {
  const scaled = times(m, p);
  return { ...scaled, a: add(scaled.a, q), d: add(scaled.d, q) };
}

/** Scale to determinant 1; of the two such matrices, take the one with Re(trace) ≥ 0. */
function normalized(m: Mobius): Mobius | null {
  const size = norm(m);
  if (!(size > 0)) return null;
  const unit = times(m, [1 / size, 0]);
  const det = determinant(unit);
  if (abs(det) <= DEGENERATE) return null;
  const one = times(unit, div(ONE, sqrt(det)));
  const [re, im] = trace(one);
  return re < 0 || (re === 0 && im < 0) ? times(one, [-1, 0]) : one;
}

export function ray(z: Point): Ray {
  return z === null ? { x: ONE, y: ZERO } : unit({ x: z, y: ONE });
}

export function unit({ x, y }: Ray): Ray {
  const by = 1 / Math.hypot(...x, ...y);
  return { x: scale(x, by), y: scale(y, by) };
}

export function point({ x, y }: Ray): Point {
  return abs(y) <= 1e-9 * abs(x) ? null : div(x, y);
}

export function moved(m: Mobius, { x, y }: Ray): Ray {
  return unit({ x: add(mul(m.a, x), mul(m.b, y)), y: add(mul(m.c, x), mul(m.d, y)) });
}

export const apply = (m: Mobius, z: Point): Point => point(moved(m, ray(z)));

/** The stereographic image on the unit sphere: 0 is the south pole, ∞ the north pole. */
export function onSphere({ x, y }: Ray): Vector {
  const [re, im] = mul(x, conj(y));
  const [north, south] = [x[0] ** 2 + x[1] ** 2, y[0] ** 2 + y[1] ** 2];
  const size = north + south;
  return [(2 * re) / size, (2 * im) / size, (north - south) / size];
}

export function fromSphere([u, v, w]: Vector): Ray {
  // From the far pole, so that nothing cancels.
  return w > 0 ? unit({ x: [1 + w, 0], y: [u, -v] }) : unit({ x: [u, v], y: [1 - w, 0] });
}

/** The chordal distance of two points, from 0 to 2. */
export function chordal(p: Ray, q: Ray): number {
  return 2 * abs(sub(mul(p.x, q.y), mul(p.y, q.x)));
}

/** A map and its one-parameter flow. */
export class Flow {
  private constructor(
    /** The map, with determinant 1. */
    readonly map: Mobius,
    /** e^θ is the larger eigenvalue. */
    private readonly theta: Complex,
    /** The generator of the flow: the derivative of its powers at 0. */
    readonly generator: Mobius,
  ) {}

  /** The flow of a map; null if it is degenerate. */
  static of(m: Mobius): Flow | null {
    const map = normalized(m);
    if (map === null) return null;
    const theta = log(largerEigenvalue(map));
    // θ/sinh θ · (m − cosh θ)
    const near = abs(theta) < NEAR_PARABOLIC;
    const weight = near ? sub(ONE, scale(mul(theta, theta), 1 / 6)) : div(theta, sinh(theta));
    const generator = combine(weight, map, scale(mul(weight, cosh(theta)), -1));
    return new Flow(map, theta, generator);
  }

  /** k of the conjugate map z ↦ k z, |k| ≥ 1. */
  get multiplier(): Complex {
    return exp(scale(this.theta, 2));
  }

  /** The map to the power s, for any real s. */
  power(s: number): Mobius {
    return combine(this.sinhRatio(s), this.map, scale(this.sinhRatio(s - 1), -1));
  }

  /** The speed of the flow at a point of the unit sphere. */
  speed(p: Ray): number {
    const { a, b, c, d } = this.generator;
    const x = add(mul(a, p.x), mul(b, p.y));
    const y = add(mul(c, p.x), mul(d, p.y));
    return 2 * abs(sub(mul(p.x, y), mul(p.y, x)));
  }

  /** Attracting first; the same twice for a parabolic map; null for the identity. */
  get fixedPoints(): readonly [Ray, Ray] | null {
    if (norm(this.generator) < 1e-12) return null;
    const large = exp(this.theta);
    const small = exp(scale(this.theta, -1));
    return [eigenvector(this.map, small), eigenvector(this.map, large)];
  }

  /** Whether one fixed point attracts visibly: |k| > 1.02. */
  get attracts(): boolean {
    return this.theta[0] > 0.01;
  }

  private sinhRatio(s: number): Complex {
    const square = mul(this.theta, this.theta);
    if (abs(this.theta) < NEAR_PARABOLIC && Math.abs(s) * abs(this.theta) < 1e-2) {
      return scale(add(ONE, scale(square, (s * s - 1) / 6)), s);
    }
    return div(sinh(scale(this.theta, s)), sinh(this.theta));
  }
}

function largerEigenvalue(m: Mobius): Complex {
  const half = scale(trace(m), 0.5);
  const apart = sub(m.a, m.d);
  const root = scale(sqrt(add(mul(apart, apart), scale(mul(m.b, m.c), 4))), 0.5);
  const angle = mul(conj(half), root);
  const isTie = Math.abs(angle[0]) <= TIE * abs(angle);
  const sameWay = isTie ? angle[1] >= 0 : angle[0] >= 0;
  return sameWay ? add(half, root) : sub(half, root);
}

/** An eigenvector is a column of m − (the other eigenvalue): the longer one. */
function eigenvector(m: Mobius, other: Complex): Ray {
  const first: Ray = { x: sub(m.a, other), y: m.c };
  const second: Ray = { x: m.b, y: sub(m.d, other) };
  const size = (r: Ray): number => abs(r.x) + abs(r.y);
  return unit(size(first) >= size(second) ? first : second);
}

/** The rotation angle of a map about its first fixed point, in degrees. */
export const degrees = (k: Complex): number => (arg(k) * 180) / Math.PI;
