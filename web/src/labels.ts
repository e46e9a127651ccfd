/** Labels beside points: placed so that none covers another, the most important first. */
export interface Label {
  /** The point, in pixels. */
  x: number;
  y: number;
  width: number;
  height: number;
  /** Distance from the point. */
  gap: number;
}

export interface Place {
  left: number;
  top: number;
  /** Which side of its point the label is on. */
  side: number;
}

export type Box = readonly [left: number, top: number, right: number, bottom: number];

const SIDES = 4;
// The radius of a point, in pixels.
const POINT = 4;

function boxAt({ x, y, width, height, gap }: Label, side: number): Box {
  const [left, top] = [
    [x + gap, y - height / 2],
    [x - gap - width, y - height / 2],
    [x - width / 2, y - gap - height],
    [x - width / 2, y + gap],
  ][side] as [number, number];
  return [left, top, left + width, top + height];
}

const overlap = (p: Box, q: Box): boolean => p[0] < q[2] && q[0] < p[2] && p[1] < q[3] && q[1] < p[3];

/** Whether a point is under a box. */
const covers = (box: Box, { x, y }: Label): boolean =>
  x > box[0] - POINT && x < box[2] + POINT && y > box[1] - POINT && y < box[3] + POINT;

/**
 * Place labels within a frame and beside obstacles, in their order; null where there is no room on any side.
 *
 * The side that a label had before comes first, so that labels of moving points do not jump. A side
 * where the label covers the point of another is taken only if there is no other.
 */
export function placeLabels(
  labels: readonly (Label | null)[],
  width: number,
  height: number,
  before: readonly (Place | null)[] = [],
  obstacles: readonly Box[] = [],
): (Place | null)[] {
  const taken: Box[] = [...obstacles];
  return labels.map((label, number) => {
    if (label === null) return null;
    const last = before[number]?.side ?? 0;
    const sides = [last, ...Array.from({ length: SIDES }, (_, side) => side).filter((side) => side !== last)];
    const free = sides.filter((side) => {
      const box = boxAt(label, side);
      const fits = box[0] >= 0 && box[1] >= 0 && box[2] <= width && box[3] <= height;
      return fits && !taken.some((other) => overlap(box, other));
    });
    const isClear = (side: number): boolean =>
      !labels.some((other) => other !== null && other !== label && covers(boxAt(label, side), other));
    const side = free.find(isClear) ?? free[0];
    if (side === undefined) return null;
    const box = boxAt(label, side);
    taken.push(box);
    return { left: box[0], top: box[1], side };
  });
}
