// One metric against another over all cases: quality against speed, memory against time.

import { quantity } from './format';
import { lastAttempts, type SessionData } from './model';
import { caseLink, Choice, plain } from './ui';

interface Props {
  sides: SessionData[][];
  names: string[];
  query: Record<string, string>;
  change: (changes: Record<string, string | undefined>) => void;
}

interface Dot {
  case: string;
  side: number;
  x: number;
  y: number;
}

const [WIDTH, HEIGHT, LEFT, BOTTOM] = [900, 420, 90, 40];

export function Scatter({ sides, names, query, change }: Props) {
  const metrics = new Map<string, string>();
  for (const side of sides) for (const data of side) for (const metric of data.metrics) metrics.set(metric.name, metric.unit);
  const all = [...metrics.keys()].sort();
  const nameX = metrics.has(query.sx ?? '') ? query.sx : (all.find((name) => name === 'exec_time_s') ?? all[0]);
  const nameY = metrics.has(query.sy ?? '') ? query.sy : (all.find((name) => /accuracy|score|throughput/.test(name)) ?? all.find((name) => name === 'peak_memory_bytes') ?? all[all.length - 1]);
  const dots = sides.flatMap((side, at) => side.slice(0, 1).flatMap((data) => dotsOf(data, at, nameX, nameY)));
  const options = all.map((name): [string, string] => [name, plain(name)]);
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
      {dots.length ? <Dots dots={dots} units={[metrics.get(nameX) ?? '', metrics.get(nameY) ?? '']} names={[nameX, nameY]} /> : <p class="calm">No case has both metrics.</p>}
    </div>
  );
}

function dotsOf(data: SessionData, side: number, nameX: string, nameY: string): Dot[] {
  const [x, y] = [nameX, nameY].map((name) => data.metrics.find((metric) => metric.name === name));
  if (!x || !y) return [];
  return lastAttempts(data.records)
    .map((record) => ({ case: record.case, side, x: x.values[record.place], y: y.values[record.place] }))
    .filter((dot) => !Number.isNaN(dot.x) && !Number.isNaN(dot.y));
}

function Dots({ dots, units, names }: { dots: Dot[]; units: string[]; names: string[] }) {
  const scale = (pick: (dot: Dot) => number) => {
    const values = dots.map(pick);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const log = low > 0 && high / low > 50;
    const of = (value: number) => (log ? Math.log(value) : value);
    const span = of(high) - of(low) || 1;
    return { at: (value: number) => 0.04 + ((of(value) - of(low)) / span) * 0.92, back: (share: number) => (log ? Math.exp(of(low) + ((share - 0.04) / 0.92) * span) : low + ((share - 0.04) / 0.92) * span) };
  };
  const [x, y] = [scale((dot) => dot.x), scale((dot) => dot.y)];
  const left = (value: number) => LEFT + x.at(value) * (WIDTH - LEFT);
  const top = (value: number) => HEIGHT - BOTTOM - y.at(value) * (HEIGHT - BOTTOM);
  const pairs = new Map<string, Dot[]>();
  for (const dot of dots) pairs.set(dot.case, [...(pairs.get(dot.case) ?? []), dot]);
  return (
    <svg class="scatter" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={`${names[1]} against ${names[0]} of ${pairs.size} cases`}>
      {[0.04, 0.5, 0.96].map((share) => (
        <g key={share}>
          <line class="grid" x1={LEFT} x2={WIDTH} y1={HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM)} y2={HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM)} />
          <text x={LEFT - 8} y={HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM) + 4} text-anchor="end">
            {quantity(y.back(share), units[1])}
          </text>
          <text x={LEFT + share * (WIDTH - LEFT)} y={HEIGHT - 20} text-anchor={share > 0.9 ? 'end' : 'middle'}>
            {quantity(x.back(share), units[0])}
          </text>
        </g>
      ))}
      {[...pairs.values()]
        .filter((pair) => pair.length === 2)
        .map(([a, b]) => (
          <line key={a.case} class="pair" x1={left(a.x)} y1={top(a.y)} x2={left(b.x)} y2={top(b.y)} />
        ))}
      {dots.map((dot) => (
        <a key={`${dot.case}/${dot.side}`} href={caseLink(dot.case)} aria-label={dot.case}>
          {dot.side === 0 ? <circle class="dot line-1" cx={left(dot.x)} cy={top(dot.y)} r={5} /> : <rect class="dot line-2" x={left(dot.x) - 5} y={top(dot.y) - 5} width={10} height={10} />}
          <title>
            {plain(dot.case)}: {quantity(dot.x, units[0])}, {quantity(dot.y, units[1])}
          </title>
        </a>
      ))}
    </svg>
  );
}
