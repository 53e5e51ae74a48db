// pen.js: two pens with the same strokes, one for a canvas and one for SVG, so that what is saved is what is drawn.

const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif";

/** Colours after Okabe and Ito, which colour-blind readers can distinguish. */
const LIGHT = {
  paper: "#ffffff",
  ink: "#1f2328",
  quiet: "#57606a",
  line: "#d8dee4",
  pale: "#dfe3e8",
  mark: "#111111",
  series: ["#0072b2", "#d55e00"],
  soft: ["#7fb8d8", "#eaae7f"],
  status: ["#0072b2", "#d55e00", "#e69f00", "#cc79a7", "#56b4e9", "#b9bec4"],
  dark: false,
};
const DARK = {
  paper: "#171c22",
  ink: "#e6eaee",
  quiet: "#a3adb8",
  line: "#343d47",
  pale: "#39424d",
  mark: "#ffffff",
  series: ["#4aa8e0", "#f08a4b"],
  soft: ["#2c6488", "#8f5430"],
  status: ["#3f9fd8", "#f08a4b", "#e6a91e", "#d98fba", "#7cc8f2", "#68727d"],
  dark: true,
};
/** Amounts, from none to most: cividis, which reads the same with and without colour vision. */
const CIVIDIS = [
  [0, 32, 77],
  [0, 48, 111],
  [51, 67, 108],
  [87, 93, 109],
  [112, 113, 115],
  [138, 134, 120],
  [165, 156, 116],
  [195, 179, 105],
  [225, 204, 85],
  [254, 232, 56],
];

function heatColour(share) {
  const place = Math.max(0, Math.min(1, share)) * (CIVIDIS.length - 1);
  const k = Math.min(Math.floor(place), CIVIDIS.length - 2),
    part = place - k;
  return `rgb(${CIVIDIS[k].map((low, c) => Math.round(low + part * (CIVIDIS[k + 1][c] - low))).join(",")})`;
}

class CanvasPen {
  constructor(canvas, width, height, look, ratio) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    this.context = canvas.getContext("2d");
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.look = look;
    this.rect(0, 0, width, height, look.paper);
  }

  rect(x, y, width, height, fill) {
    this.context.fillStyle = fill;
    this.context.fillRect(x, y, width, height);
  }

  line(points, stroke, width = 1, dash = []) {
    const { context } = this;
    context.strokeStyle = stroke;
    context.lineWidth = width;
    context.setLineDash(dash);
    context.lineJoin = "round";
    this.#trace(points);
    context.stroke();
  }

  area(points, fill) {
    this.#trace(points);
    this.context.fillStyle = fill;
    this.context.fill();
  }

  text(
    x,
    y,
    words,
    { size = 11, align = "start", base = "alphabetic", fill = this.look.quiet, bold = false, turn = 0 } = {},
  ) {
    const { context } = this;
    context.font = `${bold ? "600 " : ""}${size}px ${FONT}`;
    context.textAlign = align;
    context.textBaseline = base;
    context.fillStyle = fill;
    if (!turn) {
      context.fillText(words, x, y);
      return;
    }
    context.save();
    context.translate(x, y);
    context.rotate((turn * Math.PI) / 180);
    context.fillText(words, 0, 0);
    context.restore();
  }

  clip(x, y, width, height, draw) {
    this.context.save();
    this.context.beginPath();
    this.context.rect(x, y, width, height);
    this.context.clip();
    draw();
    this.context.restore();
  }

  #trace(points) {
    const { context } = this;
    context.beginPath();
    for (let k = 0; k < points.length; k += 2) {
      if (k) context.lineTo(points[k], points[k + 1]);
      else context.moveTo(points[k], points[k + 1]);
    }
  }
}

const wellFormed = (text) => (String(text).toWellFormed ? String(text).toWellFormed() : String(text));
const escapeXml = (text) =>
  wellFormed(text)
    .replace(/[<>&"']/g, (c) => `&#${c.charCodeAt(0)};`)
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd");
const short = (value) => String(Math.round(value * 100) / 100);

class SvgPen {
  constructor(width, height, look) {
    this.look = look;
    this.parts = [];
    this.size = [width, height];
    this.clips = 0;
    this.rect(0, 0, width, height, look.paper);
  }

  rect(x, y, width, height, fill) {
    if (width > 0 && height > 0)
      this.parts.push(
        `<rect x="${short(x)}" y="${short(y)}" width="${short(width)}" height="${short(height)}" fill="${fill}"/>`,
      );
  }

  line(points, stroke, width = 1, dash = []) {
    const dashes = dash.length ? ` stroke-dasharray="${dash.join(" ")}"` : "";
    this.parts.push(
      `<polyline points="${Array.from(points, short).join(" ")}" fill="none" stroke="${stroke}" stroke-width="${width}"${dashes}/>`,
    );
  }

  area(points, fill) {
    this.parts.push(`<polygon points="${Array.from(points, short).join(" ")}" fill="${fill}"/>`);
  }

  text(
    x,
    y,
    words,
    { size = 11, align = "start", base = "alphabetic", fill = this.look.quiet, bold = false, turn = 0 } = {},
  ) {
    const anchor = { center: "middle", right: "end", end: "end" }[align] || "start";
    const down = { middle: 0.35, top: 0.8 }[base] || 0;
    const rotate = turn ? ` transform="rotate(${turn} ${short(x)} ${short(y)})"` : "";
    this.parts.push(
      `<text x="${short(x)}" y="${short(y + down * size)}" font-size="${size}" text-anchor="${anchor}" fill="${fill}"${bold ? ' font-weight="600"' : ""}${rotate}>${escapeXml(words)}</text>`,
    );
  }

  clip(x, y, width, height, draw) {
    const id = `c${++this.clips}`;
    this.parts.push(
      `<clipPath id="${id}"><rect x="${short(x)}" y="${short(y)}" width="${short(width)}" height="${short(height)}"/></clipPath><g clip-path="url(#${id})">`,
    );
    draw();
    this.parts.push("</g>");
  }

  get markup() {
    const [width, height] = this.size;
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="${FONT.replaceAll("'", "")}">${this.parts.join("\n")}</svg>\n`;
  }
}
