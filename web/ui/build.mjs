// Builds the page into ../dist, each file compressed with gzip, and the licenses of
// the packages in it into ../LICENSES.md. With --check it compares the build with
// what is there. The content is compared, not the compressed bytes: those depend on
// the version of node.
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";

process.chdir(import.meta.dirname);
execFileSync("npx", ["tsc", "--noEmit"], { stdio: "inherit" });
execFileSync("npx", ["vite", "build", "--logLevel", "warn"], { stdio: "inherit" });

const list = (dir) => readdirSync(dir, { recursive: true, withFileTypes: true }).filter((f) => f.isFile()).map((f) => join(f.parentPath, f.name).slice(dir.length + 1)).sort();
const licenses = "licenses.md"; // of vite.config.ts
const names = list("build").filter((name) => name !== licenses);
const dist = "../dist";
let size = 0;
if (process.argv.includes("--check")) {
  const there = list(dist).map((name) => name.replace(/\.gz$/, ""));
  const differ = [...new Set([...names, ...there])].filter((name) => {
    if (!names.includes(name) || !there.includes(name)) return true;
    return !gunzipSync(readFileSync(join(dist, name + ".gz"))).equals(readFileSync(join("build", name)));
  });
  if (!readFileSync("../LICENSES.md").equals(readFileSync(join("build", licenses)))) differ.push("LICENSES.md");
  if (differ.length > 0) {
    console.error("the built files are not those of the sources, run make ui:", differ.join(", "));
    process.exit(1);
  }
} else {
  renameSync(join("build", licenses), "../LICENSES.md");
  rmSync(dist, { recursive: true, force: true });
  for (const name of names) {
    const packed = gzipSync(readFileSync(join("build", name)), { level: 9 });
    size += packed.length;
    mkdirSync(dirname(join(dist, name)), { recursive: true });
    writeFileSync(join(dist, name + ".gz"), packed);
  }
  console.log(`${names.length} files, ${size} bytes of gzip`);
  if (size > 300_000) {
    console.error("that is more than 300,000 bytes");
    process.exit(1);
  }
}
