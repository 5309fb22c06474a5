// A chart of values over runs or time: lines with bands, what failed, what changed; zoom, pan and keys.

import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { quantity, ticks } from './format';
import { colour, faded, useTheme } from './theme';
import { touches } from './touches';

export interface Line {
  label: string;
  colour: string;
  dashed?: boolean;
  values: (number | null)[];
  low?: (number | null)[];
  high?: (number | null)[];
}

export interface Change {
  from: number;
  to: number;
  verdict: string;
  label: string;
}

export interface Level {
  from: number;
  to: number;
  value: number;
  colour: string;
}

export interface Plot {
  x: ArrayLike<number> & { length: number };
  lines: Line[];
  unit: string;
  failures: { x: number; value: number | null }[];
  changes: Change[];
  epochs: { x: number; label: string }[];
  levels: Level[];
  /** What the axis says at a place; none for a plain number. */
  label: (x: number) => string;
  isTime?: boolean;
}

export interface View {
  log?: boolean;
  zero?: boolean;
  from?: number;
  to?: number;
}

interface Props {
  plot: Plot;
  view: View;
  title: string;
  height?: number;
  pinned?: number[];
  panning?: boolean;
  onView?: (from: number | undefined, to: number | undefined) => void;
  onHover?: (place: number | null, left: number, top: number) => void;
  onPick?: (place: number) => void;
  /** Where in the chart the one point held is; null if it is out of sight, or there are none or two of them. */
  onHeld?: (held: { at: number; left: number; top: number } | null) => void;
}

const DENSE = 5000;
/** Ticks of sizes at round numbers of KiB, MiB and so on. */
const BYTE_STEPS = Array.from({ length: 50 }, (_, power) => 2 ** power);
const FONT = '12px system-ui, sans-serif';

export function Chart(props: Props) {
  const box = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const now = useTheme();
  const { plot, view } = props;

  // Before the browser paints, or the first picture would be an empty box.
  useLayoutEffect(() => {
    const element = box.current as HTMLDivElement;
    const made = new uPlot(options(latest, element.clientWidth || 600), dataOf(plot), element);
    chart.current = made;
    const detach = attach(made, latest);
    const observer = new ResizeObserver(() => {
      const [wide, tall] = [element.clientWidth, latest.current.height ?? 340];
      // It tells of the size at once, too, and drawing all anew for that would cost as much as the first time.
      if (wide && (wide !== made.width || tall !== made.height)) made.setSize({ width: wide, height: tall });
    });
    observer.observe(element);
    return () => {
      observer.disconnect();
      detach();
      made.destroy();
      chart.current = null;
    };
  }, [plot, view.log, view.zero, now]);

  useEffect(() => {
    const made = chart.current;
    if (!made || !plot.x.length) return;
    const [from, to] = extent(latest.current);
    if (made.scales.x.min !== from || made.scales.x.max !== to) made.setScale('x', { min: from, max: to });
  }, [view.from, view.to]);

  useEffect(() => chart.current?.redraw(false), [props.pinned?.join()]);

  return (
    <div
      ref={box}
      class="chart"
      tabIndex={0}
      role="application"
      aria-roledescription="chart"
      aria-label={`${props.title}. Left and right arrows move from point to point, Enter picks one, shift with arrows pans, plus and minus zoom, 0 shows all. A table of the same numbers follows.`}
    />
  );
}

function dataOf(plot: Plot): uPlot.AlignedData {
  const columns: (ArrayLike<number | null>)[] = [plot.x as ArrayLike<number>];
  for (const line of plot.lines) {
    columns.push(line.values);
    if (line.low && line.high) columns.push(line.low, line.high);
  }
  return columns as unknown as uPlot.AlignedData;
}

function extent(props: Props): [number, number] {
  const { plot, view } = props;
  const n = plot.x.length;
  if (!n) return [0, 1];
  const first = plot.x[0];
  const last = plot.x[n - 1];
  const room = plot.isTime ? Math.max((last - first) * 0.01, 3600000) : 0.5;
  return [view.from ?? first - room, view.to ?? last + room];
}

