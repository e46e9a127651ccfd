/** The plane: a grid and its image under a map, and facts of the graph as points. */
import { abs, type Complex } from "./complex";
import { cssColor, fitCanvas } from "./dom";
import type { FactsInFlow } from "./facts-in-flow";
import { type Label, type Place as LabelPlace, placeLabels } from "./labels";
import { entityText } from "./names";
import { apply, type Mobius, type Point, point } from "./mobius";

/** The grid reaches this far from 0, in units of the scale of the facts. */
const GRID = 1;
const STEP = 0.2;
/** The window reaches to the farthest point, within these bounds. */
const MIN_WINDOW = 0.4;
const MAX_WINDOW = 1.5;
const SAMPLES = 240;
const RADIUS = 4.5;
const FONT = "12px Inter, system-ui, sans-serif";

type Place = (z: Complex) => readonly [number, number];

export class Plane {
  private facts: FactsInFlow | null = null;
  private progress = 0;
  private color = "--accent";
  private places: (LabelPlace | null)[] = [];
  private window = MAX_WINDOW;

  constructor(private readonly canvas: HTMLCanvasElement) {
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  show(facts: FactsInFlow, color: string): void {
    this.facts = facts;
    this.color = color;
    this.places = [];
    const rays = [...facts.at(0), ...facts.at(1), ...facts.rows.map(({ target }) => target)];
    const farthest = Math.max(...rays.map((each) => abs(point(each) ?? [MAX_WINDOW, 0])));
    this.window = Math.max(MIN_WINDOW, Math.min(MAX_WINDOW, 1.15 * farthest));
    this.draw();
  }

  /** Set the progress of the map: 0 is the grid itself, 1 its image. */
  setProgress(progress: number): void {
    this.progress = progress;
    this.draw();
  }

  draw(): void {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const pen = fitCanvas(this.canvas);
    if (!pen || width === 0) return;
    const unit = Math.min(width, height) / 2 / this.window;
    const place: Place = ([re, im]) => [width / 2 + re * unit, height / 2 - im * unit];
    pen.lineJoin = "round";
    this.drawGrid(pen, place, null, cssColor("--grid"), cssColor("--grid"), 1);
    this.drawAxes(pen, place, width, height);
    const flow = this.facts?.flow ?? null;
    if (flow !== null) {
      pen.globalAlpha = 0.5;
      this.drawGrid(pen, place, flow.power(this.progress), cssColor(this.color), cssColor("--control"), 1);
      pen.globalAlpha = 1;
      this.drawFixedPoints(pen, place);
    }
    if (this.facts) this.drawFacts(pen, place, this.facts, width, height);
  }

  /** Tails as rings, heads as discs on their way, names where there is room. */
  private drawFacts(
    pen: CanvasRenderingContext2D,
    place: Place,
    facts: FactsInFlow,
    width: number,
    height: number,
  ): void {
    const [ink, head, tail, landed] = ["--ink", "--accent", "--second", "--known"].map(cssColor);
    const names: { text: string; color: string | undefined; label: Label }[] = [];
    const named = new Set<string>();
    pen.font = FONT;
    const mark = (z: Point, end: "head" | "tail", row: FactsInFlow["rows"][number]): void => {
      if (z === null) return;
      const [x, y] = place(z);
      const { fact } = row;
      const color = end === "tail" ? tail : this.progress >= 1 && fact.lands ? landed : head;
      disc(pen, x, y, fact.is_answer ? RADIUS * 1.4 : RADIUS, color ?? "", end === "tail");
      const { id } = fact[end];
      const text = entityText(fact[end]);
      if (named.has(`${end} ${id}`)) return;
      named.add(`${end} ${id}`);
      const label = { x, y, width: pen.measureText(text).width, height: 15, gap: RADIUS + 4 };
      names.push({ text, color: fact.is_answer ? ink : color, label });
    };
    const heads = facts.at(this.progress);
    for (const [number, row] of facts.rows.entries()) {
      mark(point(row.target), "tail", row);
      const at = heads[number];
      if (at) mark(point(at), "head", row);
    }
    this.places = placeLabels(
      names.map(({ label }) => label),
      width,
      height,
      this.places,
    );
    pen.textBaseline = "top";
    for (const [number, { text, color }] of names.entries()) {
      const at = this.places[number];
      if (!at) continue;
      pen.lineWidth = 3;
      pen.strokeStyle = cssColor("--surface");
      pen.fillStyle = color ?? "";
      pen.strokeText(text, at.left, at.top + 2);
      pen.fillText(text, at.left, at.top + 2);
    }
    pen.textBaseline = "alphabetic";
  }

  private drawGrid(
    pen: CanvasRenderingContext2D,
    place: Place,
    map: Mobius | null,
    upright: string,
    level: string,
    thick: number,
  ): void {
    for (let at = -GRID; at <= GRID + 1e-9; at += STEP) {
      pen.lineWidth = at === 0 ? thick * 1.8 : thick;
      pen.strokeStyle = upright;
      strokeCurve(pen, place, map, (t) => [at, t]);
      pen.strokeStyle = level;
      strokeCurve(pen, place, map, (t) => [t, at]);
    }
  }

  private drawAxes(pen: CanvasRenderingContext2D, place: Place, width: number, height: number): void {
    const [x, y] = place([0, 0]);
    pen.strokeStyle = cssColor("--globe-axis");
    pen.lineWidth = 1;
    pen.beginPath();
    pen.moveTo(0, y);
    pen.lineTo(width, y);
    pen.moveTo(x, 0);
    pen.lineTo(x, height);
    pen.stroke();
    pen.fillStyle = cssColor("--muted");
    pen.font = FONT;
    const size = Number((this.facts?.given.scale ?? 1).toPrecision(2));
    for (const [text, z] of [
      [`${size}`, [1, 0]],
      [`−${size}`, [-1, 0]],
      [`${size}i`, [0, 1]],
      [`−${size}i`, [0, -1]],
    ] as const) {
      const [left, top] = place(z);
      pen.fillText(text, left + 4, top + 14);
    }
  }

  private drawFixedPoints(pen: CanvasRenderingContext2D, place: Place): void {
    const flow = this.facts?.flow;
    for (const [number, at] of (flow?.fixedPoints ?? []).entries()) {
      const z = point(at);
      if (z === null || abs(z) > 1e4) continue;
      const [x, y] = place(z);
      pen.beginPath();
      pen.arc(x, y, 5.5, 0, 2 * Math.PI);
      pen.lineWidth = 2.5;
      pen.strokeStyle = cssColor("--ink");
      pen.fillStyle = cssColor(flow?.attracts && number === 1 ? "--surface" : "--ink");
      pen.fill();
      pen.stroke();
    }
  }
}

function disc(
  pen: CanvasRenderingContext2D,
  x: number,
  y: number,
  radius: number,
  color: string,
  isRing: boolean,
): void {
  pen.beginPath();
  pen.arc(x, y, radius, 0, 2 * Math.PI);
  pen.lineWidth = 2;
  pen.strokeStyle = isRing ? color : cssColor("--surface");
  pen.fillStyle = color;
  if (!isRing) pen.fill();
  pen.stroke();
}

/** Draw the image of a curve, cut where it passes near ∞. */
function strokeCurve(
  pen: CanvasRenderingContext2D,
  place: Place,
  map: Mobius | null,
  curve: (t: number) => Complex,
): void {
  pen.beginPath();
  let last: Point = null;
  for (let sample = 0; sample <= SAMPLES; sample++) {
    const z = curve(-GRID + (2 * GRID * sample) / SAMPLES);
    const image = map === null ? z : apply(map, z);
    const isNear = image !== null && abs(image) < 40;
    if (isNear) {
      const jumps = last === null || Math.hypot(image[0] - last[0], image[1] - last[1]) > 8;
      if (jumps) pen.moveTo(...place(image));
      else pen.lineTo(...place(image));
    }
    last = isNear ? image : null;
  }
  pen.stroke();
}
