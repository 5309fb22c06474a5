// What is shown, as a file: CSV, JSON, PNG and SVG.

import type { Plot, View } from './chart';
import { plain, ticks } from './format';
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

/** A drawing of the page as a text: what the style sheet says of its parts is written into them. */
export function drawingOf(drawing: SVGSVGElement | null | undefined): string | undefined {
  if (!drawing) return undefined;
  const copy = drawing.cloneNode(true) as SVGSVGElement;
  const [shown, parts] = [drawing, copy].map((root) => [root, ...root.querySelectorAll<SVGElement>('*')]);
  parts.forEach((part, at) => {
    const style = getComputedStyle(shown[at]);
    for (const property of DRAWN_BY) part.setAttribute(property, style.getPropertyValue(property));
    part.removeAttribute('class');
  });
  copy.querySelectorAll('a').forEach((link) => link.removeAttribute('href'));
  copy.setAttribute('xmlns', 'http://www.w3.org/2000/svg');
  return new XMLSerializer().serializeToString(copy);
}

export function saveDrawing(name: string, drawing: string): void {
  save(`${name}.svg`, 'image/svg+xml', drawing);
}

const DOTS_PER_UNIT = 2;
/** Browsers draw no picture that is much larger. */
const MOST_DOTS = 12000;

/** A drawing as dots, on the colour that it stands on. */
export function savePicture(name: string, drawing: string): void {
  const [, , wide, tall] = (/viewBox="([^"]*)"/.exec(drawing)?.[1] ?? '0 0 900 400').split(' ').map(Number);
  const picture = new Image();
  picture.onload = () => {
    const canvas = document.createElement('canvas');
    const dots = Math.min(DOTS_PER_UNIT, MOST_DOTS / Math.max(wide, tall));
    [canvas.width, canvas.height] = [wide * dots, tall * dots];
    const ctx = canvas.getContext('2d') as CanvasRenderingContext2D;
    ctx.fillStyle = colour('card');
    ctx.fillRect(0, 0, canvas.width, canvas.height);
    ctx.drawImage(picture, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => blob && save(`${name}.png`, 'image/png', blob));
  };
  // Without a size of its own a drawing has none in some browsers.
  const sized = drawing.replace('<svg ', `<svg width="${wide}" height="${tall}" `);
  picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(sized)}`;
}

export const escaped = (text: string) => plain(text).replace(/[&<>"]/g, (found) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[found] as string);

/** The chart as a drawing that can be enlarged. */
export function saveSvg(name: string, title: string, plot: Plot, view: View): void {
  save(`${name}.svg`, 'image/svg+xml', svgOf(title, plot, view));
}

const [WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM] = [960, 420, 90, 56, 24, 40];

interface Scales {
  x: (value: number) => number;
  y: (value: number) => number;
}

/** The same as the chart shows: bands, lines, levels, what changed, what failed. */
export function svgOf(title: string, plot: Plot, view: View): string {
  const places = [...Array(plot.x.length).keys()].filter((at) => plot.x[at] >= (view.from ?? -Infinity) && plot.x[at] <= (view.to ?? Infinity));
  const [minY, maxY] = reach(plot, places, view);
  const [minX, maxX] = places.length ? [plot.x[places[0]], plot.x[places[places.length - 1]]] : [0, 1];
  const scale = (value: number) => (view.log ? Math.log(value) : value);
  const low = scale(view.zero && !view.log ? Math.min(0, minY) : minY);
  const span = scale(maxY) - low || 1;
  const scales: Scales = {
    x: (value) => LEFT + ((value - minX) / (maxX - minX || 1)) * (WIDTH - LEFT - RIGHT),
    y: (value) => HEIGHT - BOTTOM - ((scale(value) - low) / span) * (HEIGHT - TOP - BOTTOM),
  };
  const inside = (from: number, to: number) => from <= maxX && to >= minX;
  const clipped = (value: number) => Math.min(maxX, Math.max(minX, value));
  const values = [0, 1, 2, 3, 4].map((tick) => low + (span * tick) / 4).map((value) => (view.log ? Math.exp(value) : value));
  const parts = [
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="${colour('card')}"/>`,
    `<text x="${LEFT}" y="22" font-weight="600">${escaped(title)}</text>`,
    ...axes(plot, scales, values, [0, 1, 2, 3, 4].map((tick) => minX + ((maxX - minX) * tick) / 4)),
    ...plot.lines.flatMap((line) => lineOf(line, plot, places, scales)),
    ...changesOf(plot.changes.filter((change) => inside(change.from, change.to)).map((change) => ({ ...change, from: clipped(change.from), to: clipped(change.to) })), scales),
    ...plot.levels.filter((level) => inside(level.from, level.to)).map((level) => `<line x1="${scales.x(clipped(level.from))}" x2="${scales.x(clipped(level.to))}" y1="${scales.y(level.value)}" y2="${scales.y(level.value)}" stroke="${colour(level.colour)}" stroke-width="3" opacity=".45"/>`),
    ...plot.epochs.filter((epoch) => inside(epoch.x, epoch.x)).map((epoch) => `<path d="M${scales.x(epoch.x)} ${TOP}V${HEIGHT - BOTTOM}" stroke="${colour('ink-soft')}" stroke-dasharray="4 4"/><text x="${scales.x(epoch.x) + 5}" y="${TOP + 26}" fill="${colour('ink-soft')}">${escaped(epoch.label.slice(0, 40))}</text>`),
    ...plot.failures.filter((one) => inside(one.x, one.x)).map((one) => crossOf(scales.x(one.x), one.value === null ? HEIGHT - BOTTOM - 9 : scales.y(one.value))),
    ...legend(plot),
  ];
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="12" fill="${colour('ink')}">${parts.join('')}</svg>`;
}

/** The least and the most that is drawn; on a scale of powers nothing below zero is. */
function reach(plot: Plot, places: number[], view: View): [number, number] {
  let [low, high] = [Infinity, -Infinity];
  for (const line of plot.lines)
    for (const column of [line.values, line.low, line.high])
      for (const at of column ? places : []) {
        const value = column?.[at];
        if (value === null || value === undefined || (view.log && value <= 0)) continue;
        low = Math.min(low, value);
        high = Math.max(high, value);
      }
  return low <= high ? [low, high] : [0, 1];
}

function axes(plot: Plot, { x, y }: Scales, values: number[], places: number[]): string[] {
  const named = ticks(values, plot.unit);
  return [
    ...values.map((value, tick) => `<line x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${y(value)}" y2="${y(value)}" stroke="${colour('grid')}"/><text x="${LEFT - 8}" y="${y(value) + 4}" text-anchor="end">${escaped(named[tick])}</text>`),
    ...places.map((place, tick) => `<text x="${x(place)}" y="${HEIGHT - 14}" text-anchor="${tick === places.length - 1 ? 'end' : 'middle'}">${escaped(plot.label(plot.isTime ? place : Math.round(place)))}</text>`),
  ];
}

