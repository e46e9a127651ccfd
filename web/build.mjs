// Builds the page into the Python package, and holds it to its size.
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const LIMIT_KB = 250;
const web = dirname(fileURLToPath(import.meta.url));
const source = (name) => join(web, "src", name);
const installed = (name) => join(web, "node_modules", name);
const out = join(web, "..", "src", "fivestar", "server", "static");

rmSync(out, { recursive: true, force: true });
mkdirSync(join(out, "swagger"), { recursive: true });

const common = { bundle: true, minify: true, target: "es2022", legalComments: "none", logLevel: "warning" };
await build({
  ...common,
  entryPoints: { app: source("main.ts") },
  outdir: out,
  format: "esm",
  splitting: true,
  chunkNames: "chunks/[name]-[hash]",
});
await build({
  ...common,
  entryPoints: { "theme-early": source("theme-early.ts"), docs: source("docs.ts") },
  outdir: out,
  format: "iife",
});
await build({
  ...common,
  entryPoints: { style: source("style.css") },
  outdir: out,
  external: ["/static/*"],
});

for (const name of ["index.html", "docs.html", "icon.svg"]) cpSync(source(name), join(out, name));
cpSync(
  installed("@fontsource/newsreader/files/newsreader-latin-500-normal.woff2"),
  join(out, "newsreader.woff2"),
);
cpSync(installed("@fontsource/newsreader/LICENSE"), join(out, "newsreader.LICENSE.txt"));
cpSync(installed("three/LICENSE"), join(out, "three.LICENSE.txt"));
for (const name of [
  "swagger-ui-bundle.js",
  "swagger-ui-bundle.js.LICENSE.txt",
  "swagger-ui.css",
  "LICENSE",
  "NOTICE",
]) {
  cpSync(installed(`swagger-ui-dist/${name}`), join(out, "swagger", name));
}

const isPage = (name) => !name.startsWith("swagger") && !name.startsWith("docs") && !name.endsWith(".txt");
const files = readdirSync(out, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
let total = 0;
for (const entry of files) {
  const path = join(entry.parentPath ?? entry.path, entry.name);
  const name = relative(out, path);
  if (!isPage(name)) continue;
  const size = gzipSync(readFileSync(path), { level: 9 }).length / 1000;
  total += size;
  console.log(`${size.toFixed(1).padStart(7)} kB  ${name}`);
}
console.log(`${total.toFixed(1).padStart(7)} kB  gzipped in all (at most ${LIMIT_KB})`);
if (total > LIMIT_KB) {
  console.error(`The page is larger than ${LIMIT_KB} kB.`);
  process.exit(1);
}
