// What is shown, as a file: CSV, JSON, PNG and SVG.

import { plain } from './format';
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

const DRAWN_BY = ['fill', 'fill-opacity', 'stroke', 'stroke-width', 'stroke-dasharray', 'opacity', 'font-size', 'font-family', 'font-weight', 'text-anchor', 'paint-order', 'stroke-linecap', 'stroke-linejoin'];

export interface Caption {
  title: string;
  /** What each colour stands for. */
  legend?: { label: string; colour: string }[];
}

const SPACE = 'http://www.w3.org/2000/svg';
const [TITLE, LETTER] = [26, 7];

/** A drawing of the page as a text, on the colour that it stands on: what the style sheet says of its parts is written
 *  into them. With a caption it tells by itself what it shows. */
export function drawingOf(drawing: SVGSVGElement | null | undefined, caption?: Caption): string | undefined {
  if (!drawing) return undefined;
  const copy = drawing.cloneNode(true) as SVGSVGElement;
  const [shown, parts] = [drawing, copy].map((root) => [root, ...root.querySelectorAll<SVGElement>('*')]);
  parts.forEach((part, at) => {
    const style = getComputedStyle(shown[at]);
    for (const property of DRAWN_BY) part.setAttribute(property, style.getPropertyValue(property));
    part.removeAttribute('class');
  });
  copy.querySelectorAll('a').forEach((link) => link.removeAttribute('href'));
  for (const name of ['width', 'height', 'aria-hidden']) copy.removeAttribute(name);
  copy.setAttribute('xmlns', SPACE);
  const [left, top, wide, tall] = (copy.getAttribute('viewBox') ?? '0 0 900 400').split(' ').map(Number);
  const above = caption ? TITLE * (caption.legend?.length ? 2 : 1) : 0;
  copy.setAttribute('viewBox', [left, top - above, wide, tall + above].join(' '));
  const made = (name: string, facts: Record<string, string | number>, text = '') => {
    const element = document.createElementNS(SPACE, name);
    for (const [fact, value] of Object.entries(facts)) element.setAttribute(fact, String(value));
    element.textContent = plain(text);
    return element;
  };
  const head: Element[] = [made('rect', { x: left, y: top - above, width: wide, height: tall + above, fill: colour('card') })];
  if (caption) head.push(made('text', { x: left + 8, y: top - above + 18, 'font-size': 13, 'font-weight': 600, 'font-family': 'sans-serif', fill: colour('ink') }, caption.title));
  let place = left + 8;
  for (const one of caption?.legend ?? []) {
    const width = 24 + one.label.length * LETTER;
    if (place + width > left + wide) break; // the others go unnamed
    head.push(made('rect', { x: place, y: top - 18, width: 10, height: 10, fill: colour(one.colour) }), made('text', { x: place + 14, y: top - 9, 'font-size': 12, 'font-family': 'sans-serif', fill: colour('ink') }, one.label));
    place += width;
  }
  copy.prepend(...head);
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
