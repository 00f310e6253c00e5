// A panel as a picture: its title, its plot, and its series or rows as lines of text.

/** A line below the plot, with the colour of its series. */
export interface Line {
  text: string;
  colour?: string;
}

const lineHeight = 20;

/** Draws a panel. The element gives the plot and the colours. */
export async function pictureOf(element: HTMLElement, title: string, lines: Line[]): Promise<Blob> {
  const css = getComputedStyle(element);
  const plot = element.querySelector<HTMLCanvasElement>(".plot canvas");
  const scale = devicePixelRatio;
  const width = plot === null ? Math.max(300, element.clientWidth) : plot.width / scale;
  const height = plot === null ? 0 : plot.height / scale;
  const canvas = document.createElement("canvas");
  canvas.width = (width + 20) * scale;
  canvas.height = (height + 44 + lines.length * lineHeight) * scale;
  const c = canvas.getContext("2d")!;
  c.scale(scale, scale);
  c.fillStyle = getComputedStyle(document.body).backgroundColor;
  c.fillRect(0, 0, canvas.width, canvas.height);
  c.fillStyle = css.color;
  c.font = "600 15px system-ui, sans-serif";
  c.fillText(title, 10, 22, width);
  if (plot !== null) c.drawImage(plot, 10, 32, width, height);
  c.font = "13px system-ui, sans-serif";
  lines.forEach(({ text, colour }, i) => {
    const y = height + 50 + i * lineHeight;
    if (colour !== undefined) {
      c.fillStyle = colour;
      c.fillRect(10, y - 10, 10, 10);
    }
    c.fillStyle = css.color;
    c.fillText(text, colour === undefined ? 10 : 26, y, width - 20);
  });
  return new Promise((done, fail) => canvas.toBlob((blob) => (blob === null ? fail(new Error("the picture is too large")) : done(blob)), "image/png"));
}
