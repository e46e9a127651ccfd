import assert from "node:assert/strict";
import { test } from "node:test";
import { complexText, percent, pointText } from "../src/text";

test("percentages keep what matters", () => {
  assert.equal(percent(0), "0.0 %");
  assert.equal(percent(0.0004), "< 0.1 %");
  assert.equal(percent(0.0561), "5.6 %");
  assert.equal(percent(0.46), "46 %");
  assert.equal(percent(0.9996), "> 99.9 %");
  assert.equal(percent(1), "100 %");
});

test("complex numbers", () => {
  assert.equal(complexText([0.5, -0.25]), "0.50 − 0.25i");
  assert.equal(complexText([-0.001, 2]), "2.00i");
  assert.equal(complexText([-1, 0]), "−1.00");
  assert.equal(pointText(null), "∞");
  assert.equal(pointText([1e6, 0]), "∞");
});
