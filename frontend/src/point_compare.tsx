// Points that were picked: what is known of each, and how two differ in value, environment and source.

import type { CasePlot } from './case_plot';
import { load } from './data';
import { moment, percent, plural, quantity } from './format';
import type { CaseData, Column } from './model';
import { rowOf, type Loaded } from './case_chart';
import { compareSessions } from './stats';
import { Effect, Fold, logLink, plain, Revision, Status, useLoaded } from './ui';

interface Props {
  plot: CasePlot;
  metric: Column;
  loaded: Loaded;
  pinned: number[];
  onClear: () => void;
}

export function PointCompare({ plot, metric, loaded, pinned, onClear }: Props) {
  const rows = pinned.map((at) => rowOf(plot, at, loaded));
  return (
    <section class="card picked" aria-label="Points picked">
      <div class="picked-points">
        {rows.map((row, at) => (
          <div key={at}>
            <strong class="letter">{'AB'[at]}</strong> <strong>{quantity(row.value, metric.unit)}</strong> <Status status={row.status} />
            <div>
              {moment(row.time)} <Revision revision={row.revision} />
            </div>
            <div>
              <a href={logLink(row.session_id, row.case, row.variant)}>{plain(row.session)}: record and log</a> <span class="soft">{plain(row.host)}</span>
            </div>
            {row.reason && <div class="reason">{plain(row.reason)}</div>}
          </div>
        ))}
        <button type="button" onClick={onClear}>
          Let go
        </button>
      </div>
      {rows.length === 2 && <Difference plot={plot} metric={metric} pinned={pinned} rows={rows} />}
    </section>
  );
}

function Difference({ plot, metric, pinned, rows }: { plot: CasePlot; metric: Column; pinned: number[]; rows: ReturnType<typeof rowOf>[] }) {
  const [a, b] = rows;
  const found = a.value !== null && b.value !== null ? compareSessions([Float64Array.from(a.samples)], [Float64Array.from(b.samples)], { higherIsBetter: metric.direction === 'higher' }) : null;
  const points = pinned.map((at) => plot.points[at]);
  const environments = points.map((point) => point.drawn.data.environment[point.place]);
  const sources = points.map((point) => point.drawn.data.source[point.place]);
  return (
    <>
      {found && (
        <p>
          From A to B: <Effect verdict={metric.direction ? found.verdict : 'same'} effect={found.ratio - 1} />{' '}
          <span class="soft">
            {Number.isFinite(found.high) ? `95 %: ${percent(found.low - 1)} to ${percent(found.high - 1)}` : 'one sample a side tells no interval'}
          </span>
        </p>
      )}
      <EnvironmentDiff a={environments[0]} b={environments[1]} />
      <SourceDiff a={sources[0]} b={sources[1]} />
    </>
  );
}

type Facts = Record<string, unknown>;

function flat(value: unknown, name: string, out: Map<string, string>): void {
  if (value !== null && typeof value === 'object') for (const [key, inner] of Object.entries(value)) flat(inner, name ? `${name}.${key}` : key, out);
  else out.set(name, String(value));
}

export function EnvironmentDiff({ a, b }: { a: number; b: number }) {
  const { value } = useLoaded(() => (a === b ? Promise.resolve(null) : Promise.all([load<Facts>(`environment/${a}`), load<Facts>(`environment/${b}`)])), [a, b]);
  if (a === b) return <p class="soft">Both ran in the same environment.</p>;
  if (!value) return null;
  const [before, after] = value.map((facts) => {
    const out = new Map<string, string>();
    flat(facts, '', out);
    return out;
  });
  const names = [...new Set([...before.keys(), ...after.keys()])].sort().filter((name) => before.get(name) !== after.get(name) && !/^(id|captured_at|variables)(\.|$)/.test(name));
  return (
    <Fold name="environments" start={names.length < 30} title={`Environment: ${plural(names.length, 'difference')}`}>
      <table class="diff">
        <tbody>
          {names.slice(0, 300).map((name) => (
            <tr key={name}>
              <th scope="row">{plain(name)}</th>
              <td class="old">{plain(before.get(name) ?? '–')}</td>
              <td class="new">{plain(after.get(name) ?? '–')}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Fold>
  );
}

interface SourceText {
  hash: string;
  text: string | null;
}

function SourceDiff({ a, b }: { a: number; b: number }) {
  const { value } = useLoaded(() => (a === b || !a || !b ? Promise.resolve(null) : Promise.all([load<SourceText>(`source/${a}`), load<SourceText>(`source/${b}`)])), [a, b]);
  if (!a && !b) return null;
  if (a === b) return <p class="soft">Both ran the same source.</p>;
  if (!value) return null;
  return (
    <Fold name="sources" start title="Source: changed">
      <pre class="code">
        {diff((value[0].text ?? '').split('\n'), (value[1].text ?? '').split('\n')).map((line, at) => (
          <span key={at} class={line.sign === '+' ? 'new' : line.sign === '-' ? 'old' : ''}>
            {`${line.sign} ${plain(line.text)}\n`}
          </span>
        ))}
      </pre>
    </Fold>
  );
}

const MOST_LINES = 2000;

/** Lines that were taken out and put in, by their longest common part. */
export function diff(before: string[], after: string[]): { sign: string; text: string }[] {
  const [old, fresh] = [before.slice(0, MOST_LINES), after.slice(0, MOST_LINES)];
  const longest = Array.from({ length: old.length + 1 }, () => new Uint16Array(fresh.length + 1));
  for (let i = old.length - 1; i >= 0; i--)
    for (let j = fresh.length - 1; j >= 0; j--) longest[i][j] = old[i] === fresh[j] ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
  const out: { sign: string; text: string }[] = [];
  let [i, j] = [0, 0];
  while (i < old.length || j < fresh.length) {
    if (i < old.length && j < fresh.length && old[i] === fresh[j]) {
      out.push({ sign: ' ', text: old[i++] });
      j++;
    } else if (j >= fresh.length || (i < old.length && longest[i + 1][j] >= longest[i][j + 1])) out.push({ sign: '-', text: old[i++] });
    else out.push({ sign: '+', text: fresh[j++] });
  }
  return out;
}

/** The case's source as its last record had it. */
export function Source({ data }: { data: CaseData }) {
  const number = data.n ? data.source[data.n - 1] : 0;
  const { value } = useLoaded(() => (number ? load<SourceText>(`source/${number}`) : Promise.resolve(null)), [number]);
  if (!value?.text) return null;
  return (
    <Fold name="source" class="card" title="Source">
      <pre class="code" tabIndex={0}>
        {plain(value.text)}
      </pre>
    </Fold>
  );
}