function options(latest: { current: Props }, width: number): uPlot.Options {
  const { plot, view, height = 340 } = latest.current;
  const ink = colour('ink-soft');
  const grid = { stroke: colour('grid'), width: 1 };
  const series: uPlot.Series[] = [{}];
  const bands: uPlot.Band[] = [];
  for (const line of plot.lines) {
    const stroke = colour(line.colour);
    // Lines of one pixel are several times as fast to draw, and of very many points no more is seen anyway.
    series.push({ label: line.label, stroke, width: plot.x.length > DENSE ? 1 / devicePixelRatio : 1.6, spanGaps: true, dash: line.dashed ? [7, 4] : undefined, points: plot.x.length > DENSE ? { show: false } : { size: 5, fill: stroke, stroke } });
    if (line.low && line.high) {
      const at = series.length;
      series.push({ show: true, stroke: 'transparent', width: 0, points: { show: false }, spanGaps: true });
      series.push({ show: true, stroke: 'transparent', width: 0, points: { show: false }, spanGaps: true });
      bands.push({ series: [at + 1, at], fill: faded(stroke, 0.18) });
    }
  }
  return {
    width,
    height,
    series,
    bands,
    legend: { show: false },
    cursor: { y: false, drag: { x: true, y: false, dist: 6 }, points: { size: 8 }, focus: { prox: 24 } },
    scales: {
      x: { time: false, range: (_, min, max) => (min === max ? [min - 0.5, max + 0.5] : [min, max]), min: extent(latest.current)[0], max: extent(latest.current)[1], auto: false },
      y: { distr: view.log ? 3 : 1, range: yRange(view) },
    },
    axes: [
      { stroke: ink, font: FONT, size: 38, grid: { show: false }, ticks: grid, values: (_, places) => labels(plot, places), space: 90, incrs: plot.isTime ? undefined : [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000] },
      { stroke: ink, font: FONT, grid, ticks: { show: false }, size: 78, incrs: plot.unit === 'bytes' ? BYTE_STEPS : undefined, values: (_, values) => ticks(values, plot.unit) },
    ],
    hooks: {
      drawClear: [(u) => drawBehind(u, latest.current.plot)],
      draw: [(u) => drawBefore(u, latest.current), (u) => tellHeld(u, latest.current)],
      setCursor: [(u) => latest.current.onHover?.(u.cursor.idx ?? null, u.cursor.left ?? 0, u.cursor.top ?? 0)],
      setSelect: [(u) => zoomTo(u, latest)],
    },
  };
}

function labels(plot: Plot, places: number[]): string[] {
  let before = '';
  return places.map((place) => {
    const label = plot.label(place);
    const shown = label === before ? '' : label;
    before = label || before;
    return shown;
  });
}

function yRange(view: View): uPlot.Range.Function {
  return (_, min, max) => {
    if (min === null || max === null || !Number.isFinite(min)) return [0, 1];
    if (view.log) return [min > 0 ? min / 1.1 : 1e-9, max > 0 ? max * 1.1 : 1];
    const room = (max - min || Math.abs(max) * 0.1 || 1) * 0.08;
    return [view.zero ? Math.min(0, min) : min - room, max + room];
  };
}

function zoomTo(u: uPlot, latest: { current: Props }): void {
  if (u.select.width < 4) return;
  const from = u.posToVal(u.select.left, 'x');
  const to = u.posToVal(u.select.left + u.select.width, 'x');
  u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  latest.current.onView?.(from, to);
}

function drawBehind(u: uPlot, plot: Plot): void {
  const { ctx } = u;
  const { top, height } = u.bbox;
  ctx.save();
  ctx.beginPath();
  ctx.rect(u.bbox.left, top, u.bbox.width, height);
  ctx.clip();
  for (const change of plot.changes) {
    const left = u.valToPos(change.from, 'x', true);
    const right = u.valToPos(change.to, 'x', true);
    ctx.fillStyle = faded(colour(change.verdict === 'better' ? 'better' : 'worse'), 0.16);
    ctx.fillRect(left, top, Math.max(right - left, 2), height);
  }
  ctx.restore();
}

