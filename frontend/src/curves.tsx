// Memory, CPU and GPUs while a case ran: a chart for each quantity, and a table of all of them.

import { useMemo } from 'preact/hooks';
import { Chart } from './chart';
import type { Plot, View } from './drawing';
import { list, numbers, type Packed } from './data';
import { drawingOf, saveCsv, saveDrawing, savePicture } from './export';
import { quantity } from './format';
import { choose, chosen } from './router';
import { LINES } from './theme';
import { Fold, plain, Table } from './ui';

const UNITS: [RegExp, string][] = [
  [/_bytes$/, 'bytes'],
  [/_pct$/, '%'],
  [/_c$/, '°C'],
  [/_s$/, 's'],
  [/_w$/, 'W'],
];
const TITLES: Record<string, string> = {
  memory_bytes: 'Memory',
  cpu_s: 'CPU cores in use',
  processes: 'Processes',
  utilization_gpu_pct: 'GPU utilization',
  memory_used_bytes: 'GPU memory',
  temperature_c: 'GPU temperature',
  power_draw_w: 'GPU power',
};
const NOT_DRAWN = ['t_s', 'timestamp_utc', 'gpu_id', 'memory_total_bytes'];

interface Curve {
  name: string;
  title: string;
  unit: string;
  values: Float64Array;
}

interface Reading {
  clock: Float64Array;
  devices: Float64Array | null;
  curves: Curve[];
}

const place = (name: string) => (Number.isFinite(Number(chosen(name) || NaN)) ? Number(chosen(name)) : undefined);

/** `kind` is what the address calls them; all curves of a run show the same stretch of its time. */
export function Curves({ title, kind, columns, name }: { title: string; kind: string; columns: Record<string, Packed>; name: string }) {
  const read = useMemo(() => readingOf(columns), [columns]);
  const plots = useMemo(() => read?.curves.map((curve) => plotOf(curve, read)) ?? [], [read]);
  if (!read) return null;
  const ids = read.devices ? [...new Set(read.devices)] : [];
  const view: View = { zero: true, from: place('from'), to: place('to') };
  const show = (from: number | undefined, to: number | undefined) => choose({ from, to });
  return (
    <Fold name={kind} title={title} start>
      {view.from !== undefined && (
        <button type="button" onClick={() => show(undefined, undefined)}>
          Show all
        </button>
      )}
      {ids.length > 1 && (
        <div class="legend">
          {ids.map((id, at) => (
            <span key={id}>
              <i class={`swatch ${LINES[at % LINES.length]}`} aria-hidden="true" /> GPU {id}
            </span>
          ))}
        </div>
      )}
      <div class="curves">
        {read.curves.map((curve, at) => (
          <figure key={curve.name}>
            <figcaption>
              {plain(curve.title)}
              <span class="downloads">
                {([['PNG', savePicture], ['SVG', saveDrawing]] as const).map(([kind, save]) => (
                  <button
                    key={kind}
                    type="button"
                    aria-label={`Download ${curve.title} as ${kind}`}
                    onClick={(event) => {
                      const drawing = drawingOf((event.target as Element).closest('figure')?.querySelector<SVGSVGElement>('svg.drawing'), { title: `${name}: ${curve.title}`, legend: ids.length > 1 ? plots[at].lines : [] });
                      if (drawing) save(`${name} ${curve.name}`, drawing);
                    }}
                  >
                    {kind}
                  </button>
                ))}
              </span>
            </figcaption>
            <Chart plot={plots[at]} view={view} onView={show} title={`${curve.title} over the run; the table below has its values`} height={170} />
          </figure>
        ))}
      </div>
      <Readings read={read} title={title} kind={kind} name={name} />
    </Fold>
  );
}

function Readings({ read, title, kind, name }: { read: Reading; title: string; kind: string; name: string }) {
  const { clock, devices, curves } = read;
  const head = ['t_s', ...(devices ? ['gpu'] : []), ...curves.map((curve) => curve.name)];
  const row = (at: number) => [clock[at], ...(devices ? [devices[at]] : []), ...curves.map((curve) => curve.values[at])];
  return (
    <Fold name={`${kind}-table`} title={`Table of ${title.replace(/^M/, 'm')} over time`}>
      <span class="downloads">
        <span class="soft">Download</span>
        <button type="button" onClick={() => saveCsv(name, head, [...clock.keys()].map(row))}>
          CSV
        </button>
      </span>
      <Table<number>
        name={`${kind}-`}
        caption={`${title} over time`}
        rows={[...clock.keys()]}
        first={30}
        id={(at) => at}
        columns={[
          { name: 'Time', show: (at) => quantity(clock[at], 's'), sort: (at) => clock[at], numeric: true },
          ...(devices ? [{ name: 'GPU', show: (at: number) => devices[at], sort: (at: number) => devices[at], numeric: true }] : []),
          ...curves.map((curve) => ({ name: plain(curve.title), show: (at: number) => quantity(curve.values[at], curve.unit), sort: (at: number) => curve.values[at], numeric: true })),
        ]}
      />
    </Fold>
  );
}

function readingOf(columns: Record<string, Packed>): Reading | null {
  const clock = columns.t_s !== undefined ? list(columns.t_s) : columns.timestamp_utc !== undefined ? list(columns.timestamp_utc).map((time, _, all) => (time - all[0]) / 1000) : null;
  if (!clock) return null;
  const n = clock.length;
  const column = (packed: Packed) => numbers(packed, n);
  const curves = Object.entries(columns)
    .filter(([name]) => !NOT_DRAWN.includes(name))
    .map(([name, packed]): Curve => {
      const title = Object.hasOwn(TITLES, name) ? TITLES[name] : name;
      if (name === 'cpu_s') return { name: 'cpu_cores', title, unit: '', values: rates(clock, column(packed)) };
      return { name, title, unit: UNITS.find(([ending]) => ending.test(name))?.[1] ?? '', values: column(packed) };
    });
  return { clock, devices: columns.gpu_id !== undefined ? column(columns.gpu_id) : null, curves };
}

/** CPU seconds so far, as cores in use between two readings. */
function rates(clock: Float64Array, total: Float64Array): Float64Array {
  return total.map((value, at) => (at === 0 ? NaN : Math.max(0, value - total[at - 1]) / Math.max(1e-9, clock[at] - clock[at - 1])));
}

function plotOf({ values, unit }: Curve, { clock, devices }: Reading): Plot {
  const ids = devices ? [...new Set(devices)] : [0];
  const order = Int32Array.from(values.keys()).filter((at) => !Number.isNaN(values[at])).sort((a, b) => clock[a] - clock[b] || a - b);
  const line = (at: number) => (devices ? ids.indexOf(devices[at]) : 0);
  return {
    x: Float64Array.from(order, (at) => clock[at]),
    y: Float64Array.from(order, (at) => values[at]),
    of: Int16Array.from(order, line),
    unit,
    lines: ids.map((id, number) => ({ label: `GPU ${id}`, colour: LINES[number % LINES.length], places: Int32Array.from(order.keys()).filter((place) => line(order[place]) === number) })),
    failures: new Int32Array(0),
    changes: [],
    epochs: [],
    levels: [],
    tags: [],
    label: (x) => quantity(x, 's'),
  };
}
