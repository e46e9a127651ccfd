import assert from "node:assert/strict";
import { test } from "node:test";
import { abs, add, type Complex, mul, sub } from "../src/complex";
import {
  apply,
  chordal,
  degrees,
  Flow,
  fromSphere,
  type Mobius,
  moved,
  onSphere,
  type Point,
  point,
  ray,
} from "../src/mobius";

const KINDS: Record<string, Mobius> = {
  identity: { a: [1, 0], b: [0, 0], c: [0, 0], d: [1, 0] },
  "near the identity": { a: [1, 1e-7], b: [1e-7, 0], c: [0, 1e-7], d: [1, 0] },
  "parabolic at ∞": { a: [1, 0], b: [1, 0], c: [0, 0], d: [1, 0] },
  "parabolic at 1": { a: [0, 0], b: [1, 0], c: [-1, 0], d: [2, 0] },
  "near parabolic": { a: [1, 1e-9], b: [1, 0], c: [1e-9, 0], d: [1, 0] },
  circular: { a: [0, 0], b: [1, 0], c: [1, 0], d: [0, 0] },
  elliptic: { a: [1, 0], b: [-0.5, 0], c: [0.5, 0], d: [1, 0] },
  hyperbolic: { a: [2, 0], b: [1, 0], c: [1, 0], d: [2, 0] },
  "hyperbolic, fixing 0 and ∞": { a: [3, 0], b: [0, 0], c: [0, 0], d: [1, 0] },
  loxodromic: { a: [1, 2], b: [0.5, -0.3], c: [-0.2, 0.7], d: [0.4, 0.1] },
  "loxodromic, k < 0": { a: [-3, 0], b: [0, 0], c: [0, 0], d: [1, 0] },
  "almost degenerate": { a: [1, 0], b: [1, 0], c: [1, 0], d: [1, 1e-4] },
};
const POINTS: Point[] = [[0, 0], [1, 0], [-0.3, 0.8], [40, -7], [0, -1], null];

function compose(m: Mobius, n: Mobius): Mobius {
  return {
    a: add(mul(m.a, n.a), mul(m.b, n.c)),
    b: add(mul(m.a, n.b), mul(m.b, n.d)),
    c: add(mul(m.c, n.a), mul(m.d, n.c)),
    d: add(mul(m.c, n.b), mul(m.d, n.d)),
  };
}

function near(p: Point, q: Point, within = 1e-7): void {
  assert.ok(chordal(ray(p), ray(q)) < within, `${p} is not near ${q}`);
}

for (const [name, map] of Object.entries(KINDS)) {
  const flow = Flow.of(map);
  assert.ok(flow !== null);

  test(`${name}: done once is the map, done never is the identity`, () => {
    for (const z of POINTS) {
      near(apply(flow.power(1), z), apply(map, z));
      near(apply(flow.power(0), z), z);
    }
  });

  test(`${name}: powers compose`, () => {
    for (const [s, t] of [
      [0.5, 0.5],
      [0.3, -1.2],
      [2, 0.25],
    ] as const) {
      for (const z of POINTS) {
        near(apply(compose(flow.power(s), flow.power(t)), z), apply(flow.power(s + t), z), 1e-6);
      }
    }
  });

  test(`${name}: fixed points stay where they are`, () => {
    for (const p of flow.fixedPoints ?? []) {
      assert.ok(chordal(moved(flow.power(1), p), p) < 1e-7);
      assert.ok(chordal(moved(flow.power(0.4), p), p) < 1e-7);
      assert.ok(flow.speed(p) < 1e-6);
    }
  });

  test(`${name}: the speed is that of the powers`, () => {
    const step = 1e-5;
    for (const z of POINTS) {
      const before = ray(z);
      const after = moved(flow.power(step), before);
      const speed = flow.speed(before);
      assert.ok(Math.abs(chordal(before, after) / step - speed) < 1e-3 * (1 + speed ** 2));
    }
  });
}

test("the first fixed point attracts", () => {
  for (const name of ["hyperbolic", "loxodromic", "loxodromic, k < 0"]) {
    const flow = Flow.of(KINDS[name] as Mobius) as Flow;
    assert.ok(flow.attracts);
    const [end, start] = flow.fixedPoints as NonNullable<Flow["fixedPoints"]>;
    assert.ok(chordal(moved(flow.power(60), ray([0.123, 0.456])), end) < 1e-6);
    assert.ok(chordal(moved(flow.power(-60), ray([0.123, 0.456])), start) < 1e-6);
  }
});

test("multipliers", () => {
  const k = (name: string): Complex => (Flow.of(KINDS[name] as Mobius) as Flow).multiplier;
  assert.ok(abs(sub(k("hyperbolic"), [3, 0])) < 1e-12);
  assert.ok(abs(sub(k("circular"), [-1, 0])) < 1e-12);
  assert.ok(abs(sub(k("parabolic at 1"), [1, 0])) < 1e-7);
  assert.ok(abs(sub(k("loxodromic, k < 0"), [-3, 0])) < 1e-12);
  assert.ok(Math.abs(abs(k("elliptic")) - 1) < 1e-12);
  assert.ok(Math.abs(degrees(k("elliptic")) - (360 * Math.atan(0.5)) / Math.PI) < 1e-9);
});

test("a degenerate matrix has no flow", () => {
  assert.equal(Flow.of({ a: [1, 0], b: [2, 0], c: [2, 0], d: [4, 0] }), null);
  assert.equal(Flow.of({ a: [0, 0], b: [0, 0], c: [0, 0], d: [0, 0] }), null);
});

test("the sphere and back; ∞ is the north pole", () => {
  for (const z of POINTS) near(point(fromSphere(onSphere(ray(z)))), z, 1e-12);
  assert.deepEqual(onSphere(ray(null)), [0, 0, 1]);
  assert.deepEqual(onSphere(ray([0, 0])), [0, 0, -1]);
});
