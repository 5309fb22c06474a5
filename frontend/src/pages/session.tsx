// One session: its cases, how they ended, what was required; curves, stages, logs, environment, files of each.

import { useEffect, useMemo, useRef } from 'preact/hooks';
import { FileList, type RunFile } from '../artifacts';
import { Curves } from '../curves';
import { load, type Packed } from '../data';
import { save, saveCsv, saveJson } from '../export';
import { moment, percent, plural, quantity, share, words } from '../format';
import type { Running } from '../live';
import { loadEnvironments, primary, samplesOf, type Column, type EnvironmentHead, type SearchIndex, type Trend } from '../model';
import { barsOf } from '../pictures';
import { chosen, link, useQuery, type Route } from '../router';
import { Spark } from '../spark';
import { LINES } from '../theme';
import { attentionSide } from '../sides';
import { caseLink, Choice, Failed, Fold, Loading, named, PictureDownload, plain, Revision, Status, Table, useLoaded, type ColumnOf } from '../ui';
import { lastAttempts, loadSession, type SessionData, type SessionRecord } from '../session_data';

export function SessionPage({ id, route, version, running }: { id: string; route: Route; version: string; running: Running[] }) {
  const [query, change] = useQuery(route);
  const now = running.find((one) => one.id === id);
  const { value, error } = useLoaded(
    async () => {
      const data = await loadSession(id, now !== undefined);
      return { data, environments: data.environments ? new Map(data.environments.map((head) => [head[0], head])) : await loadEnvironments() };
    },
    [id, version, now?.done, now?.current.map((one) => one.case).join()],
  );
  if (error) return <Failed error={error} />;
  if (!value) return <Loading />;
  return <Shown data={value.data} environments={value.environments} query={query} change={change} now={now} />;
}

interface ShownProps {
  data: SessionData;
  environments: Map<number, EnvironmentHead>;
  query: Record<string, string>;
  change: (changes: Record<string, string | undefined>) => void;
  now?: Running;
}

