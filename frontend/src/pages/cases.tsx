// All cases, and a search over their names, metrics and tags.

import { useMemo } from 'preact/hooks';
import { load } from '../data';
import { saveCsv, saveJson } from '../export';
import { ago, plural, quantity, share } from '../format';
import { STATUS, type SearchIndex, type Trend } from '../model';
import { useQuery, type Route } from '../router';
import { Spark } from '../spark';
import { LOUD } from '../stats';
import { caseLink, Choice, Failed, Loading, named, plain, Status, Table, useLoaded } from '../ui';

export function CasesPage({ route }: { route: Route }) {
  const { value: index, error } = useLoaded(() => load<SearchIndex>('search'), []);
  const [query, change] = useQuery(route);
  const texts = useMemo(() => index?.case.map((name, at) => searchable(index, name, at)), [index]);
  if (error) return <Failed error={error} />;
  if (!index || !texts) return <Loading />;
  const wanted = (query.q ?? '').toLowerCase().split(/\s+/).filter(Boolean);
  const rows = index.case
    .map((_, at) => at)
    .filter((at) => wanted.every((word) => texts[at].includes(word)))
    .filter((at) => !query.tag || index.tags[at].includes(index.tag_names.indexOf(query.tag)))
    // Those whose very name is meant come first.
    .sort((a, b) => Number(!isNamed(index.case[a], wanted)) - Number(!isNamed(index.case[b], wanted)))
    .filter((at) => !query.status || (query.status === 'passed') === (index.status[at] === 'p'));
  return (
    <>
      <h1>Cases</h1>
      <div class="bar">
        <label class="choice wide">
          <span>Search</span>
          <input type="search" value={query.q ?? ''} placeholder="words of names, metric:…, tag:…" onInput={(event) => change({ q: (event.target as HTMLInputElement).value })} />
        </label>
        {index.tag_names.length > 0 && <Choice label="Tag" value={query.tag ?? ''} options={[['', 'any'], ...index.tag_names.map((tag): [string, string] => [tag, plain(tag)])]} onChange={(tag) => change({ tag })} />}
        <Choice label="Last run" value={query.status ?? ''} options={[['', 'any'], ['passed', 'passed'], ['bad', 'not passed']]} onChange={(status) => change({ status })} />
        <span class="soft" role="status">
          {plural(rows.length, 'case')}
        </span>
        <span class="grow" />
        <Downloads index={index} rows={rows} />
      </div>
      <Table<number>
        caption="Cases"
        rows={rows}
        id={(at) => index.case[at]}
        columns={[
          { name: 'Case', show: (at) => <a href={caseLink(index.case[at])}>{named(index.case[at])}</a>, sort: (at) => index.case[at] },
          { name: 'Last run', show: (at) => <Status status={STATUS[index.status[at]]} />, sort: (at) => index.status[at] },
          { name: 'Value', show: (at) => quantity(index.trend[at].values?.at(-1), index.trend[at].unit), sort: (at) => index.trend[at].values?.at(-1) ?? NaN, numeric: true },
          { name: 'Last results', show: (at) => <Spark values={index.trend[at].values ?? []} unit={index.trend[at].unit} width={120} height={26} /> },
          { name: 'Noise', show: (at) => <NoiseOf trend={index.trend[at]} />, sort: (at) => index.trend[at].noise?.[0]?.[3] ?? NaN, numeric: true },
          { name: 'When', show: (at) => <span class="when">{ago(index.last[at])}</span>, sort: (at) => index.last[at] },
          { name: 'Metric', show: (at) => <Metrics index={index} at={at} />, sort: (at) => index.trend[at].metric ?? '' },
          ...(index.tag_names.length ? [{ name: 'Tags', show: (at: number) => index.tags[at].map((tag) => <span key={tag} class="tag">{plain(index.tag_names[tag])}</span>) }] : []),
        ]}
      />
    </>
  );
}

function Downloads({ index, rows }: { index: SearchIndex; rows: number[] }) {
  const told = () =>
    rows.map((at) => ({ case: index.case[at], status: STATUS[index.status[at]], last: index.last[at], records: index.records[at], metric: index.trend[at].metric, value: index.trend[at].values?.at(-1), metrics: index.metrics[at].map((metric) => index.metric_names[metric]), tags: index.tags[at].map((tag) => index.tag_names[tag]) }));
  return (
    <span class="downloads">
      <span class="soft">Download</span>
      <button type="button" onClick={() => saveCsv('cases', ['case', 'status', 'last', 'records', 'metrics', 'tags'], told().map((row) => [row.case, row.status, row.last, row.records, row.metrics.join(' '), row.tags.join(' ')]))}>
        CSV
      </button>
      <button type="button" onClick={() => saveJson('cases', told())}>
        JSON
      </button>
    </span>
  );
}

const isNamed = (name: string, wanted: string[]) => wanted.every((word) => name.toLowerCase().includes(word));

function searchable(index: SearchIndex, name: string, at: number): string {
  const metrics = index.metrics[at].map((metric) => `metric:${index.metric_names[metric]}`);
  const tags = index.tags[at].map((tag) => `tag:${index.tag_names[tag]}`);
  return [name, ...metrics, ...tags].join(' ').toLowerCase();
}

/** How much results of one level differ by themselves. */
function NoiseOf({ trend }: { trend: Trend }) {
  const spread = trend.noise?.[0]?.[3];
  return spread === undefined || spread === null ? <span class="soft">–</span> : <span class={spread > LOUD ? 'busy' : 'soft'}>±{share(Math.expm1(spread), 2)}</span>;
}

/** The metric that is shown, and how many others there are. */
function Metrics({ index, at }: { index: SearchIndex; at: number }) {
  const names = index.metrics[at].map((metric) => index.metric_names[metric]);
  const main = index.trend[at].metric ?? names[0] ?? '';
  return (
    <span class="soft" title={names.map(plain).join(', ')}>
      {plain(main)}
      {names.length > 1 && ` +${names.length - 1}`}
    </span>
  );
}
