import { defineConfig } from "vitest/config";

// The page is served at / and its files below /ui/, maybe behind a prefix: all
// paths are relative. The files are compressed by build.mjs.
export default defineConfig({
  base: "./",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: { outDir: "build", assetsDir: "ui", assetsInlineLimit: 0, target: "es2022", modulePreload: { polyfill: false }, license: { fileName: "licenses.md" } },
  server: { proxy: { "^/(query|write|api|debug|health|ping|metrics)": "http://127.0.0.1:8086" } },
  test: { include: ["src/**/*.test.ts", "src/**/*.test.tsx"], environment: "node" },
});
