import { expect, test } from "vitest";
import { fromOthers } from "./links";

const place = (link: string) => {
  const [page = "", params = ""] = link.split("?");
  const { page: to, params: found } = fromOthers({ page, params: new URLSearchParams(params) });
  return [to, Object.fromEntries(found)];
};

test("links of Prometheus and VictoriaMetrics", () => {
  expect(place("?g0.expr=sum(up)+%3E+1&g0.tab=1")).toEqual(["explore", { lang: "promql", q: "sum(up) > 1", view: "table" }]);
  expect(place("?g0.expr=up&g0.range_input=1h&g0.tab=0")).toEqual(["explore", { lang: "promql", q: "up", from: "now-3600s" }]);
  expect(place("?g0.expr=up&g0.range_input=1d12h30m&db=telegraf")).toEqual(["explore", { lang: "promql", q: "up", db: "telegraf", from: "now-131400s" }]);
  for (const end of ["2026-01-05 12:00:00", "2026-01-05T12:00", "2026-01-05T12:00:00Z", "1767614400", "2026-01-05T14:00:00+02:00"]) {
    expect(place(`?${new URLSearchParams({ "g0.expr": "up", "g0.range_input": "30m", "g0.end_input": end })}`), end).toEqual(["explore", { lang: "promql", q: "up", from: "2026-01-05T11:30:00.000Z", to: "2026-01-05T12:00:00.000Z" }]);
  }
  expect(place("?g0.expr=up&g0.range_input=soon&g0.end_input=later")).toEqual(["explore", { lang: "promql", q: "up" }]);
});

test("a link of this page stays", () => {
  expect(place("server")).toEqual(["server", {}]);
  expect(place("explore?q=up")).toEqual(["explore", { q: "up" }]);
});
