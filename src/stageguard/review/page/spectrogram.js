// The spectrogram of the whole night, a picture below the lanes of the overview.

import { bytesOf } from "./night.js";

export const SPECTROGRAM_HEIGHT = 48;

/** Return the server's bytes as an offscreen picture. */
export function pictureOf(answer) {
  const { columns, rows } = answer;
  const values = bytesOf(answer.values);
  const canvas = document.createElement("canvas");
  canvas.width = columns;
  canvas.height = rows;
  const ctx = canvas.getContext("2d");
  const image = ctx.createImageData(columns, rows);
  for (let row = 0; row < rows; row += 1) {
    for (let column = 0; column < columns; column += 1) {
      const at = 4 * ((rows - 1 - row) * columns + column);
      image.data.set(heat(values[row * columns + column] / 255), at);
    }
  }
  ctx.putImageData(image, 0, 0);
  return { canvas, hz: answer.hz, channel: answer.channel };
}

// From dark violet through red to pale yellow, with steadily growing brightness.
const HEAT = [[13, 8, 35], [74, 16, 98], [151, 38, 101], [216, 78, 62], [248, 154, 42], [250, 240, 164]];

function heat(value) {
  const place = Math.min(0.9999, Math.max(0, value)) * (HEAT.length - 1);
  const low = Math.floor(place);
  return [0, 1, 2].map((i) => HEAT[low][i] + (place - low) * (HEAT[low + 1][i] - HEAT[low][i])).concat(255);
}

export function paintSpectrogram(ctx, picture, span, y, theme) {
  ctx.imageSmoothingEnabled = true;
  ctx.drawImage(picture.canvas, span.x, y, span.width, SPECTROGRAM_HEIGHT);
  ctx.fillStyle = theme.grey;
  ctx.font = "10px sans-serif";
  ctx.textAlign = "right";
  ctx.textBaseline = "middle";
  ctx.fillText(`${picture.hz[1]} Hz`, span.x - 5, y + 6);
  ctx.fillText(String(picture.hz[0]), span.x - 5, y + SPECTROGRAM_HEIGHT - 6);
  ctx.fillStyle = theme.ink;
  ctx.textAlign = "left";
  ctx.font = "12px sans-serif";
  if (span.x > 60) ctx.fillText(picture.channel || "Spectrum", 2, y + SPECTROGRAM_HEIGHT / 2, span.x - 6);
}
