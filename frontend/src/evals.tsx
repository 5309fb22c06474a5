// Two attentions on the same samples: differences pair by pair, and quality against what it costs.

import { useMemo, useRef } from 'preact/hooks';
import { pairsOf, type EvalSide, type EvalsFile, type Pair, type QualityPoint } from './evals_data';
import { saveCsv, saveJson } from './export';
import { plural, quantity, signed } from './format';
import { Dots, type Dot } from './scatter';
import { LINES } from './theme';
import { Choice, DrawingDownload, Fold, plain, Table } from './ui';

interface Props {
  a: EvalSide;
  b: EvalSide;
  query: Record<string, string>;
  change: (changes: Record<string, string | undefined>) => void;
}

const SIGNS: Record<string, string> = { worse: '✕', better: '✓', same: '=', inconclusive: '?' };

export function Paired({ a, b, query, change }: Props) {
  const { pairs, missing } = useMemo(() => pairsOf(a, b), [a.file, a.attention, b.file, b.attention]);
  const rows = pairs
    .filter((pair) => !query.q || pair.id.toLowerCase().includes(query.q.toLowerCase()))
    .filter((pair) => !query.verdict || pair.verdict === query.verdict)
    .sort((x, y) => ORDER[x.verdict] - ORDER[y.verdict] || Math.abs(y.difference) - Math.abs(x.difference));
  return (
    <>
      <Tiles pairs={rows} />
      <div class="bar">
        <label class="choice wide">
          <span>Filter</span>
          <input type="search" value={query.q ?? ''} onInput={(event) => change({ q: (event.target as HTMLInputElement).value })} />
        </label>
        <Choice label="Verdict" value={query.verdict ?? ''} options={[['', 'all'], 'worse', 'better', 'same', 'inconclusive']} onChange={(verdict) => change({ verdict })} />
        <span class="grow" />
        <Downloads rows={rows} missing={missing} />
      </div>
      <PairTable rows={rows} names={[a.attention, b.attention]} query={query} change={change} />
      <p class="soft">
        Differences are {plain(b.attention)} less {plain(a.attention)}, sample by sample; the interval of their mean comes from drawing the pairs anew, as <code>paceline evals compare</code> does it.
      </p>
      <Missing missing={missing} lost={b.file.missing + (a.file === b.file ? 0 : a.file.missing)} />
    </>
  );
}

const ORDER: Record<string, number> = { worse: 0, better: 1, inconclusive: 2, same: 3 };

function Tiles({ pairs }: { pairs: Pair[] }) {
  const count = (verdict: string) => pairs.filter((pair) => pair.verdict === verdict).length;
  return (
    <div class="tiles">
      {(['worse', 'better', 'same', 'inconclusive'] as const).map((verdict) => (
        <div key={verdict} class={`tile ${(verdict === 'worse' || verdict === 'better') && count(verdict) ? verdict : 'calm'}`}>
          <strong>{count(verdict)}</strong>
          <span>{verdict}</span>
        </div>
      ))}
      <div class="tile calm">
        <strong>{pairs.reduce((sum, pair) => sum + pair.n, 0).toLocaleString('en')}</strong>
        <span>samples asked under both</span>
      </div>
    </div>
  );
}

function Downloads({ rows, missing }: { rows: Pair[]; missing: string[] }) {
  const told = (pair: Pair) => ({ model: pair.model, task: pair.task, metric: pair.metric, verdict: pair.verdict, before: pair.before, after: pair.after, difference: pair.difference, low: pair.low, high: pair.high, samples: pair.n, density: pair.density });
  return (
    <span class="downloads">
      <span class="soft">Download</span>
      <button type="button" onClick={() => saveCsv('paired', ['model', 'task', 'metric', 'sample', 'before', 'after', 'difference'], rows.flatMap((pair) => pair.samples.map((name, at) => [pair.model, pair.task, pair.metric, name, pair.scores[0][at], pair.scores[1][at], pair.differences[at]])))}>
        CSV
      </button>
      <button type="button" onClick={() => saveJson('paired', { comparisons: rows.map(told), missing })}>
        JSON
      </button>
    </span>
  );
}

