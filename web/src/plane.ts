/** The plane: a grid and its image under a map. */
import { abs, type Complex } from "./complex";
import { cssColor, fitCanvas } from "./dom";
import { apply, type Flow, type Mobius, type Point, point } from "./mobius";

/** The grid and the window reach this far from 0. */
const GRID = 2;
const WINDOW = 2.6;
const STEP = 0.5;
const SAMPLES = 480;

type Place = (z: Complex) => readonly [number, number];

export class Plane {
  private flow: Flow | null = null;
  private progress = 1;
  private color = "--accent";

  constructor(private readonly canvas: HTMLCanvasElement) {
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  show(flow: Flow | null, color: string): void {
    this.flow = flow;
    this.color = color;
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
    const unit = Math.min(width, height) / 2 / WINDOW;
    const place: Place = ([re, im]) => [width / 2 + re * unit, height / 2 - im * unit];
    pen.lineJoin = "round";
    this.drawGrid(pen, place, null, cssColor("--grid"), cssColor("--grid"), 1);
    this.drawAxes(pen, place, width, height);
    if (this.flow !== null) {
      const map = this.flow.power(this.progress);
      this.drawGrid(pen, place, map, cssColor(this.color), cssColor("--second"), 1.4);
      this.drawFixedPoints(pen, place);
    }
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
    pen.font = "12px Inter, system-ui, sans-serif";
    for (const [text, z] of [
      ["1", [1, 0]],
      ["−1", [-1, 0]],
      ["i", [0, 1]],
      ["−i", [0, -1]],
    ] as const) {
      const [left, top] = place(z);
      pen.fillText(text, left + 4, top + 14);
    }
  }

  private drawFixedPoints(pen: CanvasRenderingContext2D, place: Place): void {
    for (const [number, at] of (this.flow?.fixedPoints ?? []).entries()) {
      const z = point(at);
      if (z === null || abs(z) > 1e4) continue;
      const [x, y] = place(z);
      pen.beginPath();
      pen.arc(x, y, 5.5, 0, 2 * Math.PI);
      pen.lineWidth = 2.5;
      pen.strokeStyle = cssColor("--ink");
      pen.fillStyle = cssColor(this.flow?.attracts && number === 1 ? "--surface" : "--ink");
      pen.fill();
      pen.stroke();
    }
  }
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
