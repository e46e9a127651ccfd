/** The Riemann sphere with the flow of a map and facts of the graph, by three.js; loaded on demand. */
import {
  Color,
  Group,
  Mesh,
  MeshBasicMaterial,
  PerspectiveCamera,
  Scene,
  SphereGeometry,
  TorusGeometry,
  WebGLRenderer,
} from "three";
import { LineMaterial } from "three/examples/jsm/lines/LineMaterial.js";
import { LineSegments2 } from "three/examples/jsm/lines/LineSegments2.js";
import { cssColor } from "./dom";
import { FactMarks } from "./fact-marks";
import type { FactsInFlow } from "./facts-in-flow";
import { flowLines } from "./flow-lines";
import { type Flow, onSphere, type Ray, type Vector } from "./mobius";
import { SphereLabels } from "./sphere-labels";
import {
  arrowheads,
  circleAt,
  meridian,
  meridians,
  parallels,
  segments,
  toScene,
  veilMaterial,
} from "./sphere-parts";

const NEAREST = 2.6;
const FARTHEST = 7;
const STEEPEST = 1.45;

export class Sphere {
  private readonly renderer: WebGLRenderer;
  private readonly scene = new Scene();
  private readonly camera = new PerspectiveCamera(36, 1, 0.1, 20);
  private readonly flowGroup = new Group();
  private readonly globeGroup = new Group();
  private readonly labels = new SphereLabels();
  private readonly lineMaterial = new LineMaterial({ linewidth: 1.2, vertexColors: true });
  private readonly globeMaterial = new LineMaterial({ linewidth: 1 });
  private readonly axisMaterial = new LineMaterial({ linewidth: 1.4 });
  private readonly pathMaterial = new LineMaterial({ linewidth: 1.2, transparent: true, opacity: 0.55 });
  private shown: FactsInFlow | null = null;
  private marks: FactMarks | null = null;
  private s = 0;
  private yaw = -0.5;
  private pitch = -1.18;
  private distance = 3.75;
  private frame = 0;
  private isVisible = false;
  private wasTurned = false;
  private size = "";
  private color = "--accent";

  constructor(private readonly stage: HTMLElement) {
    this.renderer = new WebGLRenderer({ antialias: true, alpha: true, powerPreference: "low-power" });
    this.renderer.setPixelRatio(Math.min(window.devicePixelRatio || 1, 2));
    stage.append(this.renderer.domElement, this.labels.element);
    this.scene.add(this.globeGroup, this.flowGroup);
    this.drawGlobe();
    this.listen();
  }

  /** Show the flow of a map in a color, with facts of the graph. */
  show(facts: FactsInFlow, color: string): void {
    this.shown = facts;
    this.color = color;
    emptyGroup(this.flowGroup);
    this.labels.show(facts);
    const { flow } = facts;
    const fixed = flow?.fixedPoints ?? null;
    if (flow !== null && fixed !== null) {
      this.drawFlow(flow, color);
      const isOne = Math.hypot(...difference(onSphere(fixed[0]), onSphere(fixed[1]))) < 1e-3;
      this.drawFixed(fixed[0], flow.attracts ? "attracts" : "fixed", "full");
      if (!isOne)
        this.drawFixed(fixed[1], flow.attracts ? "repels" : "fixed", flow.attracts ? "ring" : "full");
    }
    this.marks = new FactMarks(facts, this.pathMaterial);
    this.flowGroup.add(this.marks.group);
    if (!this.wasTurned) this.face(facts);
    this.move(this.s);
  }

  /** Place the heads at a power of the map. */
  move(s: number): void {
    this.s = s;
    this.marks?.move(s);
    if (this.shown) this.labels.move(this.shown, s);
    this.draw();
  }

  recolor(): void {
    this.drawGlobe();
    if (this.shown) this.show(this.shown, this.color);
  }

  /** Look at the image of the answer from below, where the points near 0 are. */
  private face({ rows }: FactsInFlow): void {
    const answer = rows.find(({ fact }) => fact.is_answer) ?? rows[0];
    if (!answer) return;
    const { x, z } = toScene(onSphere(answer.target));
    this.yaw = Math.atan2(x, z);
  }

  private turn(yaw: number, pitch: number): void {
    this.wasTurned = true;
    this.yaw += yaw;
    this.pitch = Math.max(-STEEPEST, Math.min(STEEPEST, this.pitch + pitch));
    this.draw();
  }

  private zoom(by: number): void {
    this.distance = Math.max(NEAREST, Math.min(FARTHEST, this.distance * by));
    this.draw();
  }

