/** Lines along which a flow moves points of the sphere, evenly spread over it. */
import { chordal, type Flow, fromSphere, moved, onSphere, type Ray, type Vector } from "./mobius";

const SEEDS = 420;
// Lines begin this far from others, and end where they come much nearer.
const APART = 0.17;
const TOO_NEAR = 0.055;
const STEP = 0.035;
// A great circle, and a little more so that circles close.
const LONGEST = 2 * Math.PI + 0.1;

/** Points spread evenly over the sphere, by the golden angle. */
export function spread(count: number): Vector[] {
  const golden = Math.PI * (3 - Math.sqrt(5));
  return Array.from({ length: count }, (_, number) => {
    const height = 1 - (2 * (number + 0.5)) / count;
    const radius = Math.sqrt(1 - height * height);
    return [radius * Math.cos(golden * number), radius * Math.sin(golden * number), height];
  });
}

export function flowLines(flow: Flow): Vector[][] {
  const drawn = new Near();
  const lines: Vector[][] = [];
  for (const seed of spread(SEEDS)) {
    if (drawn.has(seed, APART)) continue;
    const start = fromSphere(seed);
    const after = trace(flow, start, 1, drawn);
    const before = after.closed ? [] : trace(flow, start, -1, drawn).line;
    const line = [...before.reverse(), seed, ...after.line];
    if (line.length < 4) continue;
    for (const place of line) drawn.add(place);
    lines.push(line);
  }
  return lines;
}

function trace(flow: Flow, start: Ray, way: 1 | -1, drawn: Near): { line: Vector[]; closed: boolean } {
  const line: Vector[] = [];
  let at = start;
  for (let length = 0; length < LONGEST; length += STEP) {
    const speed = flow.speed(at);
    if (speed < 1e-9) break;
    const next = moved(flow.power((way * STEP) / speed), at);
    // Steps shrink on the way into a fixed point.
    if (!(chordal(at, next) > STEP / 4)) break;
    at = next;
    const place = onSphere(at);
    if (drawn.has(place, TOO_NEAR)) break;
    line.push(place);
    if (length > 4 * STEP && chordal(at, start) < STEP * 0.75) return { line, closed: true };
  }
  return { line, closed: false };
}

/** Places by the cell they are in, to find near ones fast. */
class Near {
  private readonly cells = new Map<string, Vector[]>();

  add(place: Vector): void {
    const key = place.map(cell).join();
    const cellPlaces = this.cells.get(key);
    if (cellPlaces) cellPlaces.push(place);
    else this.cells.set(key, [place]);
  }

  has([x, y, z]: Vector, within: number): boolean {
    for (let i = -1; i <= 1; i++) {
      for (let j = -1; j <= 1; j++) {
        for (let k = -1; k <= 1; k++) {
          const places = this.cells.get([cell(x) + i, cell(y) + j, cell(z) + k].join());
          if (places?.some(([u, v, w]) => Math.hypot(x - u, y - v, z - w) < within)) return true;
        }
      }
    }
    return false;
  }
}

const cell = (coordinate: number): number => Math.floor(coordinate / APART);
