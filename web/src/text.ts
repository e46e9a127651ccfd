/** Numbers as people read them. */
import { abs, type Complex } from "./complex";
import type { Point } from "./mobius";

export const count = (n: number): string => n.toLocaleString("en");

export function plural(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

export function percent(share: number): string {
  const value = share * 100;
  if (value > 0 && value < 0.1) return "< 0.1 %";
  if (value < 100 && value >= 99.95) return "> 99.9 %";
  return `${value.toFixed(value < 10 || (value > 99 && value < 100) ? 1 : 0)} %`;
}

/** With a true minus sign. */
export const signed = (text: string): string => text.replace("-", "−");
export const decimal = (n: number, digits = 2): string => signed(n.toFixed(digits));

export function complexText(z: Complex, digits = 2): string {
  const [re, im] = z.map((part) => (Math.abs(part) < 0.5 * 10 ** -digits ? 0 : part)) as [number, number];
  if (im === 0) return decimal(re, digits);
  const imaginary = `${Math.abs(im).toFixed(digits)}i`;
  if (re === 0) return im < 0 ? `−${imaginary}` : imaginary;
  return `${decimal(re, digits)} ${im < 0 ? "−" : "+"} ${imaginary}`;
}

/** A point; very distant ones are shown as ∞. */
export function pointText(z: Point): string {
  return z === null || abs(z) > 1e4 ? "∞" : complexText(z);
}

export const degreesText = (degrees: number): string =>
  `${signed(degrees.toFixed(Math.abs(degrees) < 10 ? 1 : 0))}°`;
