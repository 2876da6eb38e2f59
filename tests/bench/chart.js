// The README's picture: rates of every engine as bars, from the figures of a run.
import { median } from './stats.js';

/** @typedef {import('./report.js').Figure} Figure */

const width = 760;
const bar = { x: 190, width: 470, height: 20, step: 28 };

const style = `
  text { font: 13px system-ui, sans-serif; fill: #1f2328 }
  .title { font-weight: 600; font-size: 15px }
  .note { font-size: 12px; fill: #59636e }
  .ours { fill: #c2570c } .peer { fill: #818b98 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .note { fill: #9198a1 } .ours { fill: #f0883e } .peer { fill: #6e7681 }
  }`;

/** @param {string} text */
const escape = (text) => text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;');

/** @param {Figure} figure @param {number} top @returns {{ svg: string, height: number }} */
function panel(figure, top) {
  const series = figure.series.filter(({ values }) => values.length);
  series.sort((a, b) => median(b.values) - median(a.values));
  const most = median(series[0].values);
  const bars = series.map(({ name, ours, values }, i) => {
    const value = median(values);
    const y = top + 24 + i * bar.step;
    const length = Math.max(1, (bar.width * value) / most);
    return [
      `<text x="${bar.x - 10}" y="${y + 15}" text-anchor="end">${escape(name)}</text>`,
      `<rect class="${ours ? 'ours' : 'peer'}" x="${bar.x}" y="${y}" width="${length.toFixed(1)}" height="${bar.height}" rx="3"/>`,
      `<text x="${(bar.x + length + 8).toFixed(1)}" y="${y + 15}">${value.toFixed(value < 100 ? 1 : 0)}</text>`,
    ].join('\n');
  });
  const title = `<text class="title" x="10" y="${top + 12}">${escape(figure.title)}, ${escape(figure.unit)}</text>`;
  return { svg: [title, ...bars].join('\n'), height: 24 + series.length * bar.step + 20 };
}

/**
 * @param {Figure[]} figures panels, from top to bottom
 * @param {string} note below them: machine and date
 * @returns {string} SVG
 */
export function drawChart(figures, note) {
  let top = 16;
  const panels = figures.map((figure) => {
    const { svg, height } = panel(figure, top);
    top += height;
    return svg;
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${top + 16}" role="img" aria-label="Tokens per second">`,
    `<style>${style}\n</style>`,
    ...panels,
    `<text class="note" x="10" y="${top + 4}">${escape(note)}</text>`,
    '</svg>\n',
  ].join('\n');
}