function drawBefore(u: uPlot, props: Props): void {
  const { ctx } = u;
  ctx.save();
  ctx.beginPath();
  ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
  ctx.clip();
  drawLevels(u, props.plot);
  drawEpochs(u, props.plot);
  drawFailures(u, props.plot);
  drawChanges(u, props.plot);
  drawPinned(u, props);
  ctx.restore();
}

function drawLevels(u: uPlot, plot: Plot): void {
  const { ctx } = u;
  ctx.lineWidth = 3 * devicePixelRatio;
  ctx.globalAlpha = 0.45;
  for (const level of plot.levels) {
    ctx.strokeStyle = colour(level.colour);
    const y = u.valToPos(level.value, 'y', true);
    ctx.beginPath();
    ctx.moveTo(u.valToPos(level.from, 'x', true), y);
    ctx.lineTo(u.valToPos(level.to, 'x', true), y);
    ctx.stroke();
  }
  ctx.globalAlpha = 1;
}

function drawEpochs(u: uPlot, plot: Plot): void {
  const { ctx } = u;
  ctx.strokeStyle = ctx.fillStyle = colour('ink-soft');
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([4 * devicePixelRatio, 4 * devicePixelRatio]);
  ctx.textAlign = 'left';
  ctx.textBaseline = 'alphabetic';
  ctx.font = scaled(FONT);
  for (const epoch of plot.epochs) {
    const x = u.valToPos(epoch.x, 'x', true);
    ctx.beginPath();
    ctx.moveTo(x, u.bbox.top);
    ctx.lineTo(x, u.bbox.top + u.bbox.height);
    ctx.stroke();
    ctx.fillText(epoch.label.slice(0, 40), x + 5 * devicePixelRatio, u.bbox.top + 14 * devicePixelRatio);
  }
  ctx.setLineDash([]);
}

function drawFailures(u: uPlot, plot: Plot): void {
  const { ctx } = u;
  const arm = 3.5 * devicePixelRatio;
  const bottom = u.bbox.top + u.bbox.height - 9 * devicePixelRatio;
  ctx.strokeStyle = colour('worse');
  ctx.lineWidth = 2 * devicePixelRatio;
  const min = u.scales.x.min ?? -Infinity;
  const max = u.scales.x.max ?? Infinity;
  let last = -Infinity;
  ctx.beginPath();
  for (const failure of plot.failures) {
    if (failure.x < min || failure.x > max) continue;
    const x = u.valToPos(failure.x, 'x', true);
    if (x - last < 1) continue; // more crosses than pixels say no more
    last = x;
    const y = failure.value === null ? bottom : u.valToPos(failure.value, 'y', true);
    ctx.moveTo(x - arm, y - arm);
    ctx.lineTo(x + arm, y + arm);
    ctx.moveTo(x + arm, y - arm);
    ctx.lineTo(x - arm, y + arm);
  }
  ctx.stroke();
}

function drawChanges(u: uPlot, plot: Plot): void {
  const { ctx } = u;
  ctx.font = scaled(`600 ${FONT}`);
  ctx.textBaseline = 'top';
  let row = 0;
  let last = -Infinity;
  for (const change of [...plot.changes].sort((a, b) => a.to - b.to)) {
    const x = u.valToPos(change.to, 'x', true);
    const width = ctx.measureText(change.label).width;
    row = x < last ? row + 1 : 0;
    ctx.fillStyle = colour(change.verdict === 'better' ? 'better' : 'worse');
    const fits = x + width + 8 * devicePixelRatio < u.bbox.left + u.bbox.width;
    ctx.textAlign = fits ? 'left' : 'right';
    write(ctx, change.label, x + (fits ? 4 : -4) * devicePixelRatio, u.bbox.top + (4 + row * 15) * devicePixelRatio);
    last = x + width + 8 * devicePixelRatio;
  }
  ctx.textAlign = 'left';
}

