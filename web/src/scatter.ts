/** A scatter plot on a canvas: hover, tap, zoom, arrow keys. */
import type { EntityMap, MapPoint } from "./api";
import { cssColor, fitCanvas } from "./dom";
import { entityText } from "./names";

const RADIUS = 4;
// Pixels within which a pointer selects a point.
const HIT_RADIUS = 22;
const MARGIN = 26;
const MAX_LABELS = 28;
const MAX_ZOOM = 40;
const MAX_STRETCH = 1.7;
/** One shape per type of the legend: color alone is not accessible. */
export const SHAPES = ["●", "■", "▲", "◆", "▼", "✚", "★", "⬟"] as const;

export class Scatter {
  private zoom = 1;
  private center: [number, number] = [0, 0];
  private named: MapPoint | null = null;
  private frame = 0;
  private readonly hiddenTypes = new Set<number | null>();

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private map: EntityMap,
    private readonly onName: (point: MapPoint | null) => void,
    private readonly onChoose: (point: MapPoint) => void,
  ) {
    new ResizeObserver(() => this.draw()).observe(canvas);
    this.listen();
  }

  /** Show the same entities in another layout. */
  replace(map: EntityMap): void {
    const { named } = this;
    this.map = map;
    this.named = map.points.find(({ id }) => id === named?.id) ?? null;
    this.reset();
  }

  /** Hide the points of a type, or show them again. */
  toggle(type: number | null): boolean {
    const isShown = this.hiddenTypes.delete(type);
    if (!isShown) this.hiddenTypes.add(type);
    this.draw();
    return isShown;
  }

  /** Select a point and scroll it into view. */
  find(id: string): boolean {
    const point = this.map.points.find((one) => one.id === id);
    if (!point) return false;
    this.name(point);
    const [x, y] = this.place(point);
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (x < 0 || y < 0 || x > width || y > height) this.center = [point.x, point.y];
    this.draw();
    return true;
  }

  zoomBy(factor: number, at?: readonly [number, number]): void {
    const before = at && this.unplace(at);
    this.zoom = Math.max(1, Math.min(MAX_ZOOM, this.zoom * factor));
    const after = at && this.unplace(at);
    if (before && after) this.pan(before[0] - after[0], before[1] - after[1]);
    this.draw();
  }

  reset(): void {
    this.zoom = 1;
    this.center = [0, 0];
    this.draw();
  }

  draw(): void {
    if (this.frame !== 0) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.paint();
    });
  }

  /** Pixels per unit, horizontally and vertically. */
  private get unit(): readonly [number, number] {
    const half = (pixels: number): number => Math.max(1, pixels / 2 - MARGIN);
    const [across, up] = [half(this.canvas.clientWidth), half(this.canvas.clientHeight)];
    const most = Math.min(across, up) * MAX_STRETCH;
    return [Math.min(across, most) * this.zoom, Math.min(up, most) * this.zoom];
  }

  private place({ x, y }: { x: number; y: number }): [number, number] {
    const { clientWidth, clientHeight } = this.canvas;
    const [across, up] = this.unit;
    return [clientWidth / 2 + (x - this.center[0]) * across, clientHeight / 2 - (y - this.center[1]) * up];
  }

  private unplace([left, top]: readonly [number, number]): [number, number] {
    const { clientWidth, clientHeight } = this.canvas;
    const [across, up] = this.unit;
    return [
      this.center[0] + (left - clientWidth / 2) / across,
      this.center[1] - (top - clientHeight / 2) / up,
    ];
  }

  private pan(x: number, y: number): void {
    const clamp = (value: number): number => Math.max(-1.1, Math.min(1.1, value));
    this.center = [clamp(this.center[0] + x), clamp(this.center[1] + y)];
  }

  private get shown(): MapPoint[] {
    return this.map.points.filter(({ type }) => !this.hiddenTypes.has(type));
  }

  private paint(): void {
    const pen = fitCanvas(this.canvas);
    if (!pen) return;
    const colors = this.map.types.map((_, type) => cssColor(`--type-${type}`));
    const none = cssColor("--type-none");
    pen.globalAlpha = 0.82;
    for (const point of [...this.shown].reverse()) {
      pen.fillStyle = point.type === null ? none : (colors[point.type] ?? none);
      const [x, y] = this.place(point);
      mark(pen, x, y, point.type, RADIUS + Math.min(2, (this.zoom - 1) / 4));
    }
    pen.globalAlpha = 1;
    this.paintLabels(pen);
  }

  /** Labels where there is room, entities with the most facts first; the selected point always. */
  private paintLabels(pen: CanvasRenderingContext2D): void {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    pen.font = "12.5px Inter, system-ui, sans-serif";
    pen.textBaseline = "middle";
    const taken: [number, number, number, number][] = [];
    const write = (point: MapPoint, always: boolean): boolean => {
      const [x, y] = this.place(point);
      const text = entityText(point);
      const wide = pen.measureText(text).width;
      const left = x + wide + 12 > width ? x - wide - 8 : x + 8;
      const box: [number, number, number, number] = [left - 4, y - 9, left + wide + 4, y + 9];
      const fits = box[0] >= 0 && box[2] <= width && box[1] >= 0 && box[3] <= height;
      const free = taken.every(([a, b, c, d]) => box[2] < a || box[0] > c || box[3] < b || box[1] > d);
      if (!always && !(fits && free)) return false;
      taken.push(box);
      pen.lineWidth = 3.5;
      pen.strokeStyle = cssColor("--surface");
      pen.fillStyle = cssColor("--ink");
      pen.strokeText(text, left, y);
      pen.fillText(text, left, y);
      return true;
    };
    if (this.named) this.ring(pen, this.named);
    if (this.named) write(this.named, true);
    let labels = 0;
    for (const point of this.shown) {
      if (labels >= MAX_LABELS) break;
      if (point !== this.named && write(point, false)) labels += 1;
    }
  }

  private ring(pen: CanvasRenderingContext2D, point: MapPoint): void {
    const [x, y] = this.place(point);
    pen.beginPath();
    pen.arc(x, y, RADIUS + 5, 0, 2 * Math.PI);
    pen.lineWidth = 2.5;
    pen.strokeStyle = cssColor("--ink");
    pen.stroke();
  }

  private name(point: MapPoint | null): void {
    if (point === this.named) return;
    this.named = point;
    this.onName(point);
    this.draw();
  }

  private nearest(x: number, y: number): MapPoint | null {
    let best: MapPoint | null = null;
    let least = HIT_RADIUS;
    for (const point of this.shown) {
      const [left, top] = this.place(point);
      const far = Math.hypot(left - x, top - y);
      if (far < least) [best, least] = [point, far];
    }
    return best;
  }

  /** The next point in a direction: close and not far to the side. */
  private step(right: number, down: number): void {
    const from = this.named ?? this.shown[0];
    if (!from) return;
    if (!this.named) return this.name(from);
    const [x, y] = this.place(from);
    let best: MapPoint | null = null;
    let least = Infinity;
    for (const point of this.shown) {
      const [left, top] = this.place(point);
      const ahead = (left - x) * right + (top - y) * down;
      const aside = Math.abs((left - x) * down) + Math.abs((top - y) * right);
      const cost = ahead + 2 * aside;
      if (ahead > 2 && cost < least) [best, least] = [point, cost];
    }
    if (best) this.find(best.id);
  }

  private listen(): void {
    const { canvas } = this;
    const held = new Map<number, PointerEvent>();
    let dragged = 0;
    const at = (event: MouseEvent): [number, number] => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    canvas.addEventListener("pointerdown", (event) => {
      if (held.size === 0) dragged = 0;
      held.set(event.pointerId, event);
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      const before = held.get(event.pointerId);
      if (!before) {
        if (event.pointerType === "mouse") this.name(this.nearest(...at(event)));
        return;
      }
      const other = [...held.values()].find(({ pointerId }) => pointerId !== event.pointerId);
      const [x, y] = [event.clientX - before.clientX, event.clientY - before.clientY];
      dragged += Math.hypot(x, y);
      if (other) {
        const spread = (one: PointerEvent): number =>
          Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY);
        this.zoomBy(spread(event) / Math.max(1, spread(before)), at(event));
      } else if (dragged > 4) {
        const [across, up] = this.unit;
        this.pan(-x / across, y / up);
        this.draw();
      }
      held.set(event.pointerId, event);
    });
    for (const end of ["pointerup", "pointercancel"] as const) {
      canvas.addEventListener(end, (event) => held.delete(event.pointerId));
    }
    // A mouse has selected the point already; the first tap selects it, the second one opens it.
    canvas.addEventListener("click", (event) => {
      if (dragged > 4) return;
      const before = this.named;
      const point = this.nearest(...at(event));
      this.name(point);
      if (point && point === before) this.onChoose(point);
    });
    canvas.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        this.zoomBy(Math.exp(-event.deltaY * 0.0015), at(event));
      },
      { passive: false },
    );
    canvas.addEventListener("keydown", (event) => {
      const action = this.keys[event.key];
      if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      action();
    });
  }

  private readonly keys: Record<string, () => void> = {
    ArrowLeft: () => this.step(-1, 0),
    ArrowRight: () => this.step(1, 0),
    ArrowUp: () => this.step(0, -1),
    ArrowDown: () => this.step(0, 1),
    "+": () => this.zoomBy(1.25),
    "=": () => this.zoomBy(1.25),
    "-": () => this.zoomBy(0.8),
    "0": () => this.reset(),
    Enter: () => {
      if (this.named) this.onChoose(this.named);
    },
  };
}

