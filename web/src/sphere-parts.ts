/** Parts of the sphere: circles, the veil in front of its far side, arrowheads. */
import {
  Color,
  ConeGeometry,
  InstancedMesh,
  Matrix4,
  MeshBasicMaterial,
  Quaternion,
  ShaderMaterial,
  Vector3,
} from "three";
import { LineSegmentsGeometry } from "three/examples/jsm/lines/LineSegmentsGeometry.js";
import { cssColor } from "./dom";
import type { Vector } from "./mobius";

/** Convert to the axes of three.js (y up). */
export const toScene = ([x, y, z]: Vector, radius = 1): Vector3 =>
  new Vector3(x * radius, z * radius, -y * radius);

/** Lines through points, as one geometry. */
export function segments(lines: Vector3[][]): LineSegmentsGeometry {
  const ends: number[] = [];
  for (const line of lines) {
    for (const [number, to] of line.entries()) {
      const from = line[number - 1];
      if (from) ends.push(from.x, from.y, from.z, to.x, to.y, to.z);
    }
  }
  const geometry = new LineSegmentsGeometry();
  if (ends.length > 0) geometry.setPositions(ends);
  return geometry;
}

const angles = Array.from({ length: 97 }, (_, number) => (number / 96) * 2 * Math.PI);

/** The circle of a latitude. */
export function circleAt(latitude: number): Vector3[] {
  return angles.map((t) =>
    toScene([Math.cos(latitude) * Math.cos(t), Math.cos(latitude) * Math.sin(t), Math.sin(latitude)]),
  );
}

export const parallels = (): Vector3[][] =>
  [-60, -30, 30, 60].map((degrees) => circleAt((degrees * Math.PI) / 180));

export function meridian(longitude: number): Vector3[] {
  return angles.map((t) =>
    toScene([Math.cos(t) * Math.cos(longitude), Math.cos(t) * Math.sin(longitude), Math.sin(t)]),
  );
}

export function meridians(each: number): Vector3[][] {
  return Array.from({ length: 180 / each }, (_, number) => meridian((number * each * Math.PI) / 180));
}

/** The veil that dims the far side: clear in the middle, with a brighter rim. */
export function veilMaterial(): ShaderMaterial {
  return new ShaderMaterial({
    transparent: true,
    uniforms: {
      core: { value: new Color(cssColor("--globe")) },
      rim: { value: new Color(cssColor("--globe-rim")) },
    },
    vertexShader: `varying vec3 n; varying vec3 v;
      void main() {
        vec4 seen = modelViewMatrix * vec4(position, 1.0);
        n = normalize(normalMatrix * normal); v = normalize(-seen.xyz);
        gl_Position = projectionMatrix * seen;
      }`,
    fragmentShader: `uniform vec3 core; uniform vec3 rim; varying vec3 n; varying vec3 v;
      void main() {
        float edge = pow(1.0 - abs(dot(normalize(n), normalize(v))), 2.2);
        gl_FragColor = vec4(mix(core, rim, edge), 0.84);
        #include <colorspace_fragment>
      }`,
  });
}

/** Arrowheads in the middle of lines: the direction of the flow without motion. */
export function arrowheads(lines: Vector[][], color: Color): InstancedMesh {
  const long = lines.filter((line) => line.length > 10);
  const mesh = new InstancedMesh(
    new ConeGeometry(0.016, 0.055, 10),
    new MeshBasicMaterial({ color: color }),
    long.length,
  );
  const up = new Vector3(0, 1, 0);
  for (const [number, line] of long.entries()) {
    const middle = Math.floor(line.length / 2);
    const [from, to] = [line[middle - 1], line[middle + 1]];
    if (!from || !to) continue;
    const [start, end] = [toScene(from, 1.008), toScene(to, 1.008)];
    const turn = new Quaternion().setFromUnitVectors(up, end.clone().sub(start).normalize());
    mesh.setMatrixAt(number, new Matrix4().compose(start.lerp(end, 0.5), turn, new Vector3(1, 1, 1)));
  }
  mesh.name = "arrows";
  mesh.renderOrder = 3;
  return mesh;
}
