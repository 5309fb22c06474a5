// The drawing of a chart: lines with bands over commits or time, what failed, what changed, tags.
// It is SVG, and there is no other: what is on the screen is what is taken along.

import { scaleOf, type Scale } from './axis';
import { plain, ticks } from './format';

export interface Line {
  label: string;
  colour: string;
  dashed?: boolean;
  /** Shown behind the others, and without a say in how high the chart reaches. */
  dim?: boolean;
  /** Its points, from left to right. */
  places: Int32Array;
}

export interface Change {
  from: number;
  to: number;
  verdict: string;
  label: string;
  /** The one that the page is about. */
  chosen?: boolean;
}

export interface Level {
  from: number;
  to: number;
  value: number;
  colour: string;
  dim?: boolean;
}

export interface Plot {
  /** The points from left to right; NaN where one has no value. */
  x: Float64Array;
  y: Float64Array;
  low?: Float64Array;
  high?: Float64Array;
  /** Of which line each point is. */
  of: Int16Array;
  lines: Line[];
  unit: string;
  /** The points that did not pass. */
  failures: Int32Array;
  changes: Change[];
  epochs: { x: number; label: string }[];
  levels: Level[];
  tags: { x: number; label: string }[];
  /** What the axis says at a place; none for a plain number. */
  label: (x: number) => string;
  isTime?: boolean;
  /** Places are whole numbers. */
  isSlots?: boolean;
}

export interface View {
  log?: boolean;
  zero?: boolean;
  from?: number;
  to?: number;
}

const [RIGHT, BOTTOM, LABEL, MOST_LABEL_ROWS] = [14, 26, 16, 2];
const MOST_DOTS = 400;
const CROSS = 7;

/** All that a drawing takes: how large it is, and what is where in it. */
export interface Frame {
  left: number;
  top: number;
  wide: number;
  tall: number;
  from: number;
  to: number;
  y: Scale;
  /** The values that the axis names. */
  ticks: number[];
}

export const toX = (frame: Frame, value: number) => frame.left + ((value - frame.from) / (frame.to - frame.from)) * frame.wide;
export const toY = (frame: Frame, value: number) => frame.top + (1 - frame.y.share(value)) * frame.tall;
const round = (value: number) => Math.round(value * 10) / 10;

export function extent(plot: Plot, view: View): [number, number] {
  const n = plot.x.length;
  const [first, last] = n ? [plot.x[0], plot.x[n - 1]] : [0, 1];
  const room = plot.isSlots ? 0.5 : (last - first) * 0.01 || 1;
  const [from, to] = [view.from ?? first - room, view.to ?? last + room];
  return to > from ? [from, to] : [from - 0.5, from + 0.5];
}

