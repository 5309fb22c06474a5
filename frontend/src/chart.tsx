// A chart that is looked at: it follows its box, the mouse, fingers and keys.

import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { attach } from './chart_input';
import { Drawing, extent, frameOf, heightOf, toX, type Plot, type View } from './drawing';

export interface ChartProps {
  plot: Plot;
  view: View;
  title: string;
  height?: number;
  pinned?: number[];
  panning?: boolean;
  onView?: (from: number | undefined, to: number | undefined) => void;
  onHover?: (place: number | null, left: number, top: number) => void;
  onPick?: (place: number) => void;
  /** Where in the chart the one point held is; null if it is out of sight, or there are none or two of them. */
  onHeld?: (held: { at: number; left: number; top: number } | null) => void;
}

export function Chart(props: ChartProps) {
  const { plot, view, height = 340 } = props;
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  const [moved, setMoved] = useState<[number, number] | null>(null);
  const [cursor, setCursor] = useState<number | null>(null);
  const [select, setSelect] = useState<[number, number] | null>(null);
  const [from, to] = moved ?? extent(plot, view);
  const frame = frameOf(plot, view, width || 800, height, from, to);
  const now = useRef({ props, frame, cursor });
  now.current = { props, frame, cursor };

  // Before the browser paints, or the first picture would be of another width.
  useLayoutEffect(() => {
    const element = box.current as HTMLDivElement;
    setWidth(element.clientWidth);
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    const detach = attach(element, now, setMoved, setCursor, setSelect);
    return () => {
      observer.disconnect();
      detach();
    };
  }, []);
  useEffect(() => setMoved(null), [view.from, view.to, plot]);
  useEffect(() => setCursor(null), [plot]);
  useEffect(() => {
    const at = props.pinned?.[0];
    if (at === undefined || props.pinned?.length !== 1) return props.onHeld?.(null);
    const left = toX(frame, plot.x[at]);
    props.onHeld?.(left < frame.left || left > frame.left + frame.wide ? null : { at, left, top: heightOf(plot, frame, at) });
  }, [props.pinned?.join(), from, to, width, plot]);
  const known = cursor !== null && cursor < plot.x.length ? cursor : null;
  return (
    <div
      ref={box}
      class="chart"
      tabIndex={0}
      role="application"
      aria-roledescription="chart"
      aria-label={`${props.title}. Left and right arrows move from point to point, Enter picks one, shift with arrows pans, plus and minus zoom, 0 shows all. A table of the same numbers follows.`}
    >
      <svg class="drawing" viewBox={`0 0 ${width || 800} ${height}`} width={width || 800} height={height} aria-hidden="true">
        <Drawing plot={plot} view={view} frame={frame} cursor={known} pinned={props.pinned ?? []} select={select} />
      </svg>
    </div>
  );
}