function Shown({ data, environments, query, change, now }: ShownProps) {
  const { session } = data;
  const records = useMemo(() => badFirst(lastAttempts(data.records)), [data]);
  const metricOf = useMemo(() => primaryOfEach(data), [data]);
  const shown = records.filter((record) => !query.q || `${record.case} ${record.variant} ${record.setting.tags?.join(' ') ?? ''}`.toLowerCase().includes(query.q.toLowerCase())).filter((record) => !query.status || record.status === query.status);
  const statuses = [...new Set(records.map((record) => record.status))];
  const { value: index } = useLoaded(() => load<SearchIndex>('search'), []);
  const trends = useMemo(() => new Map(index?.case.map((name, at) => [name, index.trend[at]])), [index]);
  const variants = new Set(records.map((record) => record.variant));
  const metrics = new Set(records.flatMap((record) => metricOf[record.place]?.name ?? []));
  return (
    <>
      <h1>{plain(session.name)}</h1>
      <p class="facts">
        <span>{moment(session.started)}</span>
        <Revision revision={session.revision} />
        {session.branch && <span class="tag">{plain(session.branch)}</span>}
        {variants.size === 1 && [...variants][0] && <span class="tag">{plain([...variants][0])}</span>}
        {metrics.size === 1 && <span class="soft">value: {plain([...metrics][0])}</span>}
        {session.tool && <span class="soft">by {plain(session.tool)}</span>}
        {session.ci && /^https?:/.test(session.ci) && (
          <a href={session.ci} rel="noopener noreferrer">
            CI run
          </a>
        )}
        <a href={link(['compare'], { b: `s:${session.id}` })}>Compare</a>
        {data.attentions.length > 1 && <a href={attentionsLink(session.id, data.attentions)}>Compare its attentions</a>}
      </p>
      {now && (
        <div class="card running" role="status">
          <span class="pulse" aria-hidden="true" /> Running: {now.done} of {now.planned} cases done
          <progress value={now.done} max={now.planned || 1} aria-label="Cases done" />
        </div>
      )}
      <StatusBar records={records} waiting={data.running.length} />
      <div class="bar">
        <label class="choice wide">
          <span>Filter</span>
          <input type="search" value={query.q ?? ''} onInput={(event) => change({ q: (event.target as HTMLInputElement).value })} />
        </label>
        <Choice label="Status" value={query.status ?? ''} options={[['', 'any'], ...statuses.map((status): [string, string] => [status, words(status)])]} onChange={(status) => change({ status })} />
        <span class="grow" />
        <Downloads data={data} records={shown} />
      </div>
      <Table<SessionRecord>
        caption={`Cases of ${session.name}`}
        rows={shown}
        id={(row) => row.place}
        chosen={(row) => query.case === row.case && (query.v ?? '') === row.variant}
        detail={(row) => <Detail record={row} data={data} environments={environments} wanted={query.log ?? ''} onWanted={(log) => change({ log })} />}
        columns={[
          {
            name: 'Case',
            show: (row) => (
              <button type="button" class="linkish" aria-expanded={query.case === row.case && (query.v ?? '') === row.variant} onClick={() => change(query.case === row.case && (query.v ?? '') === row.variant ? CLOSED : { ...CLOSED, case: row.case, v: row.variant })}>
                {named(row.case)}
                {row.variant && variants.size > 1 && <span class="soft"> {plain(row.variant)}</span>}
                {row.setup && <span class="tag">set-up</span>}
              </button>
            ),
            sort: (row) => row.case,
          },
          { name: 'Status', show: (row) => <Ended record={row} />, sort: (row) => row.status, lead: true },
          { name: 'Value', show: (row) => quantity(metricOf[row.place]?.values[row.place], metricOf[row.place]?.unit), sort: (row) => metricOf[row.place]?.values[row.place] ?? NaN, numeric: true },
          { name: 'Last results', show: (row) => <Trending trend={trends.get(row.case)} metric={metricOf[row.place]?.name} /> },
          ...(metrics.size > 1 ? [{ name: 'Metric', show: (row: SessionRecord) => <span class="metric">{plain(metricOf[row.place]?.name ?? '')}</span>, sort: (row: SessionRecord) => metricOf[row.place]?.name ?? '' }] : []),
          ...(records.some((record) => record.outcome.requirements?.length) ? [REQUIRED] : []),
          ...(records.some((record) => record.seconds > 0) ? [TIME] : []),
          ...(records.some((record) => record.attempt > 1) ? [ATTEMPTS] : []),
        ]}
      />
      {data.running.length > 0 && (
        <section aria-label="Waiting and running">
          <h2>To come</h2>
          <ul class="waiting">
            {data.running.map((one) => (
              <li key={one.case}>
                {one.started ? <span class="pulse" aria-hidden="true" /> : <span class="soft">○ </span>} {plain(one.case)} <span class="soft">{one.started ? `running since ${one.started.slice(11, 19)}` : 'waiting'}</span>
              </li>
            ))}
          </ul>
        </section>
      )}
      {!data.environments && <Environments data={data} heads={environments} />}
    </>
  );
}

/** Nothing of a case that was open: where its output was searched, and which stretch of its curves was shown. */
const CLOSED = { case: undefined, v: undefined, log: undefined, at: undefined, from: undefined, to: undefined };

/** The first that is not dense beside dense, or beside the first of all. */
function attentionsLink(id: string, names: string[]): string {
  const baseline = names.includes('dense') ? 'dense' : names[0];
  return link(['compare'], { a: attentionSide(id, baseline), b: attentionSide(id, names.find((name) => name !== baseline) ?? baseline) });
}

function badFirst(records: SessionRecord[]): SessionRecord[] {
  const fine = (record: SessionRecord) => Number(record.status === 'passed' || record.status === 'skipped');
  return [...records].sort((a, b) => fine(a) - fine(b));
}

function primaryOfEach(data: SessionData): (Column | undefined)[] {
  return data.records.map((record) => primary(data.metrics.filter((metric) => !Number.isNaN(metric.values[record.place]))));
}

function StatusBar({ records, waiting }: { records: SessionRecord[]; waiting: number }) {
  const counts = new Map<string, number>();
  for (const record of records) counts.set(record.status, (counts.get(record.status) ?? 0) + 1);
  return (
    <p class="counts">
      {[...counts].map(([status, count]) => (
        <span key={status}>
          <Status status={status} /> <strong>{count}</strong>
        </span>
      ))}
      {waiting > 0 && (
        <span>
          <span class="soft">○ to come</span> <strong>{waiting}</strong>
        </span>
      )}
    </p>
  );
}

/** How a run ended, and in short why. */
function Ended({ record }: { record: SessionRecord }) {
  const why = record.reason.split('\n', 1)[0];
  return (
    <>
      <Status status={record.status} /> {why && <span class="why-short" title={plain(record.reason)}>{plain(why)}</span>}
      {record.disturbed && <span class="busy" title={plain(record.disturbed)}> ⚠ disturbed</span>}
    </>
  );
}

