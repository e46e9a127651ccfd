/** Complex numbers as pairs [re, im]. */
export type Complex = readonly [number, number];

export const ZERO: Complex = [0, 0];
export const ONE: Complex = [1, 0];

export const add = (p: Complex, q: Complex): Complex => [p[0] + q[0], p[1] + q[1]];
export const sub = (p: Complex, q: Complex): Complex => [p[0] - q[0], p[1] - q[1]];
export const scale = (p: Complex, by: number): Complex => [p[0] * by, p[1] * by];
export const conj = (p: Complex): Complex => [p[0], -p[1]];
export const abs = (p: Complex): number => Math.hypot(p[0], p[1]);
export const arg = (p: Complex): number => Math.atan2(p[1], p[0]);

export function mul(p: Complex, q: Complex): Complex {
  return [p[0] * q[0] - p[1] * q[1], p[0] * q[1] + p[1] * q[0]];
}

export function div(p: Complex, q: Complex): Complex {
  const size = q[0] * q[0] + q[1] * q[1];
  return [(p[0] * q[0] + p[1] * q[1]) / size, (p[1] * q[0] - p[0] * q[1]) / size];
}

export function sqrt(p: Complex): Complex {
  const size = abs(p);
  if (size === 0) return ZERO;
  // From the larger part, so that nothing cancels.
  if (p[0] >= 0) {
    const re = Math.sqrt((size + p[0]) / 2);
    return [re, p[1] / (2 * re)];
  }
  const im = Math.sqrt((size - p[0]) / 2) * (p[1] < 0 ? -1 : 1);
  return [p[1] / (2 * im), im];
}

export const log = (p: Complex): Complex => [Math.log(abs(p)), arg(p)];

export function exp(p: Complex): Complex {
  const size = Math.exp(p[0]);
  return [size * Math.cos(p[1]), size * Math.sin(p[1])];
}

export function sinh(p: Complex): Complex {
  return [Math.sinh(p[0]) * Math.cos(p[1]), Math.cosh(p[0]) * Math.sin(p[1])];
}

export function cosh(p: Complex): Complex {
  return [Math.cosh(p[0]) * Math.cos(p[1]), Math.sinh(p[0]) * Math.sin(p[1])];
}