function drawPinned(u: uPlot, props: Props): void {
  const { ctx } = u;
  ctx.strokeStyle = ctx.fillStyle = colour('ink');
  ctx.lineWidth = 2 * devicePixelRatio;
  ctx.font = scaled(`700 ${FONT}`);
  (props.pinned ?? []).forEach((place, at) => {
    const value = valueAt(props.plot, place);
    const x = u.valToPos(props.plot.x[place], 'x', true);
    const y = value === undefined ? u.bbox.top + u.bbox.height - 9 * devicePixelRatio : u.valToPos(value, 'y', true);
    ctx.beginPath();
    ctx.arc(x, y, 7 * devicePixelRatio, 0, 2 * Math.PI);
    ctx.stroke();
    write(ctx, 'AB'[at] ?? '', x + 9 * devicePixelRatio, y - 16 * devicePixelRatio);
  });
}

/** Text that can be read on top of lines. */
function write(ctx: CanvasRenderingContext2D, text: string, x: number, y: number): void {
  ctx.save();
  ctx.strokeStyle = colour('card');
  ctx.lineWidth = 4 * devicePixelRatio;
  ctx.lineJoin = 'round';
  ctx.strokeText(text, x, y);
  ctx.restore();
  ctx.fillText(text, x, y);
}

function tellHeld(u: uPlot, { plot, pinned, onHeld }: Props): void {
  const at = pinned?.[0];
  if (!onHeld || at === undefined || pinned?.length !== 1) return onHeld?.(null);
  const left = u.valToPos(plot.x[at], 'x');
  const value = valueAt(plot, at);
  const top = value === undefined ? u.over.clientHeight - 30 : u.valToPos(value, 'y');
  onHeld(left < 0 || left > u.over.clientWidth ? null : { at, left, top });
}

function valueAt(plot: Plot, place: number): number | undefined {
  return plot.lines.map((line) => line.values[place]).find((one) => one !== null && one !== undefined) ?? undefined;
}

const scaled = (font: string) => font.replace('12px', `${12 * devicePixelRatio}px`);

