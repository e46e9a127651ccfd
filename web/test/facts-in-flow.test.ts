import assert from "node:assert/strict";
import { test } from "node:test";
import type { Pair, SphereFacts } from "../src/api";
import { FactsInFlow } from "../src/facts-in-flow";
import { apply, type Mobius } from "../src/mobius";

const MAP: Mobius = { a: [0.4, -0.7], b: [0.1, 0.02], c: [-0.3, 0.2], d: [0.5, 0.3] };

function given(positions: Pair[], scale: number): SphereFacts {
  const named = { id: "x", label: "x" };
  const facts = positions.map((position) => ({
    head: named,
    tail: named,
    split: null,
    is_answer: false,
    position,
    image: [0.5, 0.25] as Pair,
    target: position,
    nearest: named,
    lands: false,
  }));
  return { scale, facts, pairing: "hermitian" } as unknown as SphereFacts;
}

test("heads are carried from where they are to their images, in any unit", () => {
  const heads: Pair[] = [
    [0.3, 0.1],
    [-0.2, 0.4],
    [0, 0],
  ];
  for (const scale of [0.05, 1, 7]) {
    const facts = new FactsInFlow(given(heads, scale), MAP);
    for (const [row, head] of heads.entries()) {
      for (const [s, expected] of [
        [0, head],
        [1, apply(MAP, head)],
      ] as const) {
        const z = facts.positions(s)[row];
        assert.ok(z && expected);
        assert.ok(Math.hypot(z[0] - expected[0], z[1] - expected[1]) < 1e-9);
      }
    }
    // Half a step twice is the whole step.
    const [half] = new FactsInFlow(given([facts.positions(0.5)[0] as Pair], scale), MAP).positions(0.5);
    const whole = apply(MAP, heads[0] as Pair);
    assert.ok(half && whole && Math.hypot(half[0] - whole[0], half[1] - whole[1]) < 1e-9);
  }
});

test("a degenerate map takes heads to their images at once", () => {
  const map: Mobius = { a: [1, 0], b: [2, 0], c: [0.5, 0], d: [1, 0] };
  const facts = new FactsInFlow(given([[0.3, 0.1]], 2), map);
  assert.equal(facts.flow, null);
  const at = (s: number): string => String(facts.positions(s)[0]?.map((part) => part.toFixed(6)));
  assert.equal(at(0.5), "0.300000,0.100000");
  assert.equal(at(1), "0.500000,0.250000");
});
