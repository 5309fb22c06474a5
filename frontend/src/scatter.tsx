// One number against another: quality against speed, memory against time. A table has the same points.

import { useRef } from 'preact/hooks';
import { quantity } from './format';
import { caseLink, Choice, DrawingDownload, Fold, plain, Table } from './ui';
import { lastAttempts, type SessionData } from './session_data';

interface Props {
  sides: SessionData[][];
  names: string[];
  query: Record<string, string>;
  change: (changes: Record<string, string | undefined>) => void;
}

export interface Dot {
  id: string;
  name: string;
  /** Of whom: a side, or a model. */
  group: string;
  href?: string;
  colour: string;
  shape: 'disc' | 'square' | 'ring';
  /** Written beside the dot. */
  label?: string;
  x: number;
  y: number;
  /** The interval of `y`, where it is known. */
  low?: number;
  high?: number;
}

export interface Axis {
  name: string;
  unit: string;
}

export function Scatter({ sides, names, query, change }: Props) {
  const metrics = new Map<string, string>();
  for (const side of sides) for (const data of side) for (const metric of data.metrics) metrics.set(metric.name, metric.unit);
  const all = [...metrics.keys()].sort();
  if (!all.length) return <p class="calm">Neither side has a number.</p>;
  const nameX = metrics.has(query.sx ?? '') ? query.sx : (all.find((name) => name === 'exec_time_s') ?? all[0]);
  const nameY = metrics.has(query.sy ?? '') ? query.sy : (all.find((name) => /accuracy|score|throughput/.test(name)) ?? all.find((name) => name === 'peak_memory_bytes') ?? all[all.length - 1]);
  const dots = sides.flatMap((side, at) => side.slice(0, 1).flatMap((data) => dotsOf(data, at, names[at], nameX, nameY)));
  const options = all.map((name): [string, string] => [name, plain(name)]);
  const pairs = new Map<string, Dot[]>();
  for (const dot of dots) pairs.set(dot.name, [...(pairs.get(dot.name) ?? []), dot]);
  return (
    <div class="card">
      <div class="bar">
        <Choice label="Across" value={nameX} options={options} onChange={(sx) => change({ sx })} />
        <Choice label="Up" value={nameY} options={options} onChange={(sy) => change({ sy })} />
        {names.map((name, at) => (
          <span key={name}>
            <i class={`swatch line-${at + 1}`} aria-hidden="true" /> {name}
          </span>
        ))}
      </div>
      {dots.length ? (
        <Dots dots={dots} lines={[...pairs.values()].filter((pair) => pair.length === 2)} across={{ name: nameX, unit: metrics.get(nameX) ?? '' }} up={{ name: nameY, unit: metrics.get(nameY) ?? '' }} />
      ) : (
        <p class="calm">No case has both metrics.</p>
      )}
    </div>
  );
}

function dotsOf(data: SessionData, side: number, group: string, nameX: string, nameY: string): Dot[] {
  const [x, y] = [nameX, nameY].map((name) => data.metrics.find((metric) => metric.name === name));
  if (!x || !y) return [];
  return lastAttempts(data.records)
    .map((record): Dot => ({ id: `${record.place}/${side}`, name: record.case, group, href: caseLink(record.case), colour: `line-${side + 1}`, shape: side ? 'square' : 'disc', x: x.values[record.place], y: y.values[record.place] }))
    .filter((dot) => !Number.isNaN(dot.x) && !Number.isNaN(dot.y));
}

const [WIDTH, HEIGHT, LEFT, BOTTOM] = [900, 420, 90, 52];
const EDGE = 0.05;

interface Scale {
  at: (value: number) => number;
  back: (share: number) => number;
}

function scaleOf(values: number[]): Scale {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const log = low > 0 && high / low > 50;
  const of = (value: number) => (log ? Math.log(value) : value);
  // Of one value only, some room on both sides.
  const [from, to] = high > low ? [of(low), of(high)] : [of(low) - 0.5, of(low) + 0.5];
  const wide = 1 - 2 * EDGE;
  return {
    at: (value) => EDGE + ((of(value) - from) / (to - from)) * wide,
    back: (share) => {
      const value = from + ((share - EDGE) / wide) * (to - from);
      return log ? Math.exp(value) : value;
    },
  };
}