/** The labels of changes that are close to each other stand one below the other. */
function changesOf(changes: Plot['changes'], scales: Scales): string[] {
  let [row, last] = [0, -Infinity];
  return [...changes]
    .sort((a, b) => a.to - b.to)
    .map((change) => {
      const left = scales.x(change.to);
      row = left < last ? row + 1 : 0;
      last = left + 12 + change.label.length * 8;
      return changeOf(change, scales, TOP + 12 + row * 15);
    });
}

function changeOf(change: Plot['changes'][number], { x }: Scales, y: number): string {
  const tone = colour(change.verdict === 'better' ? 'better' : 'worse');
  const wide = Math.max(x(change.to) - x(change.from), 2);
  return `<rect x="${x(change.from)}" y="${TOP}" width="${wide}" height="${HEIGHT - TOP - BOTTOM}" fill="${tone}" opacity=".18"/><text x="${x(change.to) + 4}" y="${y}" fill="${tone}" font-weight="600" stroke="${colour('card')}" stroke-width="3" paint-order="stroke">${escaped(change.label)}</text>`;
}

function lineOf(line: Plot['lines'][number], plot: Plot, places: number[], { x, y }: Scales): string[] {
  const tone = colour(line.colour);
  const path = (column: (number | null)[], several: number[]) => several.map((at) => `${x(plot.x[at]).toFixed(1)},${y(column[at] as number).toFixed(1)}`);
  const drawn = places.filter((at) => line.values[at] !== null && Number.isFinite(y(line.values[at] as number)));
  const dashes = line.dashed ? ' stroke-dasharray="7 4"' : '';
  const band = line.low && line.high && drawn.every((at) => Number.isFinite(y(line.low?.[at] as number))) ? `<polygon points="${[...path(line.high, drawn), ...path(line.low, [...drawn].reverse())].join(' ')}" fill="${tone}" opacity=".18"/>` : '';
  return [band, `<polyline points="${path(line.values, drawn).join(' ')}" fill="none" stroke="${tone}" stroke-width="1.6"${dashes}/>`];
}

function crossOf(x: number, y: number): string {
  return `<path d="M${x - 4} ${y - 4}l8 8m0-8l-8 8" stroke="${colour('worse')}" stroke-width="2"/>`;
}

/** What each line is, below the title; more than there is room for go unnamed. */
function legend(plot: Plot): string[] {
  if (plot.lines.length < 2) return [];
  let left = LEFT;
  return plot.lines.flatMap((line) => {
    const [x, name] = [left, line.label.slice(0, 40)];
    left += 34 + name.length * 7; // about as wide as the letters are
    return left > WIDTH ? [] : [`<rect x="${x}" y="32" width="10" height="10" fill="${colour(line.colour)}"/><text x="${x + 15}" y="41">${escaped(name)}</text>`];
  });
}
