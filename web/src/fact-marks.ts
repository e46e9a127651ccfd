/** Facts of the graph in one dimension: their points along the flow, and as marks on the sphere. */
import {
  Color,
  Group,
  InstancedMesh,
  Matrix4,
  MeshBasicMaterial,
  Quaternion,
  SphereGeometry,
  TorusGeometry,
  Vector3,
} from "three";
import type { LineMaterial } from "three/examples/jsm/lines/LineMaterial.js";
import { LineSegments2 } from "three/examples/jsm/lines/LineSegments2.js";
import { cssColor } from "./dom";
import type { FactsInFlow } from "./facts-in-flow";
import { onSphere } from "./mobius";
import { segments, toScene } from "./sphere-parts";

const RADIUS = 1.012;
const NORMAL_SIZE = 1;
const ANSWER_SIZE = 1.5;
// Points of the path of a head.
const SAMPLES = 40;
const FORWARD = new Vector3(0, 0, 1);

export class FactMarks {
  readonly group = new Group();
  private readonly heads: InstancedMesh[];

  constructor(
    private readonly facts: FactsInFlow,
    lines: LineMaterial,
  ) {
    const count = facts.rows.length;
    const marks = (geometry: SphereGeometry | TorusGeometry, color: string): InstancedMesh[] =>
      // Twice: behind the veil for the far side, in front of it for the near side.
      [0, 5].map((order) => {
        const material = new MeshBasicMaterial({ color: new Color(cssColor(color)) });
        const mesh = new InstancedMesh(geometry, material, count);
        mesh.renderOrder = order;
        mesh.frustumCulled = false;
        this.group.add(mesh);
        return mesh;
      });
    const targets = marks(new TorusGeometry(0.03, 0.009, 8, 28), "--second");
    this.heads = marks(new SphereGeometry(0.024, 18, 12), "--ink");
    for (const mesh of targets)
      for (const [number, { target }] of facts.rows.entries())
        mesh.setMatrixAt(number, this.matrix(number, toScene(onSphere(target), RADIUS)));
    this.drawPaths(lines);
    this.move(0);
  }

  /** Place the heads at a power of the map; those that land nearest their own tail change color. */
  move(s: number): void {
    const [head, landed] = [new Color(cssColor("--accent")), new Color(cssColor("--known"))];
    for (const mesh of this.heads) {
      for (const [number, place] of this.facts.at(s).entries()) {
        mesh.setMatrixAt(number, this.matrix(number, toScene(onSphere(place), RADIUS)));
        mesh.setColorAt(number, s >= 1 && this.facts.rows[number]?.fact.lands ? landed : head);
      }
      (mesh.material as MeshBasicMaterial).color.setRGB(1, 1, 1);
      mesh.instanceMatrix.needsUpdate = true;
      if (mesh.instanceColor) mesh.instanceColor.needsUpdate = true;
    }
  }

  private matrix(number: number, place: Vector3): Matrix4 {
    const size = this.facts.rows[number]?.fact.is_answer ? ANSWER_SIZE : NORMAL_SIZE;
    const outward = new Quaternion().setFromUnitVectors(FORWARD, place.clone().normalize());
    return new Matrix4().compose(place, outward, new Vector3(size, size, size));
  }

  /** The paths of the heads to their images. */
  private drawPaths(material: LineMaterial): void {
    const times = Array.from({ length: SAMPLES + 1 }, (_, number) => number / SAMPLES);
    const places = times.map((s) => this.facts.at(s).map((at) => toScene(onSphere(at), 1.006)));
    const paths = this.facts.rows.map((_, row) => places.flatMap((all) => all[row] ?? []));
    const geometry = segments(paths);
    for (const order of [0, 4]) {
      const path = new LineSegments2(geometry, material);
      path.renderOrder = order;
      this.group.add(path);
    }
  }
}
