import assert from "node:assert/strict";
import { test } from "node:test";
import { type Label, placeLabels } from "../src/labels";

const label = (x: number, y: number): Label => ({ x, y, width: 40, height: 10, gap: 5 });

function overlaps(places: ReturnType<typeof placeLabels>): boolean {
  const boxes = places.flatMap((place) => (place ? [place] : []));
  return boxes.some((p, i) =>
    boxes.some(
      (q, j) => i < j && Math.abs(p.left - q.left) < 40 && Math.abs(p.top - q.top) < 10,
    ),
  );
}

test("labels are right of their points, or where there is room", () => {
  const places = placeLabels([label(20, 50), label(95, 50)], 100, 100);
  assert.deepEqual(places[0], { left: 25, top: 45, side: 0 });
  // Right and above are outside of the frame, and left is taken by the first.
  assert.equal(places[1], null);
  const apart = placeLabels([label(20, 50), label(75, 50)], 100, 100);
  assert.deepEqual(apart[1], { left: 55, top: 35, side: 2 });
});

test("labels never overlap, and the first ones win", () => {
  const crowd = Array.from({ length: 40 }, (_, n) => label(100 + (n % 7) * 3, 100 + (n % 5) * 3));
  const places = placeLabels(crowd, 200, 200);
  assert.ok(places[0]);
  assert.ok(!overlaps(places));
  assert.ok(places.some((place) => place === null));
});

test("a label stays on its side while it fits", () => {
  const before = [{ left: 0, top: 0, side: 3 }];
  assert.equal(placeLabels([label(50, 50)], 200, 200, before)[0]?.side, 3);
  assert.equal(placeLabels([label(50, 195)], 200, 200, before)[0]?.side, 0);
  assert.equal(placeLabels([null], 200, 200)[0], null);
});

test("labels avoid the points of others where they can", () => {
  const places = placeLabels([label(50, 50), label(75, 50)], 200, 200);
  // Right of the first is the second point, left of it is free.
  assert.equal(places[0]?.side, 1);
  assert.equal(places[1]?.side, 0);
});

test("labels keep clear of obstacles", () => {
  const [beside] = placeLabels([label(50, 50)], 200, 200, [], [[60, 40, 80, 60]]);
  assert.deepEqual(beside, { left: 5, top: 45, side: 1 });
});