/** Mouse, wheel and keys beyond what uPlot does by itself. */
function attach(u: uPlot, latest: { current: Props }): () => void {
  const over = u.over;
  let pressed: { x: number; min: number; max: number } | null = null;
  let moved = false;
  const show = (min: number, max: number) => {
    u.setScale('x', { min, max });
    settle(min, max);
  };
  let timer = 0;
  // The address follows when the hand rests: it is no place for every frame of a movement.
  const settle = (min: number, max: number) => {
    clearTimeout(timer);
    timer = window.setTimeout(() => latest.current.onView?.(min, max), 150);
  };
  const shift = (share: number) => {
    const { min = 0, max = 1 } = u.scales.x as { min: number; max: number };
    const step = (max - min) * share;
    show(min + step, max + step);
  };
  const zoom = (factor: number, around?: number) => {
    const { min = 0, max = 1 } = u.scales.x as { min: number; max: number };
    const centre = around ?? (min + max) / 2;
    show(centre - (centre - min) * factor, centre + (max - centre) * factor);
  };
  const fingers = touches(u, show);
  const down = (event: PointerEvent) => {
    if (fingers.down(event)) {
      moved = true;
      return;
    }
    moved = false;
    pressed = { x: event.clientX, min: u.scales.x.min ?? 0, max: u.scales.x.max ?? 1 };
    if (event.shiftKey || latest.current.panning) over.setPointerCapture(event.pointerId);
  };
  const block = (event: MouseEvent) => {
    if (event.shiftKey || latest.current.panning) event.stopImmediatePropagation();
  };
  const move = (event: PointerEvent) => {
    if (fingers.move(event) || !pressed) return;
    if (Math.abs(event.clientX - pressed.x) > 4) moved = true;
    // A finger pans: it has a second one to zoom with.
    if (!(event.shiftKey || latest.current.panning || (event.pointerType === 'touch' && moved))) return;
    const share = (pressed.x - event.clientX) / over.clientWidth;
    const step = (pressed.max - pressed.min) * share;
    show(pressed.min + step, pressed.max + step);
  };
  const up = (event: PointerEvent) => {
    fingers.up(event);
    // Not the cursor's place: that of a finger follows only after this.
    if (pressed && !moved && latest.current.plot.x.length) latest.current.onPick?.(u.posToIdx(event.clientX - over.getBoundingClientRect().left));
    pressed = null;
  };
  const cancel = (event: PointerEvent) => {
    fingers.up(event);
    pressed = null;
  };
  const wheel = (event: WheelEvent) => {
    if (event.ctrlKey || event.metaKey) zoom(Math.exp(event.deltaY / 300), u.posToVal(event.offsetX, 'x'));
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) shift((event.deltaX || event.deltaY) / 800);
    else return; // scrolls the page
    event.preventDefault();
  };
  const reset = () => {
    clearTimeout(timer);
    latest.current.onView?.(undefined, undefined);
  };
  const key = (event: KeyboardEvent) => {
    const acts: Record<string, () => void> = {
      ArrowLeft: () => (event.shiftKey ? shift(-0.1) : step(u, -1, latest)),
      ArrowRight: () => (event.shiftKey ? shift(0.1) : step(u, 1, latest)),
      Home: () => step(u, -Infinity, latest),
      End: () => step(u, Infinity, latest),
      '+': () => zoom(0.7),
      '=': () => zoom(0.7),
      '-': () => zoom(1 / 0.7),
      '0': reset,
      Escape: reset,
      Enter: () => u.cursor.idx !== null && u.cursor.idx !== undefined && latest.current.onPick?.(u.cursor.idx),
    };
    const act = acts[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    act();
    event.preventDefault();
  };
  const root = u.root.parentElement as HTMLElement;
  over.addEventListener('mousedown', block, true);
  over.addEventListener('pointerdown', down);
  over.addEventListener('pointermove', move);
  over.addEventListener('pointerup', up);
  over.addEventListener('pointercancel', cancel);
  over.addEventListener('wheel', wheel, { passive: false });
  over.addEventListener('dblclick', reset);
  root.addEventListener('keydown', key);
  return () => {
    clearTimeout(timer);
    root.removeEventListener('keydown', key);
  };
}

function step(u: uPlot, by: number, latest: { current: Props }): void {
  const n = latest.current.plot.x.length;
  if (!n) return;
  const now = u.cursor.idx ?? (by > 0 ? -1 : n);
  const place = Math.max(0, Math.min(n - 1, by === Infinity ? n - 1 : by === -Infinity ? 0 : now + by));
  const x = latest.current.plot.x[place];
  const { min = 0, max = 1 } = u.scales.x as { min: number; max: number };
  if (x < min || x > max) u.setScale('x', { min: x - (max - min) / 2, max: x + (max - min) / 2 });
  u.setCursor({ left: u.valToPos(x, 'x'), top: u.over.clientHeight / 2 });
}

/** Small lines without axes. */
export function Spark(props: { values: number[]; mark?: number; verdict?: string; width?: number; height?: number; label?: string }) {
  const { values, width = 140, height = 32, mark } = props;
  if (values.length < 2) return <span class="soft">–</span>;
  const min = Math.min(...values);
  const max = Math.max(...values);
  const x = (at: number) => 2 + (at / (values.length - 1)) * (width - 4);
  const y = (value: number) => height - 3 - ((value - min) / (max - min || 1)) * (height - 6);
  const points = values.map((value, at) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join(' ');
  const tone = props.verdict === 'better' ? 'better' : props.verdict === 'worse' ? 'worse' : '';
  return (
    <svg class={`spark ${tone}`} viewBox={`0 0 ${width} ${height}`} width={width} height={height} role="img" aria-label={props.label ?? `${values.length} values from ${quantity(min)} to ${quantity(max)}`}>
      {mark !== undefined && mark >= 0 && <rect class="since" x={x(mark)} y={0} width={width - x(mark)} height={height} />}
      <polyline points={points} />
      <circle cx={x(values.length - 1)} cy={y(values[values.length - 1])} r={2.4} />
    </svg>
  );
}