function PairTable({ rows, names, query, change }: { rows: Pair[]; names: string[] } & Pick<Props, 'query' | 'change'>) {
  const reach = Math.max(1e-9, ...rows.map((pair) => Math.max(Math.abs(pair.low), Math.abs(pair.high))).filter(Number.isFinite));
  return (
    <Table<Pair>
      caption="Paired differences"
      rows={rows}
      id={(pair) => pair.id}
      chosen={(pair) => query.pair === pair.id}
      detail={(pair) => <Samples pair={pair} names={names} />}
      columns={[
        {
          name: 'Benchmark',
          show: (pair) => (
            <button type="button" class="linkish" aria-expanded={query.pair === pair.id} onClick={() => change({ pair: query.pair === pair.id ? undefined : pair.id })}>
              {plain(pair.task)}
            </button>
          ),
          sort: (pair) => pair.task,
        },
        { name: 'Model', show: (pair) => plain(pair.model), sort: (pair) => pair.model },
        { name: 'Metric', show: (pair) => <span class="metric">{plain(pair.metric)}</span>, sort: (pair) => pair.metric },
        { name: plain(names[0]), show: (pair) => quantity(pair.before), sort: (pair) => pair.before, numeric: true },
        { name: plain(names[1]), show: (pair) => quantity(pair.after), sort: (pair) => pair.after, numeric: true },
        {
          name: 'Difference',
          show: (pair) => (
            <span class={`effect ${pair.verdict}`}>
              {signed(pair.difference)} <span aria-hidden="true">{SIGNS[pair.verdict]}</span> <span class="word">{pair.verdict}</span>
            </span>
          ),
          sort: (pair) => pair.difference,
          numeric: true,
        },
        { name: '95 % interval', show: (pair) => <Interval pair={pair} reach={reach} /> },
        { name: 'Density', show: (pair) => quantity(pair.density), sort: (pair) => pair.density ?? NaN, numeric: true },
        { name: 'Samples', show: (pair) => pair.n.toLocaleString('en'), sort: (pair) => pair.n, numeric: true },
      ]}
    />
  );
}

function Interval({ pair, reach }: { pair: Pair; reach: number }) {
  const x = (value: number) => 70 + (value / reach) * 66;
  const text = `${signed(pair.low)} to ${signed(pair.high)}`;
  return (
    <span class="interval-box" title={text}>
      <svg class={`interval ${pair.verdict}`} width="140" height="18" role="img" aria-label={text}>
        <line class="zero" x1="70" x2="70" y1="0" y2="18" />
        <line class="reach" x1={x(pair.low)} x2={x(pair.high)} y1="9" y2="9" />
        <circle cx={x(pair.difference)} cy="9" r="4" />
      </svg>
    </span>
  );
}

function Missing({ missing, lost }: { missing: string[]; lost: number }) {
  return (
    <>
      {missing.length > 0 && (
        <Fold name="missing" title={`${plural(missing.length, 'result')} without a counterpart under the same conditions`}>
          <ul>
            {missing.slice(0, 200).map((name) => (
              <li key={name}>{plain(name)}</li>
            ))}
          </ul>
        </Fold>
      )}
      {lost > 0 && <p class="soft">{plural(lost, 'result')} left out: the files are not there any more, or hold another result now.</p>}
    </>
  );
}

/** What each sample gained or lost, the most first, as bars and as a table. */
function Samples({ pair, names }: { pair: Pair; names: string[] }) {
  const order = useMemo(() => [...pair.differences.keys()].sort((x, y) => pair.differences[x] - pair.differences[y]), [pair]);
  const less = order.filter((at) => pair.differences[at] < 0).length;
  const more = order.filter((at) => pair.differences[at] > 0).length;
  const box = useRef<HTMLDivElement>(null);
  return (
    <div class="record" ref={box}>
      <p>
        <strong>{less.toLocaleString('en')}</strong> lower, <strong>{(pair.n - less - more).toLocaleString('en')}</strong> equal, <strong>{more.toLocaleString('en')}</strong> higher under {plain(names[1])}
      </p>
      <Waterfall values={order.map((at) => pair.differences[at])} better={pair.direction === 'lower' ? -1 : 1} />
      <DrawingDownload name={`${pair.task} differences`} box={box} />
      <Table<number>
        name="samples-"
        caption={`Samples of ${pair.task}`}
        rows={byChange(pair)}
        first={12}
        id={(at) => at}
        columns={[
          { name: 'Sample', show: (at) => <code>{plain(pair.samples[at])}</code>, sort: (at) => pair.samples[at] },
          { name: plain(names[0]), show: (at) => quantity(pair.scores[0][at]), sort: (at) => pair.scores[0][at], numeric: true },
          { name: plain(names[1]), show: (at) => quantity(pair.scores[1][at]), sort: (at) => pair.scores[1][at], numeric: true },
          { name: 'Difference', show: (at) => signed(pair.differences[at]), sort: (at) => pair.differences[at], numeric: true },
        ]}
      />
    </div>
  );
}