function mark(pen: CanvasRenderingContext2D, x: number, y: number, type: number | null, r: number): void {
  pen.beginPath();
  if (type === null || type === 0) pen.arc(x, y, r, 0, 2 * Math.PI);
  else if (type === 5) {
    pen.rect(x - r, y - r / 3, 2 * r, (2 * r) / 3);
    pen.rect(x - r / 3, y - r, (2 * r) / 3, 2 * r);
  } else polygon(pen, x, y, type, r);
  pen.fill();
}

/** Corners and rotation of the polygonal shapes. */
const CORNERS: Record<number, readonly [number, number]> = {
  1: [4, Math.PI / 4],
  2: [3, 0],
  3: [4, 0],
  4: [3, Math.PI],
  6: [10, 0],
  7: [5, 0],
};

function polygon(pen: CanvasRenderingContext2D, x: number, y: number, type: number, r: number): void {
  const [corners, turn] = CORNERS[type] ?? [6, 0];
  for (let corner = 0; corner < corners; corner++) {
    const isNotch = corners === 10 && corner % 2 === 1;
    const far = isNotch ? r * 0.5 : r * 1.25;
    const angle = turn + (2 * Math.PI * corner) / corners;
    pen.lineTo(x + far * Math.sin(angle), y - far * Math.cos(angle));
  }
}
