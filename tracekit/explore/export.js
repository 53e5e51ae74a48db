// export.js: saving a view as it is drawn (in light colours) or its numbers.

const EXPORT_WIDTH = 760;

function csvCell(value) {
  if (typeof value === "number") return Number.isFinite(value) ? String(Number(value.toPrecision(10))) : "";
  let text = wellFormed(value);
  if (/^[=+\-@\t\r]/.test(text)) text = `'${text}`; // a spreadsheet must not take a label for a formula
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

const makers = {
  svg(view, scene) {
    const pen = new SvgPen(EXPORT_WIDTH, view.height, LIGHT);
    view.draw(pen, EXPORT_WIDTH, view.height, { ...scene, boxes: new Map() });
    return new Blob([pen.markup], { type: "image/svg+xml" });
  },
  png(view, scene) {
    const canvas = document.createElement("canvas");
    view.draw(new CanvasPen(canvas, EXPORT_WIDTH, view.height, LIGHT, 2.5), EXPORT_WIDTH, view.height, {
      ...scene,
      boxes: new Map(),
    });
    return new Promise((done) => canvas.toBlob(done, "image/png"));
  },
  csv(view, scene) {
    return new Blob(
      [
        view
          .table(scene)
          .map((row) => row.map(csvCell).join(","))
          .join("\n"),
        "\n",
      ],
      { type: "text/csv" },
    );
  },
};

async function save(view, scene, kind) {
  const blob = await makers[kind](view, scene);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = `${view.id}.${kind}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
