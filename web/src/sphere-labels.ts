/** The texts over the sphere: labels of its points, and names of entities where there is room. */
import { type PerspectiveCamera, Vector3 } from "three";
import { h } from "./dom";
import { entityName } from "./parts";
import type { FactsInFlow } from "./facts-in-flow";
import { type Box, type Label, type Place, placeLabels } from "./labels";
import { onSphere, type Vector } from "./mobius";
import { toScene } from "./sphere-parts";

// Pixels between a point and its name; the answer and fixed points have larger marks.
const GAP = 9;
const ANSWER_GAP = 15;
const FIXED_GAP = 21;
const NAME_RADIUS = 1.012;

interface Tag {
  element: HTMLElement;
  place: Vector3;
}

interface Name extends Tag {
  /** The fact and its end that has the name; null for a fixed point. */
  of: { row: number; end: "head" | "tail" } | null;
  gap: number;
  size: readonly [number, number] | null;
}

export class SphereLabels {
  readonly element = h("div", { class: "sphere-labels", "aria-hidden": "true" });
  private tags: Tag[] = [];
  private names: Name[] = [];
  private places: (Place | null)[] = [];

  /** Label the poles and the equator, and name the ends of facts. */
  show(facts: FactsInFlow): void {
    this.tags = [];
    this.names = [];
    this.places = [];
    this.element.replaceChildren();
    for (const [text, place] of axisLabels(facts.given.scale)) {
      const element = h("span", { class: "sphere-label" }, text);
      this.element.append(element);
      this.tags.push({ element, place: toScene(place, 1.13) });
    }
    const named = new Set<string>();
    for (const [row, { fact }] of facts.rows.entries()) {
      for (const end of ["head", "tail"] as const) {
        if (named.has(`${end} ${fact[end].id}`)) continue;
        named.add(`${end} ${fact[end].id}`);
        const classes = `name-label ${end}-label${fact.is_answer ? " answer-label" : ""}`;
        const element = h("span", { class: classes }, entityName(fact[end]));
        this.element.append(element);
        const gap = fact.is_answer ? ANSWER_GAP : GAP;
        this.names.push({ element, place: new Vector3(), of: { row, end }, gap, size: null });
      }
    }
  }

  /** Name a fixed point: after the answer, before other facts. */
  showFixed(text: string, place: Vector): void {
    const element = h("span", { class: "name-label fixed-label" }, text);
    this.element.append(element);
    const after = Math.max(0, this.names.findIndex(({ gap }) => gap !== ANSWER_GAP));
    this.names.splice(after, 0, { element, place: toScene(place, NAME_RADIUS), of: null, gap: FIXED_GAP, size: null });
  }

  /** Follow the heads to where they are at a power of the map. */
  move(facts: FactsInFlow, s: number): void {
    const heads = facts.at(s);
    for (const { place, of } of this.names) {
      const at = of && (of.end === "head" ? heads[of.row] : facts.rows[of.row]?.target);
      if (at) place.copy(toScene(onSphere(at), NAME_RADIUS));
    }
  }

  /** Place all texts as the camera sees them; names on the far side are hidden. */
  place(camera: PerspectiveCamera, width: number, height: number): void {
    const project = (place: Vector3): readonly [number, number] => {
      const seen = place.clone().project(camera);
      return [((seen.x + 1) / 2) * width, ((1 - seen.y) / 2) * height];
    };
    const obstacles: Box[] = [];
    for (const { element, place } of this.tags) {
      const [x, y] = project(place);
      const isFar = place.dot(camera.position) < 1;
      const [wide, high] = [element.offsetWidth / 2, element.offsetHeight / 2];
      if (!isFar) obstacles.push([x - wide, y - high, x + wide, y + high]);
      element.classList.toggle("far", isFar);
      element.style.transform = `translate(-50%, -50%) translate(${x}px, ${y}px)`;
    }
    const labels = this.names.map((name): Label | null => {
      if (name.place.dot(camera.position) < 1.05) return null;
      name.size ??= [name.element.offsetWidth, name.element.offsetHeight];
      const [x, y] = project(name.place);
      return { x, y, width: name.size[0], height: name.size[1], gap: name.gap };
    });
    this.places = placeLabels(labels, width, height, this.places, obstacles);
    for (const [number, { element }] of this.names.entries()) {
      const place = this.places[number];
      element.style.visibility = place ? "visible" : "hidden";
      if (place) element.style.transform = `translate(${place.left}px, ${place.top}px)`;
    }
  }
}

/** The labels of the poles, and of the equator at the modulus `scale`. */
function axisLabels(scale: number): [string, Vector][] {
  const size = Number(scale.toPrecision(2));
  return [
    ["0", [0, 0, -1]],
    ["∞", [0, 0, 1]],
    [String(size), [1, 0, 0]],
    [`−${size}`, [-1, 0, 0]],
    [`${size}i`, [0, 1, 0]],
    [`−${size}i`, [0, -1, 0]],
  ];
}
