import { expect, test, vi } from "vitest";

test("a password is in no link", async () => {
  vi.stubGlobal("location", { hash: "" });
  vi.stubGlobal("addEventListener", () => {});
  const { defaults, paramsOf, secret } = await import("./state");
  const text = "CREATE USER ann WITH PASSWORD 'x'";
  expect(secret(text)).toBe(true);
  expect(secret("SELECT passwords FROM m")).toBe(false);
  expect(Object.entries(paramsOf({ ...defaults, text, db: "d" })).filter(([, value]) => value !== "")).toEqual([["db", "d"]]);
});
