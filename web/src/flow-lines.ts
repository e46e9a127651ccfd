/** Streamlines of a flow on the sphere, evenly spread. */
import { chordal, type Flow, fromSphere, moved, onSphere, type Ray, type Vector } from "./mobius";

const SEEDS = 420;
// Lines start this far from others, and end where they come much closer.
const MIN_START_DISTANCE = 0.17;
const MIN_DISTANCE = 0.055;
const STEP = 0.035;
// A great circle, and a little more so that circles close.
const MAX_LENGTH = 2 * Math.PI + 0.1;

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
  const occupied = new PointGrid();
  const lines: Vector[][] = [];
  for (const seed of spread(SEEDS)) {
    if (occupied.has(seed, MIN_START_DISTANCE)) continue;
    const start = fromSphere(seed);
    const after = trace(flow, start, 1, occupied);
    const before = after.closed ? [] : trace(flow, start, -1, occupied).line;
    const line = [...before.reverse(), seed, ...after.line];
    if (line.length < 4) continue;
    for (const place of line) occupied.add(place);
    lines.push(line);
  }
  return lines;
}

function trace(flow: Flow, start: Ray, direction: 1 | -1, occupied: PointGrid): { line: Vector[]; closed: boolean } {
  const line: Vector[] = [];
  let at = start;
  for (let length = 0; length < MAX_LENGTH; length += STEP) {
    const speed = flow.speed(at);
    if (speed < 1e-9) break;
    const next = moved(flow.power((direction * STEP) / speed), at);
    // Steps shrink on the way into a fixed point.
    if (!(chordal(at, next) > STEP / 4)) break;
    at = next;
    const place = onSphere(at);
    if (occupied.has(place, MIN_DISTANCE)) break;
    line.push(place);
    if (length > 4 * STEP && chordal(at, start) < STEP * 0.75) return { line, closed: true };
  }
  return { line, closed: false };
}

/** Points by grid cell, for fast neighbor search. */
class PointGrid {
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

const cell = (coordinate: number): number => Math.floor(coordinate / MIN_START_DISTANCE);
