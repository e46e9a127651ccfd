/** Discs with tails that the flow of a map carries over the sphere. */
import { BufferAttribute, BufferGeometry, CanvasTexture, type Color, Points, PointsMaterial } from "three";
import { abs, log } from "./complex";
import { h } from "./dom";
import { spread } from "./flow-lines";
import { type Flow, fromSphere, moved, onSphere, type Ray } from "./mobius";
import { toScene } from "./sphere-parts";

const PARTICLES = 168;
// Discs in the tail of a particle.
const TAIL = 9;
const TAIL_STEP = 0.009;
// Groups of particles start one after another.
const GROUPS = 12;
const LIFE_SECONDS = 5;
/** How far a particle moves along the flow in its lifetime, as a share of log k. */
const LIFE_STRETCH = 2.2;
const LONGEST_LIFE = 40;

const MATERIAL = new PointsMaterial({
  size: 6,
  sizeAttenuation: false,
  vertexColors: true,
  transparent: true,
  depthWrite: false,
  map: disc(),
});

export class Particles {
  readonly points: Points;
  private readonly positions = new BufferAttribute(new Float32Array(PARTICLES * TAIL * 3), 3);
  private readonly colors = new BufferAttribute(new Float32Array(PARTICLES * TAIL * 4), 4);
  private readonly seeds: Ray[] = spread(PARTICLES).map((place) => fromSphere(place));
  private readonly lives: number[] = this.seeds.map(() => 0);
  /** The power of the map for a whole lifetime. */
  private readonly lifetime: number;

  constructor(
    private readonly flow: Flow,
    private readonly color: Color,
  ) {
    this.lifetime = Math.min(LONGEST_LIFE, LIFE_STRETCH / Math.max(abs(log(flow.multiplier)), 0.05));
    const geometry = new BufferGeometry();
    geometry.setAttribute("position", this.positions);
    geometry.setAttribute("color", this.colors);
    this.points = new Points(geometry, MATERIAL);
    this.points.frustumCulled = false;
    this.points.renderOrder = 3;
  }

  /** Place all particles at a time in seconds; each group has its own power of the map. */
  move(clock: number): void {
    for (let group = 0; group < GROUPS; group++) {
      const age = clock / LIFE_SECONDS + group / GROUPS;
      for (let number = group; number < PARTICLES; number += GROUPS) this.rebirth(number, Math.floor(age));
      for (let tail = 0; tail < TAIL; tail++) this.place(group, age % 1, tail);
    }
    this.positions.needsUpdate = true;
    this.colors.needsUpdate = true;
  }

  private place(group: number, life: number, tail: number): void {
    const power = this.flow.power((life - 0.5 - tail * TAIL_STEP) * this.lifetime);
    const light = Math.sin(Math.PI * life) * (1 - tail / TAIL) ** 2;
    const { r, g, b } = this.color;
    for (let number = group; number < PARTICLES; number += GROUPS) {
      const seed = this.seeds[number];
      if (!seed) continue;
      const { x, y, z } = toScene(onSphere(moved(power, seed)), 1.012);
      this.positions.setXYZ(number * TAIL + tail, x, y, z);
      this.colors.setXYZW(number * TAIL + tail, r, g, b, light);
    }
  }

  /** The start of a particle, different in each lifetime. */
  private rebirth(number: number, life: number): void {
    if (this.lives[number] === life) return;
    this.lives[number] = life;
    const height = 2 * Math.random() - 1;
    const angle = 2 * Math.PI * Math.random();
    const radius = Math.sqrt(1 - height * height);
    this.seeds[number] = fromSphere([radius * Math.cos(angle), radius * Math.sin(angle), height]);
  }
}

function disc(): CanvasTexture {
  const canvas = h("canvas", { width: 32, height: 32 });
  const pen = canvas.getContext("2d");
  if (pen) {
    pen.fillStyle = "#fff";
    pen.arc(16, 16, 14, 0, 2 * Math.PI);
    pen.fill();
  }
  return new CanvasTexture(canvas);
}
