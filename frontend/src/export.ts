// What is shown, as a file: CSV, JSON, PNG and SVG.

import type { Plot, View } from './chart';
import { ticks } from './format';
import { colour } from './theme';

export function save(name: string, type: string, content: BlobPart): void {
  const address = URL.createObjectURL(new Blob([content], { type }));
  const anchor = document.createElement('a');
  anchor.href = address;
  anchor.download = name.replace(/[^\w.=,+-]+/g, '_').slice(0, 120);
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

type Cell = string | number | null | undefined;

function csvCell(cell: Cell): string {
  if (cell === null || cell === undefined || (typeof cell === 'number' && Number.isNaN(cell))) return '';
  // A cell that begins like a formula would be run by a spreadsheet.
  const text = typeof cell === 'string' && /^[=+\-@\t\r]/.test(cell) ? `'${cell}` : String(cell);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function saveCsv(name: string, head: string[], rows: Cell[][]): void {
  save(`${name}.csv`, 'text/csv', [head, ...rows].map((row) => row.map(csvCell).join(',')).join('\n') + '\n');
}

export function saveJson(name: string, value: unknown): void {
  save(`${name}.json`, 'application/json', JSON.stringify(value, null, 1));
}

export function savePng(name: string, box: Element | null): void {
  const canvas = box?.querySelector('canvas');
  if (!canvas) return;
  const copy = document.createElement('canvas');
  copy.width = canvas.width;
  copy.height = canvas.height;
  const ctx = copy.getContext('2d') as CanvasRenderingContext2D;
  ctx.fillStyle = colour('card');
  ctx.fillRect(0, 0, copy.width, copy.height);
  ctx.drawImage(canvas, 0, 0);
  copy.toBlob((blob) => blob && save(`${name}.png`, 'image/png', blob));
}

const DRAWN_BY = ['fill', 'fill-opacity', 'stroke', 'stroke-width', 'stroke-dasharray', 'opacity', 'font-size', 'font-family', 'text-anchor', 'paint-order'];

/** A drawing of the page as a file: what the style sheet says of its parts is written into them. */
export function saveDrawing(name: string, drawing: SVGSVGElement): void {
  const copy = drawing.cloneNode(true) as SVGSVGElement;
  const [shown, parts] = [drawing, copy].map((root) => [root, ...root.querySelectorAll<SVGElement>('*')]);
  parts.forEach((part, at) => {
    const style = getComputedStyle(shown[at]);
    for (const property of DRAWN_BY) part.setAttribute(property, style.getPropertyValue(property));
    part.removeAttribute('class');
  });
  copy.querySelectorAll('a').forEach((link) => link.removeAttribute('href'));
  copy.setAttribute('xmlns', 'http://www.w3.org/2000/svg');
  save(`${name}.svg`, 'image/svg+xml', new XMLSerializer().serializeToString(copy));
}

const escaped = (text: string) => text.replace(/[&<>"]/g, (found) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[found] as string);

/** The chart as a drawing that can be enlarged. */
export function saveSvg(name: string, title: string, plot: Plot, view: View): void {
  save(`${name}.svg`, 'image/svg+xml', svgOf(title, plot, view));
}

const [WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM] = [960, 420, 90, 40, 20, 40];

export function svgOf(title: string, plot: Plot, view: View): string {
  const places = [...Array(plot.x.length).keys()].filter((at) => plot.x[at] >= (view.from ?? -Infinity) && plot.x[at] <= (view.to ?? Infinity));
  const shown = plot.lines.flatMap((line) => places.map((at) => line.values[at]).filter((value): value is number => value !== null));
  const [minY, maxY] = shown.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
  const [minX, maxX] = places.length ? [plot.x[places[0]], plot.x[places[places.length - 1]]] : [0, 1];
  const scale = (value: number) => (view.log ? Math.log(value) : value);
  const low = scale(view.zero && !view.log ? Math.min(0, minY) : minY);
  const span = scale(maxY) - low || 1;
  const x = (value: number) => LEFT + ((value - minX) / (maxX - minX || 1)) * (WIDTH - LEFT - RIGHT);
  const y = (value: number) => HEIGHT - BOTTOM - ((scale(value) - low) / span) * (HEIGHT - TOP - BOTTOM);
  const parts = [`<rect width="${WIDTH}" height="${HEIGHT}" fill="${colour('card')}"/>`, `<text x="${LEFT}" y="22" font-weight="600">${escaped(title)}</text>`];
  const named = ticks([0, 1, 2, 3, 4].map((tick) => low + (span * tick) / 4).map((value) => (view.log ? Math.exp(value) : value)), plot.unit);
  for (let tick = 0; tick <= 4; tick++) {
    const value = low + (span * tick) / 4;
    const shownValue = view.log ? Math.exp(value) : value;
    const at = y(shownValue);
    parts.push(`<line x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${at}" y2="${at}" stroke="${colour('grid')}"/>`);
    parts.push(`<text x="${LEFT - 8}" y="${at + 4}" text-anchor="end">${escaped(named[tick])}</text>`);
    const place = minX + ((maxX - minX) * tick) / 4;
    parts.push(`<text x="${x(place)}" y="${HEIGHT - 14}" text-anchor="middle">${escaped(plot.label(plot.isTime ? place : Math.round(place)))}</text>`);
  }
  for (const change of plot.changes) {
    const tone = colour(change.verdict === 'better' ? 'better' : 'worse');
    parts.push(`<rect x="${x(change.from)}" y="${TOP}" width="${Math.max(x(change.to) - x(change.from), 2)}" height="${HEIGHT - TOP - BOTTOM}" fill="${tone}" opacity=".18"/>`);
    parts.push(`<text x="${x(change.to) + 4}" y="${TOP + 12}" fill="${tone}">${escaped(change.label)}</text>`);
  }
  for (const line of plot.lines) {
    const points = places.filter((at) => line.values[at] !== null).map((at) => `${x(plot.x[at]).toFixed(1)},${y(line.values[at] as number).toFixed(1)}`);
    parts.push(`<polyline points="${points.join(' ')}" fill="none" stroke="${colour(line.colour)}" stroke-width="1.6"/>`);
  }
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="12" fill="${colour('ink')}">${parts.join('')}</svg>`;
}