function Trending({ trend, metric }: { trend?: Trend; metric?: string }) {
  return trend?.values && trend.metric === metric ? <Spark values={trend.values} unit={trend.unit} width={110} height={24} /> : null;
}

const TIME: ColumnOf<SessionRecord> = { name: 'Time', show: (row) => quantity(row.seconds, 's'), sort: (row) => row.seconds, numeric: true };
const REQUIRED: ColumnOf<SessionRecord> = { name: 'Required', show: (row) => <Required record={row} />, sort: (row) => worstMargin(row), numeric: true };
const ATTEMPTS: ColumnOf<SessionRecord> = { name: 'Attempts', show: (row) => (row.attempt > 1 ? row.attempt : ''), sort: (row) => row.attempt, numeric: true };

function worstMargin(record: SessionRecord): number {
  const margins = (record.outcome.requirements ?? []).map((check) => check.margin).filter((margin): margin is number => margin !== null);
  return margins.length ? Math.min(...margins) : NaN;
}

function Required({ record }: { record: SessionRecord }) {
  const checks = record.outcome.requirements ?? [];
  if (!checks.length) return null;
  const bad = checks.filter((check) => !check.ok).length;
  return (
    <span class={`status ${bad ? 'bad' : 'good'}`}>
      <span aria-hidden="true">{bad ? '✕' : '✓'}</span> {checks.length - bad} / {checks.length}
    </span>
  );
}

function Downloads({ data, records }: { data: SessionData; records: SessionRecord[] }) {
  const values = (record: SessionRecord) => Object.fromEntries(data.metrics.filter((metric) => !Number.isNaN(metric.values[record.place])).map((metric) => [metric.name, metric.values[record.place]]));
  const name = data.session.name;
  return (
    <span class="downloads">
      <span class="soft">Download</span>
      <button type="button" onClick={() => saveCsv(name, ['case', 'variant', 'status', 'seconds', 'metric', 'unit', 'value'], records.flatMap((record) => data.metrics.filter((metric) => !Number.isNaN(metric.values[record.place])).map((metric) => [record.case, record.variant, record.status, record.seconds, metric.name, metric.unit, metric.values[record.place]])))}>
        CSV
      </button>
      <button type="button" onClick={() => saveJson(name, { session: data.session, records: records.map((record) => ({ ...record, metrics: values(record) })) })}>
        JSON
      </button>
    </span>
  );
}

interface RunFiles {
  log?: { text: string; bytes: number; cut: boolean };
  resources?: Record<string, Packed>;
  gpus?: Record<string, Packed>;
  files?: RunFile[];
}

function Detail({ record, data, environments, wanted, onWanted }: { record: SessionRecord; data: SessionData; environments: Map<number, EnvironmentHead>; wanted: string; onWanted: (text: string) => void }) {
  const { value: files } = useLoaded(() => (record.files ? load<RunFiles>(`files/${data.session.id}/${record.place}`, data.running.length > 0) : Promise.resolve({} as RunFiles)), [record.place, data]);
  const metrics = data.metrics.filter((metric) => !Number.isNaN(metric.values[record.place]));
  const head = environments.get(record.environment);
  return (
    <div class="record">
      <p>
        <a href={caseLink(record.case)}>History of this case</a> · {moment(record.time)}
        {head && <span class="soft"> on {plain(head[5] || head[1])}</span>}
      </p>
      {record.reason && <p class="reason">{plain(record.reason)}</p>}
      {record.outcome.warnings?.map((warning) => (
        <p key={warning} class="warning">
          ⚠ {plain(warning)}
        </p>
      ))}
      <Requirements record={record} />
      <Stages metrics={metrics} place={record.place} />
      <Timings timings={record.outcome.timings_s} />
      {files?.resources && <Curves title="Memory and CPU" kind="resources" columns={files.resources} name={`${record.case} resources`} />}
      {files?.gpus && <Curves title="GPUs" kind="gpus" columns={files.gpus} name={`${record.case} gpus`} />}
      <Fold name="metrics" start title={plural(metrics.length, 'metric')}>
        <dl class="metrics">
          {metrics.map((metric) => (
            <div key={metric.name + metric.unit}>
              <dt>
                <a href={caseLink(record.case, metric.name)}>{plain(metric.name)}</a>
              </dt>
              <dd>
                {quantity(metric.values[record.place], metric.unit)}
                <Spread metric={metric} place={record.place} />
              </dd>
            </div>
          ))}
        </dl>
      </Fold>
      {files?.log && <Log log={files.log} name={`${data.session.name} ${record.case}`} wanted={wanted} onWanted={onWanted} />}
      {files && !files.log && chosen('at') === 'log' && <p class="soft">What this run wrote is not at hand here: it wrote nothing, or its files are not where this page was made.</p>}
      <Command record={record} />
      {files && <FileList files={files.files ?? []} named={record.setting.artifacts ?? []} directory={data.directory} />}
    </div>
  );
}