const byChange = (pair: Pair) => [...pair.differences.keys()].sort((x, y) => Math.abs(pair.differences[y]) - Math.abs(pair.differences[x]) || x - y);

const MOST_BARS = 450;

/** Differences in order; of very many, evenly chosen ones. */
function Waterfall({ values, better }: { values: number[]; better: number }) {
  const shown = values.length > MOST_BARS ? Array.from({ length: MOST_BARS }, (_, at) => values[Math.floor((at * values.length) / MOST_BARS)]) : values;
  const [up, down] = [Math.max(0, ...shown), Math.max(0, ...shown.map((value) => -value))];
  const [width, height, scale] = [900, 120, 116 / (up + down || 1)];
  const zero = 2 + up * scale;
  const wide = width / shown.length;
  return (
    <svg class="waterfall" viewBox={`0 0 ${width} ${height}`} role="img" aria-label={`Differences of ${plural(values.length, 'sample')} in order; the table below has them`}>
      {shown.map((value, at) => {
        const tall = Math.abs(value) * scale;
        return value ? <rect key={at} class={value * better > 0 ? 'better' : 'worse'} x={at * wide} y={value > 0 ? zero - tall : zero} width={Math.max(wide - (wide > 4 ? 1 : 0), 0.5)} height={tall} /> : null;
      })}
      <line class="zero" x1={0} x2={width} y1={zero} y2={zero} />
    </svg>
  );
}

const COSTS = { density: 'density', time: 'time a sample' } as const;
const ROWS: Record<string, string> = {
  toy: 'Toy rows: they say nothing about a model.',
  generated: 'Generated rows: they compare with no published number.',
};

export function Quality({ file, query, change }: { file: EvalsFile } & Pick<Props, 'query' | 'change'>) {
  const { points } = file;
  const against = query.against === 'time' || points.every((point) => point.density === null) ? 'time' : 'density';
  const cost = (point: QualityPoint) => (against === 'time' ? point.seconds : point.density);
  const shown = points.filter((point) => cost(point) !== null);
  const models = [...new Set(shown.map((point) => point.model))];
  const dots = shown.map(
    (point): Dot => ({
      id: `${point.model}/${point.attention}`,
      name: point.attention,
      group: point.model,
      colour: LINES[models.indexOf(point.model) % LINES.length],
      shape: (against === 'time' ? point.on_time_front : point.on_front) ? 'disc' : 'ring',
      label: point.attention,
      x: cost(point) as number,
      y: point.quality,
      low: point.low ?? undefined,
      high: point.high ?? undefined,
    }),
  );
  const fronts = models.map((model) => dots.filter((dot) => dot.group === model && dot.shape === 'disc').sort((one, other) => one.x - other.x)).filter((line) => line.length > 1);
  const rows = [...new Set(shown.map((point) => ROWS[point.source]))].filter(Boolean);
  return (
    <div class="card">
      <div class="bar">
        <Choice label="Quality against" value={against} options={Object.entries(COSTS)} onChange={(choice) => change({ against: choice })} />
        {models.map((model, at) => (
          <span key={model}>
            <i class={`swatch ${LINES[at % LINES.length]}`} aria-hidden="true" /> {plain(model)}
          </span>
        ))}
      </div>
      {rows.map((text) => (
        <p key={text}>
          <strong>{text}</strong>
        </p>
      ))}
      {dots.length ? <Dots dots={dots} lines={fronts} across={{ name: COSTS[against], unit: against === 'time' ? 's' : '' }} up={{ name: 'quality', unit: '' }} /> : <p class="calm">No attention has a known {COSTS[against]}.</p>}
      {file.refused.map((text) => (
        <p key={text}>{plain(text)}</p>
      ))}
      <p class="soft">
        Quality is the mean over all benchmarks of where the score lies in its range, 1 being best; bars are its intervals (95 %), from drawing samples anew within each benchmark. Filled points, joined by a line, are beaten by no other: none has as much quality for less.
        {against === 'time' && ' Times are of generating alone, without loading a model.'}
      </p>
      <p class="soft">Paceline's evals were not tried by their authors on GPUs, with pretrained weights and with data of the hub: stand-ins for these are tested.</p>
    </div>
  );
}
