// The colours of series. People who do not see all colours tell these apart, on light and on
// dark; when all are taken, the lines are dashed.

import { theme } from "../theme";

const onLight = ["#0072b2", "#d55e00", "#00825f", "#b0558a", "#8a6d00", "#3a9bd9", "#6f4fc4", "#444444"];
const onDark = ["#56b4e9", "#e69f00", "#2bc49a", "#e79ac4", "#f0e442", "#8fb7ff", "#ff8a65", "#cccccc"];
const dashes: (number[] | undefined)[] = [undefined, [8, 4], [2, 3], [10, 3, 2, 3]];

/** Whether the page is dark. */
function dark(): boolean {
  return theme.value === "dark" || (theme.value === "system" && matchMedia("(prefers-color-scheme: dark)").matches);
}

/** Returns the colour of a series. */
export function colourOf(i: number): string {
  const colours = dark() ? onDark : onLight;
  return colours[i % colours.length]!;
}

/** Returns the lengths of the dashes and gaps of a series' line; undefined: it has no gaps. */
export function dashOf(i: number): number[] | undefined {
  return dashes[Math.floor(i / onLight.length) % dashes.length];
}