  private drawGlobe(): void {
    emptyGroup(this.globeGroup);
    this.globeMaterial.color.setStyle(cssColor("--globe-line"));
    this.axisMaterial.color.setStyle(cssColor("--globe-axis"));
    this.pathMaterial.color.setStyle(cssColor("--accent"));
    const fine = segments([...parallels(), ...meridians(15)]);
    const strong = segments([circleAt(0), meridian(0), meridian(Math.PI / 2)]);
    // Twice: behind the veil for the far side, in front of it for the near side.
    for (const order of [0, 2]) {
      for (const [geometry, material] of [
        [fine, this.globeMaterial],
        [strong, this.axisMaterial],
      ] as const) {
        const lines = new LineSegments2(geometry, material);
        lines.renderOrder = order;
        this.globeGroup.add(lines);
      }
    }
    const veil = new Mesh(new SphereGeometry(0.992, 64, 40), veilMaterial());
    veil.renderOrder = 1;
    this.globeGroup.add(veil);
  }

  private drawFlow(flow: Flow, color: string): void {
    const lines = flowLines(flow);
    const geometry = segments(lines.map((line) => line.map((place) => toScene(place, 1.003))));
    const [pale, full] = [new Color(cssColor("--flow-begin")), new Color(cssColor(color))];
    const colors: number[] = [];
    for (const line of lines) {
      for (let number = 1; number < line.length; number++) {
        for (const end of [number - 1, number])
          colors.push(...pale.clone().lerp(full, 0.1 + 0.5 * (end / (line.length - 1))));
      }
    }
    if (colors.length > 0) geometry.setColors(colors);
    for (const order of [0, 2]) {
      const segments = new LineSegments2(geometry, this.lineMaterial);
      segments.renderOrder = order;
      this.flowGroup.add(segments);
    }
    this.flowGroup.add(arrowheads(lines, pale.clone().lerp(full, 0.7)));
  }

  private drawFixed(at: Ray, text: string, shape: "full" | "ring"): void {
    const place = onSphere(at);
    const material = new MeshBasicMaterial({ color: new Color(cssColor("--ink")) });
    const geometry =
      shape === "full" ? new SphereGeometry(0.045, 20, 14) : new TorusGeometry(0.05, 0.014, 10, 28);
    for (const order of [0, 4]) {
      const mark = new Mesh(geometry, material);
      mark.position.copy(toScene(place, 1.01));
      mark.lookAt(toScene(place, 3));
      mark.renderOrder = order;
      this.flowGroup.add(mark);
    }
    this.labels.showFixed(text, place);
  }

  private draw(): void {
    if (!this.isVisible || this.frame !== 0) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.render();
    });
  }

  private render(): void {
    const { clientWidth: width, clientHeight: height } = this.stage;
    if (width === 0 || height === 0) return;
    if (this.size !== `${width} ${height}`) {
      this.size = `${width} ${height}`;
      this.renderer.setSize(width, height);
      this.camera.aspect = width / height;
      this.camera.updateProjectionMatrix();
    }
    const flat = Math.cos(this.pitch) * this.distance;
    this.camera.position.set(
      Math.sin(this.yaw) * flat,
      Math.sin(this.pitch) * this.distance,
      Math.cos(this.yaw) * flat,
    );
    this.camera.lookAt(0, 0, 0);
    this.renderer.render(this.scene, this.camera);
    this.labels.place(this.camera, width, height);
  }

  private listen(): void {
    const { stage } = this;
    new ResizeObserver(() => this.draw()).observe(stage);
    new IntersectionObserver(([entry]) => {
      this.isVisible = entry?.isIntersecting === true;
      this.draw();
    }).observe(stage);
    let held: PointerEvent | null = null;
    stage.addEventListener("pointerdown", (event) => {
      held = event;
      stage.setPointerCapture(event.pointerId);
    });
    stage.addEventListener("pointermove", (event) => {
      if (held?.pointerId !== event.pointerId) return;
      this.turn((held.clientX - event.clientX) * 0.008, (event.clientY - held.clientY) * 0.008);
      held = event;
    });
    for (const end of ["pointerup", "pointercancel"] as const)
      stage.addEventListener(end, () => (held = null));
    stage.addEventListener("keydown", (event) => {
      const action = this.keys[event.key];
      if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      action();
    });
  }

  private readonly keys: Record<string, () => void> = {
    ArrowLeft: () => this.turn(-0.12, 0),
    ArrowRight: () => this.turn(0.12, 0),
    ArrowUp: () => this.turn(0, 0.12),
    ArrowDown: () => this.turn(0, -0.12),
    "+": () => this.zoom(0.9),
    "=": () => this.zoom(0.9),
    "-": () => this.zoom(1.1),
  };
}

const difference = ([x, y, z]: Vector, [u, v, w]: Vector): Vector => [x - u, y - v, z - w];

function emptyGroup(group: Group): void {
  for (const child of [...group.children]) {
    group.remove(child);
    child.traverse((part) => {
      if (part instanceof Mesh || part instanceof LineSegments2) part.geometry.dispose();
    });
  }
}