/** The first of the points, or of some of them, that is not left of a place. */
export function firstAt(plot: Plot, place: number, places?: Int32Array): number {
  let [low, high] = [0, places ? places.length : plot.x.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (plot.x[places ? places[middle] : middle] < place) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** What of a line is in sight, and one point more on each side so that it does not end at the edge. */
function inSight(plot: Plot, line: Line, from: number, to: number): Int32Array {
  return line.places.subarray(Math.max(0, firstAt(plot, from, line.places) - 1), firstAt(plot, to, line.places) + 1);
}

function reach(plot: Plot, view: View, from: number, to: number): Scale {
  let [low, high] = [Infinity, -Infinity];
  const lines = plot.lines.some((line) => !line.dim) ? plot.lines.filter((line) => !line.dim) : plot.lines;
  for (const line of lines) {
    for (const at of inSight(plot, line, from, to)) {
      if (plot.x[at] < from || plot.x[at] > to) continue;
      for (const value of [plot.y[at], plot.low?.[at] ?? NaN, plot.high?.[at] ?? NaN]) {
        if (Number.isNaN(value) || (view.log && value <= 0)) continue;
        if (value < low) low = value;
        if (value > high) high = value;
      }
    }
  }
  if (low > high) return scaleOf(0, 1);
  if (view.log) return scaleOf(low / 1.08, high * 1.08, true);
  const room = (high - low || Math.abs(high) * 0.1 || 1) * 0.08;
  return scaleOf(view.zero ? Math.min(0, low) : low - room, high + room);
}

/** A path through points; of more than there are dots of the screen, the least and the most in each column of them. */
function pathOf(plot: Plot, places: Int32Array, frame: Frame): string {
  let path = '';
  if (places.length < 2 * frame.wide) {
    for (const at of places) {
      const y = toY(frame, plot.y[at]);
      if (Number.isFinite(y)) path += `${path ? 'L' : 'M'}${round(toX(frame, plot.x[at]))} ${round(y)}`;
    }
    return path;
  }
  let [column, least, most] = [-Infinity, 0, 0];
  for (const at of places) {
    const [x, y] = [Math.round(toX(frame, plot.x[at])), toY(frame, plot.y[at])];
    if (!Number.isFinite(y)) continue;
    if (x !== column) {
      if (column > -Infinity) path += `${path ? 'L' : 'M'}${column} ${round(least)}L${column} ${round(most)}`;
      [column, least, most] = [x, y, y];
    } else if (y < least) least = y;
    else if (y > most) most = y;
  }
  return path + (column > -Infinity ? `${path ? 'L' : 'M'}${column} ${round(least)}L${column} ${round(most)}` : '');
}

/** The range of the samples, as an area. */
function bandOf(plot: Plot, places: Int32Array, frame: Frame): string {
  if (!plot.low || !plot.high) return '';
  const step = Math.max(1, Math.floor(places.length / (2 * frame.wide)));
  let [there, back] = ['', ''];
  for (let i = 0; i < places.length; i += step) {
    const at = places[i];
    const [high, low] = [toY(frame, plot.high[at]), toY(frame, plot.low[at])];
    if (!Number.isFinite(high) || !Number.isFinite(low)) continue;
    const x = round(toX(frame, plot.x[at]));
    there += `${there ? 'L' : 'M'}${x} ${round(high)}`;
    back = `L${x} ${round(low)}${back}`;
  }
  return there && `${there}${back}Z`;
}

const dotsOf = (plot: Plot, places: Int32Array, frame: Frame) => [...places].map((at) => `M${round(toX(frame, plot.x[at]))} ${round(toY(frame, plot.y[at]))}h0`).join('');

function crossesOf(plot: Plot, frame: Frame): string {
  const bottom = frame.top + frame.tall - 8;
  let [path, last] = ['', -Infinity];
  for (let i = firstAt(plot, frame.from, plot.failures); i < plot.failures.length; i++) {
    const at = plot.failures[i];
    if (plot.x[at] > frame.to) break;
    const x = round(toX(frame, plot.x[at]));
    if (x - last < CROSS) continue; // crosses on top of each other say no more than one
    last = x;
    const y = Number.isNaN(plot.y[at]) ? bottom : round(Math.min(bottom, Math.max(frame.top + 6, toY(frame, plot.y[at]))));
    path += `M${x - 3.5} ${y - 3.5}l7 7m0 -7l-7 7`;
  }
  return path;
}

interface Label {
  x: number;
  row: number;
  text: string;
  tone: string;
  chosen?: boolean;
}

const wideOf = (text: string) => text.length * 6.9 + 8;

/** Labels of changes stand above the data, in at most two rows; those that find no place are told when asked for. */
function labelsOf(plot: Plot, frame: Pick<Frame, 'left' | 'wide' | 'from' | 'to'>): Label[] {
  const ends = Array.from({ length: MOST_LABEL_ROWS }, () => [] as [number, number][]);
  const shown = plot.changes.filter((one) => one.to >= frame.from && one.to <= frame.to);
  const size = (one: Change) => (one.chosen ? Infinity : Math.abs(parseFloat(one.label.replace(/[^\d.]/g, '')) || 0) * (one.label.includes('×') ? 100 : 1));
  return shown
    .sort((a, b) => size(b) - size(a))
    .flatMap((one): Label[] => {
      const wide = wideOf(one.label);
      const x = Math.min(toX(frame as Frame, one.to), frame.left + frame.wide - wide);
      const row = ends.findIndex((taken) => taken.every(([from, to]) => x + wide < from || x > to));
      if (row < 0) return [];
      ends[row].push([x, x + wide]);
      return [{ x, row, text: one.label, tone: one.verdict === 'better' ? 'better' : 'worse', chosen: one.chosen }];
    });
}

/** Names that do not touch each other, the last of them first. */
function apart<T extends { x: number; label: string }>(items: T[], place: (one: T) => number): T[] {
  let next = Infinity;
  return [...items].reverse().filter((one) => {
    const x = place(one);
    if (x + wideOf(one.label) > next) return false;
    next = x;
    return true;
  });
}

function axisPlaces(plot: Plot, frame: Frame): { x: number; label: string }[] {
  const room = Math.max(2, Math.floor(frame.wide / 110));
  const found = scaleOf(frame.from, frame.to).ticks(room).filter((place) => !plot.isSlots || Number.isInteger(place));
  let before = '';
  return found.flatMap((place) => {
    const label = plot.label(place);
    if (!label || label === before) return [];
    before = label;
    return [{ x: place, label }];
  });
}

/** The drawing itself. */
export function Drawing({ plot, view, frame, cursor, pinned, select }: { plot: Plot; view: View; frame: Frame; cursor: number | null; pinned: number[]; select: [number, number] | null }) {
  const { left, top, wide, tall, from, to } = frame;
  const yTicks = frame.ticks;
  const named = ticks(yTicks, plot.unit);
  const bottom = top + tall;
  const x = (value: number) => round(toX(frame, value));
  const y = (value: number) => round(toY(frame, value));
  const inside = (one: { from: number; to: number }) => one.to >= from && one.from <= to;
  const inView = plot.lines.reduce((sum, line) => sum + (line.dim ? 0 : inSight(plot, line, from, to).length), 0);
  const order = [...plot.lines].sort((a, b) => Number(b.dim ?? false) - Number(a.dim ?? false));
  return (
    <>
      {yTicks.map((value, at) => (
        <g key={value}>
          <line class="grid" x1={left} x2={left + wide} y1={y(value)} y2={y(value)} />
          <text class="tick" x={left - 8} y={y(value) + 4} text-anchor="end">
            {named[at]}
          </text>
        </g>
      ))}
      {axisPlaces(plot, frame).map((one) => (
        <g key={one.x}>
          <line class="tick-mark" x1={x(one.x)} x2={x(one.x)} y1={bottom} y2={bottom + 5} />
          <text class="tick" x={x(one.x)} y={bottom + 18} text-anchor={x(one.x) < left + 40 ? 'start' : x(one.x) > left + wide - 40 ? 'end' : 'middle'}>
            {one.label}
          </text>
        </g>
      ))}
      <rect class="area" x={left} y={top} width={wide} height={tall} />
      <svg x={left} y={top - 6} width={wide} height={tall + 6} viewBox={`${left} ${top - 6} ${wide} ${tall + 6}`}>
        {plot.changes.filter(inside).map((one, at) => (
          <rect key={at} class={`change ${one.verdict === 'better' ? 'better' : 'worse'} ${one.chosen ? 'chosen' : ''}`} x={x(one.from)} y={top} width={Math.max(x(one.to) - x(one.from), 2)} height={tall} />
        ))}
        {plot.epochs.filter((one) => one.x >= from && one.x <= to).map((one, at) => (
          <g key={at} class="epoch">
            <line x1={x(one.x)} x2={x(one.x)} y1={top} y2={bottom} />
            <text x={x(one.x) + 5} y={bottom - 6}>
              {plain(one.label.slice(0, 40))}
            </text>
          </g>
        ))}
        {apart(plot.tags.filter((one) => one.x >= from && one.x <= to), (one) => x(one.x)).map((one) => (
          <g key={one.label} class="tag-mark">
            <line x1={x(one.x)} x2={x(one.x)} y1={top} y2={bottom} />
            <text x={Math.min(x(one.x) + 3, left + wide - wideOf(one.label.slice(0, 24)))} y={bottom - 4}>
              {plain(one.label.slice(0, 24))}
            </text>
          </g>
        ))}
        {order.map((line) => {
          const places = inSight(plot, line, from, to);
          const tone = `${line.colour} ${line.dim ? 'dim' : ''} ${line.dashed ? 'dashed' : ''}`;
          return (
            <g key={line.label} class={`series ${tone}`}>
              {!line.dim && <path class="band" d={bandOf(plot, places, frame)} />}
              <path class="path" d={pathOf(plot, places, frame)} />
              {!line.dim && inView < MOST_DOTS && <path class="dots" d={dotsOf(plot, places, frame)} />}
            </g>
          );
        })}
        {plot.levels.filter(inside).map((one, at) => (
          <line key={at} class={`level ${one.colour} ${one.dim ? 'dim' : ''}`} x1={x(one.from)} x2={x(one.to)} y1={y(one.value)} y2={y(one.value)} />
        ))}
        <path class="crosses" d={crossesOf(plot, frame)} />
        {cursor !== null && <Cursor plot={plot} frame={frame} at={cursor} />}
        {pinned.map((at, number) => {
          const top = Number.isNaN(plot.y[at]) ? bottom - 8 : y(plot.y[at]);
          return (
            <g key={at} class="pin">
              <circle cx={x(plot.x[at])} cy={top} r={7} />
              <text x={x(plot.x[at]) + 9} y={top - 8}>
                {'AB'[number]}
              </text>
            </g>
          );
        })}
        {select && <rect class="select" x={Math.min(...select)} y={top} width={Math.abs(select[1] - select[0])} height={tall} />}
      </svg>
      {labelsOf(plot, frame).map((one) => (
        <text key={`${one.x} ${one.row}`} class={`change-label ${one.tone} ${one.chosen ? 'chosen' : ''}`} x={round(one.x + 3)} y={12 + one.row * LABEL}>
          {one.text}
        </text>
      ))}
      {view.log && (
        <text class="tick" x={left - 8} y={top - 4} text-anchor="end">
          log
        </text>
      )}
    </>
  );
}

function Cursor({ plot, frame, at }: { plot: Plot; frame: Frame; at: number }) {
  const x = round(toX(frame, plot.x[at]));
  return (
    <g class="cursor">
      <line x1={x} x2={x} y1={frame.top} y2={frame.top + frame.tall} />
      {!Number.isNaN(plot.y[at]) && <circle cx={x} cy={round(toY(frame, plot.y[at]))} r={5} />}
    </g>
  );
}

export function frameOf(plot: Plot, view: View, width: number, height: number, from: number, to: number): Frame {
  const y = reach(plot, view, from, to);
  const marks = y.ticks(Math.max(2, Math.floor((height - BOTTOM) / 58)), plot.unit);
  const widest = Math.max(...ticks(marks, plot.unit).map((text) => text.length), 3);
  const left = Math.min(96, widest * 6.8 + 14);
  const flat = { left, wide: Math.max(40, width - left - RIGHT), from, to };
  const rows = labelsOf(plot, flat).reduce((most, one) => Math.max(most, one.row + 1), 0);
  const top = 8 + rows * LABEL;
  return { ...flat, top, tall: height - top - BOTTOM, y, ticks: marks };
}

/** The whole of a chart as a strip, with the part of it that is shown; a click or a drag shows another. */
export function Context({ plot, from, to, onView }: { plot: Plot; from: number; to: number; onView: (from: number, to: number) => void }) {
  const [wide, tall] = [1000, 46];
  const [first, last] = extent(plot, {});
  const frame: Frame = { left: 0, top: 3, wide, tall: tall - 6, from: first, to: last, y: reach(plot, {}, first, last), ticks: [] };
  const x = (value: number) => Math.max(0, Math.min(wide, toX(frame, value)));
  const show = (event: PointerEvent) => {
    const area = (event.currentTarget as Element).getBoundingClientRect();
    const middle = first + ((event.clientX - area.left) / area.width) * (last - first);
    const half = (to - from) / 2;
    onView(middle - half, middle + half);
  };
  return (
    <svg
      class="context"
      viewBox={`0 0 ${wide} ${tall}`}
      preserveAspectRatio="none"
      aria-hidden="true"
      onPointerDown={(event) => {
        (event.currentTarget as Element).setPointerCapture(event.pointerId);
        show(event);
      }}
      onPointerMove={(event) => event.buttons === 1 && show(event)}
    >
      {plot.lines.filter((line) => !line.dim).map((line) => (
        <g key={line.label} class={`series ${line.colour}`}>
          <path class="path" d={pathOf(plot, line.places, frame)} />
        </g>
      ))}
      <rect class="window" x={x(from)} y={0} width={Math.max(3, x(to) - x(from))} height={tall} />
    </svg>
  );
}

/** How high above the chart's lower edge something without a value stands. */
export const heightOf = (plot: Plot, frame: Frame, at: number) => (Number.isNaN(plot.y[at]) ? frame.top + frame.tall - 8 : toY(frame, plot.y[at]));

export const isDim = (plot: Plot, at: number) => plot.lines[plot.of[at]]?.dim ?? false;
