// SPDX-License-Identifier: Apache-2.0
//
// Builds the page into dist, or with --tests the tests into build/test.
import { cpSync, rmSync } from "node:fs";
import { build } from "esbuild";

const common = { bundle: true, target: "es2022", format: "esm", logLevel: "warning" };

if (process.argv.includes("--tests")) {
  rmSync("build", { recursive: true, force: true });
  await build({ ...common, entryPoints: ["test/run.ts"], outdir: "build/test", platform: "node", packages: "external" });
} else {
  rmSync("dist", { recursive: true, force: true });
  await build({ ...common, entryPoints: ["src/main.tsx"], outdir: "dist", minify: true });
  cpSync("static", "dist", { recursive: true });
}
