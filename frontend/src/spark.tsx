// Small lines without axes, for lists.

import { quantity } from './format';

export function Spark(props: { values: (number | null)[]; mark?: number; verdict?: string; width?: number; height?: number; label?: string; unit?: string }) {
  const { width = 140, height = 32, mark } = props;
  const places = props.values.flatMap((value, at) => (value === null ? [] : [{ value, at }]));
  if (places.length < 2) return <span class="soft">–</span>;
  const all = places.map((place) => place.value);
  const [min, max] = [Math.min(...all), Math.max(...all)];
  const x = (at: number) => 2 + (at / (props.values.length - 1)) * (width - 4);
  const y = (value: number) => height - 3 - ((value - min) / (max - min || 1)) * (height - 6);
  const last = places[places.length - 1];
  const tone = props.verdict === 'better' ? 'better' : props.verdict === 'worse' ? 'worse' : '';
  return (
    <svg class={`spark ${tone}`} viewBox={`0 0 ${width} ${height}`} width={width} height={height} role="img" aria-label={props.label ?? `${places.length} values from ${quantity(min, props.unit)} to ${quantity(max, props.unit)}`}>
      {mark !== undefined && mark >= 0 && <rect class="since" x={x(mark - 0.5)} y={0} width={width - x(mark - 0.5)} height={height} />}
      <polyline points={places.map((place) => `${x(place.at).toFixed(1)},${y(place.value).toFixed(1)}`).join(' ')} />
      <circle cx={x(last.at)} cy={y(last.value)} r={2.4} />
    </svg>
  );
}