export function Dots({ dots, lines, across, up }: { dots: Dot[]; lines: Dot[][]; across: Axis; up: Axis }) {
  const [x, y] = [scaleOf(dots.map((dot) => dot.x)), scaleOf(dots.flatMap((dot) => [dot.y, dot.low ?? dot.y, dot.high ?? dot.y]))];
  const left = (value: number) => LEFT + x.at(value) * (WIDTH - LEFT);
  const top = (value: number) => HEIGHT - BOTTOM - y.at(value) * (HEIGHT - BOTTOM);
  const box = useRef<HTMLDivElement>(null);
  const below = labelsBelow(dots.map((dot) => ({ ...dot, x: left(dot.x), y: top(dot.y) })));
  return (
    <div ref={box}>
      <svg class="scatter" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role={dots.some((dot) => dot.href) ? 'group' : 'img'} aria-label={`${up.name} against ${across.name}, ${dots.length} points; the table below has them`}>
        {[EDGE, 0.5, 1 - EDGE].map((share) => (
          <g key={share}>
            <line class="grid" x1={LEFT} x2={WIDTH} y1={HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM)} y2={HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM)} />
            <text x={LEFT - 8} y={HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM) + 4} text-anchor="end">
              {quantity(y.back(share), up.unit)}
            </text>
            <text x={LEFT + share * (WIDTH - LEFT)} y={HEIGHT - 30} text-anchor={share > 0.9 ? 'end' : 'middle'}>
              {quantity(x.back(share), across.unit)}
            </text>
          </g>
        ))}
        <text class="axis" x={(WIDTH + LEFT) / 2} y={HEIGHT - 8} text-anchor="middle">
          {plain(across.name)} →
        </text>
        <text class="axis" x={LEFT + 6} y={14}>
          ↑ {plain(up.name)}
        </text>
        {lines.map((line) => (
          <polyline key={line[0].id} class="pair" points={line.map((dot) => `${left(dot.x)},${top(dot.y)}`).join(' ')} />
        ))}
        {dots.map((dot) => dot.low !== undefined && dot.high !== undefined && <path key={dot.id} class={`interval ${dot.colour}`} d={`M${left(dot.x)},${top(dot.low)}V${top(dot.high)}m-4,0h8M${left(dot.x) - 4},${top(dot.low)}h8`} />)}
        {dots.map((dot) => (
          <Mark key={dot.id} dot={dot} x={left(dot.x)} y={top(dot.y)} below={below.has(dot.id)} text={`${plain(dot.name)}: ${quantity(dot.x, across.unit)}, ${quantity(dot.y, up.unit)}`} />
        ))}
      </svg>
      <DrawingDownload name={`${up.name} against ${across.name}`} box={box} />
      <DotTable dots={dots} across={across} up={up} />
    </div>
  );
}

const [LABEL_WIDE, LABEL_TALL] = [130, 17];

/** Labels that stand below their dots, since above them there is another one. */
function labelsBelow(dots: Dot[]): Set<string> {
  const found = new Set<string>();
  const taken: { x: number; y: number }[] = [];
  for (const dot of dots.filter((one) => one.label).sort((a, b) => a.y - b.y)) {
    const isTaken = taken.some((one) => Math.abs(one.x - dot.x) < LABEL_WIDE && Math.abs(one.y - dot.y) < LABEL_TALL);
    if (isTaken) found.add(dot.id);
    taken.push({ x: dot.x, y: isTaken ? dot.y + LABEL_TALL + 7 : dot.y });
  }
  return found;
}

function Mark({ dot, x, y, below, text }: { dot: Dot; x: number; y: number; below: boolean; text: string }) {
  const shape =
    dot.shape === 'square' ? <rect class={`dot ${dot.colour}`} x={x - 5} y={y - 5} width={10} height={10} /> : <circle class={`dot ${dot.colour} ${dot.shape}`} cx={x} cy={y} r={dot.shape === 'ring' ? 5 : 6} />;
  const toLeft = x > WIDTH - 120;
  const inner = (
    <>
      {shape}
      {dot.label && (
        <text class="dot-label" x={x + (toLeft ? -10 : 10)} y={y + (below ? LABEL_TALL : -7)} text-anchor={toLeft ? 'end' : 'start'}>
          {plain(dot.label)}
        </text>
      )}
      <title>{text}</title>
    </>
  );
  return dot.href ? (
    <a href={dot.href} aria-label={dot.name}>
      {inner}
    </a>
  ) : (
    <g>{inner}</g>
  );
}

function DotTable({ dots, across, up }: { dots: Dot[]; across: Axis; up: Axis }) {
  return (
    <Fold name="dots" title="Table of the points">
      <Table<Dot>
        name="dots-"
        caption={`${up.name} against ${across.name}`}
        rows={dots}
        first={50}
        id={(dot) => dot.id}
        columns={[
          { name: 'Name', show: (dot) => (dot.href ? <a href={dot.href}>{plain(dot.name)}</a> : plain(dot.name)), sort: (dot) => dot.name },
          { name: 'Of', show: (dot) => plain(dot.group), sort: (dot) => dot.group },
          { name: plain(across.name), show: (dot) => quantity(dot.x, across.unit), sort: (dot) => dot.x, numeric: true },
          { name: plain(up.name), show: (dot) => quantity(dot.y, up.unit), sort: (dot) => dot.y, numeric: true },
          ...(dots.some((dot) => dot.low !== undefined) ? [{ name: '95 % interval', show: (dot: Dot) => (dot.low === undefined || dot.high === undefined ? '' : `${quantity(dot.low, up.unit)} to ${quantity(dot.high, up.unit)}`) }] : []),
        ]}
      />
    </Fold>
  );
}
