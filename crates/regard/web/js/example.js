// Example inputs, used until the user gives another.

export const exampleText = "The film was not good at all, but the cast was wonderful and the ending moved me.";

/** An example picture as a data URL: a house on a hill under the sun, or a seven for models of digits. */
export function examplePicture(grey = false) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 224;
  const context = canvas.getContext("2d");
  if (grey) {
    context.fillRect(0, 0, 224, 224);
    Object.assign(context, { strokeStyle: "white", lineWidth: 20, lineCap: "round", lineJoin: "round" });
    context.beginPath();
    for (const [x, y] of [[64, 62], [158, 62], [98, 172]]) context.lineTo(x, y);
    context.stroke();
    return canvas.toDataURL("image/png");
  }
  const paint = (colour, draw) => {
    context.fillStyle = colour;
    context.beginPath();
    draw();
    context.fill();
  };
  const shape = (...points) => points.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
  paint("#9ecae8", () => context.rect(0, 0, 224, 224));
  paint("#f7d54a", () => context.arc(178, 44, 24, 0, 7));
  paint("#5f9b4a", () => context.ellipse(112, 232, 190, 90, 0, 0, 7));
  paint("#c9553d", () => shape([56, 112], [100, 72], [144, 112]));
  paint("#f2e6d0", () => context.rect(66, 112, 68, 62));
  paint("#6b4a2f", () => context.rect(92, 134, 18, 40));
  paint("#6b4a2f", () => context.rect(176, 140, 8, 40));
  paint("#2f6b3a", () => context.arc(180, 128, 22, 0, 7));
  return canvas.toDataURL("image/png");
}
