// A heat map of effects: a row for each case, a column for each metric or arm.

import type { Row } from './comparing';
import { percent, plural } from './format';
import { heatOf, type HeatCell } from './pictures';
import { caseLink, named, PictureDownload, plain } from './ui';

const MOST_HEAT_ROWS = 200;

export function HeatMap({ rows }: { rows: Row[] }) {
  const metrics = [...new Set(rows.map((row) => row.metric))].slice(0, 24);
  const cases = [...new Set(rows.map((row) => row.case))].slice(0, MOST_HEAT_ROWS);
  const cells = new Map(rows.map((row) => [JSON.stringify([row.case, row.metric]), row]));
  const cellOf = (name: string, metric: string) => cells.get(JSON.stringify([name, metric]));
  const draw = () =>
    heatOf('How much the candidate differs: orange is worse, blue better', cases, metrics, (name, metric) => {
      const row = cellOf(name, metric);
      return row && heatCell(row);
    });
  return (
    <div class="table-box" tabIndex={0} role="region" aria-label="Heat map of effects">
      <table class="heat">
        <caption>
          How much the candidate differs; <span class="key worse">worse</span> <span class="key better">better</span>, pale where it may be chance.
        </caption>
        <thead>
          <tr>
            <th scope="col">Case</th>
            {metrics.map((metric) => (
              <th key={metric} scope="col">
                {plain(metric)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {cases.map((name) => (
            <tr key={name}>
              <th scope="row">
                <a href={caseLink(name)}>{named(name)}</a>
              </th>
              {metrics.map((metric) => (
                <Cell key={metric} row={cellOf(name, metric)} />
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      <p class="heat-foot">
        <span class="soft">
          {plural(cases.length, 'case')} and {plural(metrics.length, 'metric')}
        </span>
        <PictureDownload name="heat map" draw={draw} />
      </p>
    </div>
  );
}

function heatCell(row: Row): HeatCell {
  const bad = row.ratio > 1 !== (row.direction === 'higher');
  const strength = Math.min(1, Math.abs(Math.log(Math.max(row.ratio, 1e-9))) / Math.log(1.5));
  const step = row.verdict === 'worse' || row.verdict === 'better' ? 1 + Math.round(strength * 3) : 0;
  return { text: percent(row.ratio - 1), tone: `${bad ? 'worse' : 'better'}-${step}` };
}

function Cell({ row }: { row?: Row }) {
  if (!row) return <td />;
  const { text, tone } = heatCell(row);
  return (
    <td class={`cell ${tone}`} title={`${row.verdict}: ${percent(row.low - 1)} to ${percent(row.high - 1)}`}>
      {text}
    </td>
  );
}
