// How the values are spread: all samples of the points shown, before and after each change.

import { useMemo, useRef } from 'preact/hooks';
import type { CasePlot } from './case_plot';
import type { Line, View } from './drawing';
import { plural, quantity, share } from './format';
import { samplesOf, type Column } from './model';
import { quantile } from './stats';
import { LINES } from './theme';
import { DrawingDownload, plain } from './ui';

interface Part {
  label: string;
  colour: string;
  sorted: Float64Array;
}

const BINS = 48;

export function Distribution({ plot, view, metric, name }: { plot: CasePlot; view: View; metric: Column; name: string }) {
  const parts = useMemo(() => partsOf(plot, view), [plot, view.from, view.to]);
  const box = useRef<HTMLDivElement>(null);
  return (
    <div ref={box}>
      {parts.length > 0 && (
        <>
          <Histogram parts={parts} metric={metric} />
          <DrawingDownload name={`${name} distribution`} box={box} />
          <div class="table-box">
            <table>
              <thead>
                <tr>
                  <th scope="col">Samples</th>
                  {['n', 'min', '25 %', 'median', '75 %', 'max', 'spread'].map((head) => (
                    <th key={head} scope="col" class="number">
                      {head}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {parts.map((part) => {
                  const cuts = [0, 0.25, 0.5, 0.75, 1].map((share) => quantile(part.sorted, share));
                  return (
                    <tr key={part.label}>
                      <th scope="row">
                        <i class={`swatch ${part.colour}`} aria-hidden="true" /> {plain(part.label)}
                      </th>
                      <td class="number">{part.sorted.length}</td>
                      {cuts.map((cut, at) => (
                        <td key={at} class="number">
                          {quantity(cut, metric.unit)}
                        </td>
                      ))}
                      <td class="number">{cuts[2] ? share((cuts[3] - cuts[1]) / Math.abs(cuts[2]), 2) : '–'}</td>
                    </tr>
                  );
                })}
              </tbody>
            </table>
          </div>
        </>
      )}
    </div>
  );
}

const MOST_PARTS = 8;

/** Lines are never mixed: what two machines measured is spread for another reason than chance. */
function partsOf(plot: CasePlot, view: View): Part[] {
  const cuts = [...plot.changes.map((change) => change.to), ...plot.epochs.map((epoch) => epoch.x)].sort((a, b) => a - b);
  const lines = plot.lines.filter((line) => !line.dim);
  const parts = lines.flatMap((line) => {
    const named = lines.length > 1 ? [line.label] : [];
    return samplesBetween(plot, view, line, cuts).map((values, at) => ({ label: [...named, stretch(at, cuts.length)].filter(Boolean).join(', ') || 'all', values }));
  });
  return parts
    .filter((part) => part.values.length)
    .slice(0, MOST_PARTS)
    .map(({ label, values }, at) => ({ label, colour: LINES[at % LINES.length], sorted: Float64Array.from(values).sort() }));
}

function stretch(at: number, cuts: number): string {
  if (!cuts) return '';
  return at === 0 ? 'before the first change' : at === cuts ? 'since the last change' : `after change ${at}`;
}

function samplesBetween(plot: CasePlot, view: View, line: Line, cuts: number[]): number[][] {
  const groups: number[][] = Array.from({ length: cuts.length + 1 }, () => []);
  for (const at of line.places) {
    const point = plot.points[at];
    if (plot.x[at] < (view.from ?? -Infinity) || plot.x[at] > (view.to ?? Infinity) || point.drawn.data.status[point.place] !== 'passed') continue;
    const part = cuts.filter((cut) => cut <= plot.x[at]).length;
    for (const sample of samplesOf(point.drawn.column, point.place)) groups[part].push(sample);
  }
  return groups;
}

function Histogram({ parts, metric }: { parts: Part[]; metric: Column }) {
  const [width, height] = [900, 180];
  const low = Math.min(...parts.map((part) => part.sorted[0]));
  const high = Math.max(...parts.map((part) => part.sorted[part.sorted.length - 1]));
  const span = high - low || 1;
  const counts = parts.map((part) => {
    const bins = new Array<number>(BINS).fill(0);
    for (const value of part.sorted) bins[Math.min(BINS - 1, Math.floor(((value - low) / span) * BINS))]++;
    return bins.map((count) => count / part.sorted.length);
  });
  const most = Math.max(...counts.flat());
  const total = parts.reduce((sum, part) => sum + part.sorted.length, 0);
  return (
    <svg class="histogram" viewBox={`0 0 ${width} ${height + 22}`} role="img" aria-label={`Histogram of ${plural(total, 'sample')} from ${quantity(low, metric.unit)} to ${quantity(high, metric.unit)}; the table below has its quartiles`}>
      {counts.map((bins, part) =>
        bins.map((count, bin) => {
          const tall = (count / most) * height;
          return <rect key={`${part}-${bin}`} class={parts[part].colour} x={(bin / BINS) * width + 1} y={height - tall} width={width / BINS - 2} height={tall} />;
        }),
      )}
      {[0, 0.25, 0.5, 0.75, 1].map((share) => (
        <text key={share} x={share * width} y={height + 16} text-anchor={share === 0 ? 'start' : share === 1 ? 'end' : 'middle'}>
          {quantity(low + span * share, metric.unit)}
        </text>
      ))}
    </svg>
  );
}
