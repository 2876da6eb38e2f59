import { scaleLinear } from 'd3-scale';

/*
 * Blue to yellow, as cividis (Nunez, Anderton, Renslow 2018): people with any colour blindness see the same order, and
 * lightness alone carries it. "More" is what stands out from the page: light in the dark, dark on paper.
 */
const STOPS = {
  dark: ['#151a24', '#22345c', '#4f576d', '#8c8468', '#d8b04a', '#ffeca0'],
  light: ['#f8f5ea', '#eddc9c', '#c4b06f', '#858069', '#4c566f', '#10234d'],
};
const SIZE = 256;
const LOG_FLOOR = 1e-4;

/** @typedef {Uint32Array} Palette  256 colours as RGBA bytes, least to most */

/** @type {Map<string, Palette>} */
const made = new Map();

/**
 * @param {'light' | 'dark'} theme
 * @returns {Palette}
 */
export function palette(theme) {
  let colours = made.get(theme);
  if (!colours) {
    colours = makePalette(STOPS[theme]);
    made.set(theme, colours);
  }
  return colours;
}

/** @param {string[]} stops */
function makePalette(stops) {
  const at = stops.map((_, i) => i / (stops.length - 1));
  const scale = /** @type {import('d3-scale').ScaleLinear<string, string>} */ (scaleLinear(at, stops));
  const bytes = new Uint8ClampedArray(SIZE * 4);
  for (let i = 0; i < SIZE; i++) {
    const [r, g, b] = (scale(i / (SIZE - 1)).match(/\d+/g) ?? []).map(Number);
    bytes.set([r, g, b, 255], i * 4);
  }
  return new Uint32Array(bytes.buffer);
}

/**
 * Where a weight lies on the colour scale.
 * @param {number} w      attention weight
 * @param {number} top    weight at the upper end of the scale
 * @param {'linear' | 'log'} scale
 * @returns {number} in [0, 1]
 */
export function share(w, top, scale) {
  if (!(w > 0) || !(top > 0)) return 0;
  const x = scale === 'log' ? 1 - Math.log(w / top) / Math.log(LOG_FLOOR / top) : w / top;
  return Math.min(1, Math.max(0, x));
}

/**
 * @param {Palette} colours
 * @param {number} x  in [0, 1]
 * @returns {number} RGBA as it lies in an ImageData
 */
export function pixel(colours, x) {
  return colours[Math.round(x * (SIZE - 1))];
}

/**
 * @param {Palette} colours
 * @param {number} x  in [0, 1]
 * @returns {{ css: string, light: boolean }} the colour, and whether dark text reads better on it
 */
export function css(colours, x) {
  const v = pixel(colours, x);
  const [r, g, b] = [v & 255, (v >> 8) & 255, (v >> 16) & 255];
  return { css: `rgb(${r} ${g} ${b})`, light: 0.299 * r + 0.587 * g + 0.114 * b > 128 };
}

/** The least weight that a logarithmic scale shows. */
export const logFloor = LOG_FLOOR;