function Spread({ metric, place }: { metric: Column; place: number }) {
  const samples = samplesOf(metric, place);
  if (samples.length < 2) return null;
  const [low, high] = [Math.min(...samples), Math.max(...samples)];
  return (
    <span class="soft">
      {' '}
      ({samples.length} samples, {quantity(low, metric.unit)} to {quantity(high, metric.unit)})
    </span>
  );
}

const SIGNS: Record<string, string> = { exact_value: '=', min_value: '≥', max_value: '≤' };

function Requirements({ record }: { record: SessionRecord }) {
  const checks = record.outcome.requirements ?? [];
  if (!checks.length) return null;
  return (
    <table class="requirements">
      <caption>Requirements</caption>
      <thead>
        <tr>
          <th scope="col">Required</th>
          <th scope="col">Measured</th>
          <th scope="col">Margin</th>
          <th scope="col">Holds</th>
        </tr>
      </thead>
      <tbody>
        {checks.map((check, at) => (
          <tr key={at}>
            <td>
              {plain(check.metric)} {SIGNS[check.kind] ?? check.kind} {shown(check.bound)}
              {check.severity === 'warn' && <span class="soft"> (warns)</span>}
            </td>
            <td>{check.actual === null ? plain(check.reason ?? 'nothing') : shown(check.actual)}</td>
            <td>
              <Margin margin={check.margin} ok={check.ok} />
            </td>
            <td>
              <span class={`status ${check.ok ? 'good' : 'bad'}`}>{check.ok ? '✓ yes' : '✕ no'}</span>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

const shown = (value: unknown) => (typeof value === 'number' ? quantity(value) : plain(String(value)));

function Margin({ margin, ok }: { margin: number | null; ok: boolean }) {
  if (margin === null || !Number.isFinite(margin)) return null;
  const share = Math.min(1, Math.abs(margin));
  return (
    <span class="margin">
      <svg width="80" height="10" aria-hidden="true">
        <rect class="track" width="80" height="10" rx="3" />
        <rect class={ok ? 'good' : 'bad'} x={margin < 0 ? 40 - share * 40 : 40} width={Math.max(2, share * 40)} height="10" />
      </svg>{' '}
      {percent(margin)}
    </span>
  );
}

function Bars({ title, kind, rows }: { title: string; kind: string; rows: [name: string, seconds: number][] }) {
  const total = rows.reduce((sum, [, seconds]) => sum + seconds, 0);
  if (!rows.length || !total) return null;
  return (
    <Fold name={kind} title={title} start>
      <div class="bars">
        {rows.map(([name, seconds], at) => (
          <div key={name}>
            <span class="bar-name">{plain(name)}</span>
            <span class="bar-box">
              <span class={`bar-fill ${LINES[at % LINES.length]}`} style={{ width: `${(seconds / total) * 100}%` }} />
            </span>
            <span class="number">
              {quantity(seconds, 's')} <span class="soft">{share(seconds / total, 2)}</span>
            </span>
          </div>
        ))}
      </div>
      <PictureDownload name={title} draw={() => barsOf(title, rows)} />
    </Fold>
  );
}

/** Phases that a pool adds to what the node counts as the total. */
const OUTSIDE = ['placement', 'transfer'];

function Timings({ timings }: { timings?: Record<string, number> }) {
  const { total, ...parts } = timings ?? {};
  const rows = Object.entries(parts).filter((row): row is [string, number] => typeof row[1] === 'number' && row[1] > 0);
  const inside = rows.reduce((sum, [name, seconds]) => (OUTSIDE.includes(name) ? sum : sum + seconds), 0);
  if (total > inside) rows.push(['the rest', total - inside]);
  return rows.length > 1 ? <Bars title="Phases" kind="phases" rows={rows} /> : null;
}

function Stages({ metrics, place }: { metrics: Column[]; place: number }) {
  const rows = metrics.flatMap((metric): [string, number][] => {
    const found = /^task_(.+)_process_time_sum$/.exec(metric.name);
    return found ? [[found[1], metric.values[place]]] : [];
  });
  return <Bars title="Stages of the pipeline" kind="stages" rows={rows} />;
}

const MOST_LOG_LINES = 3000;

function Log({ log, name, wanted, onWanted }: { log: { text: string; bytes: number; cut: boolean }; name: string; wanted: string; onWanted: (text: string) => void }) {
  const box = useRef<HTMLPreElement>(null);
  const meant = chosen('at') === 'log';
  useEffect(() => {
    if (!meant) return;
    box.current?.closest('details')?.scrollIntoView();
    box.current?.focus({ preventScroll: true });
  }, [meant]);
  const lines = useMemo(() => log.text.replace(/\n$/, '').split('\n').map((line) => plain(line.replace(/\r+$/, '').split('\r').pop() ?? '').replaceAll(/\ufffd\[[0-9;]*[A-Za-z]/g, '')), [log]);
  const found = wanted ? lines.map((line, at): [number, string] => [at, line]).filter(([, line]) => line.toLowerCase().includes(wanted.toLowerCase())) : lines.map((line, at): [number, string] => [at, line]);
  const shownLines = found.slice(-MOST_LOG_LINES);
  return (
    <Fold
      name="output"
      start
      title={
        <>
          Output <span class="soft">{quantity(log.bytes, 'bytes')}{log.cut && ', its end'}</span>
        </>
      }
    >
      <div class="bar">
        <label class="choice">
          <span>Search the output</span>
          <input type="search" value={wanted} onInput={(event) => onWanted((event.target as HTMLInputElement).value)} />
        </label>
        {wanted && (
          <span class="soft" role="status">
            {plural(found.length, 'line')}
          </span>
        )}
        <span class="grow" />
        <span class="downloads">
          <span class="soft">Download</span>
          <button type="button" onClick={() => save(`${name}.txt`, 'text/plain', log.text)}>
            TXT
          </button>
        </span>
      </div>
      <pre class="code log" tabIndex={0} ref={box}>
        {shownLines.map(([at, line]) => (
          <span key={at}>
            <i>{at + 1}</i>
            {`${line}\n`}
          </span>
        ))}
      </pre>
    </Fold>
  );
}

function Command({ record }: { record: SessionRecord }) {
  const { command = [], params = {}, tags = [] } = record.setting;
  if (!command.length && !Object.keys(params).length) return null;
  return (
    <Fold name="command" title="Command and parameters">
      {command.length > 0 && <pre class="code">{plain(command.join(' '))}</pre>}
      <dl class="metrics">
        {Object.entries(params).map(([name, value]) => (
          <div key={name}>
            <dt>{plain(name)}</dt>
            <dd>{plain(typeof value === 'object' ? JSON.stringify(value) : String(value))}</dd>
          </div>
        ))}
      </dl>
      {tags.map((tag) => (
        <span key={tag} class="tag">
          {plain(tag)}
        </span>
      ))}
    </Fold>
  );
}

function Environments({ data, heads }: { data: SessionData; heads: Map<number, EnvironmentHead> }) {
  const numbers = [...new Set(data.records.map((record) => record.environment))].filter((number) => heads.has(number));
  return (
    <>
      {numbers.map((number) => (
        <Environment key={number} number={number} head={heads.get(number) as EnvironmentHead} />
      ))}
    </>
  );
}

function Environment({ number, head }: { number: number; head: EnvironmentHead }) {
  const name = plain([head[5], head[3] && `Python ${head[3]}`, head[4]].filter(Boolean).join(', ') || head[1]);
  return (
    <Fold name={`env-${number}`} class="card" title={`Environment ${name}`}>
      <EnvironmentFacts number={number} />
    </Fold>
  );
}

function EnvironmentFacts({ number }: { number: number }) {
  const { value } = useLoaded(() => load<Record<string, unknown>>(`environment/${number}`), [number]);
  if (!value) return null;
  const { packages = {}, ...facts } = value as { packages?: Record<string, string> };
  return (
    <>
      <pre class="code" tabIndex={0}>{plain(JSON.stringify(facts, null, 2))}</pre>
      <dl class="metrics">
        {Object.entries(packages).map(([name, version]) => (
          <div key={name}>
            <dt>{plain(name)}</dt>
            <dd>{plain(version)}</dd>
          </div>
        ))}
      </dl>
    </>
  );
}
