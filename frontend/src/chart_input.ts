// Mouse, wheel, fingers and keys of a chart.

import type { ChartProps } from './chart';
import { extent, firstAt, heightOf, isDim, toX, type Frame, type Plot } from './drawing';

export type Now = { current: { props: ChartProps; frame: Frame; cursor: number | null } };

/** The point nearest to a place of the drawing; null if none is near. */
function nearest(plot: Plot, frame: Frame, left: number, top: number, within = 40): number | null {
  const reachX = ((frame.to - frame.from) / frame.wide) * within;
  const place = frame.from + ((left - frame.left) / frame.wide) * (frame.to - frame.from);
  let [found, least]: [number | null, number] = [null, Infinity];
  for (let at = firstAt(plot, place - reachX); at < plot.x.length && plot.x[at] <= place + reachX; at++) {
    if (isDim(plot, at)) continue;
    const far = Math.hypot(toX(frame, plot.x[at]) - left, (heightOf(plot, frame, at) - top) / 3);
    if (far < least) [found, least] = [at, far];
  }
  return found === null && within < frame.wide ? nearest(plot, frame, left, top, within * 4) : found;
}

/** A stretch that does not leave the data. */
function within(plot: Plot, from: number, to: number): [number, number] {
  const [first, last] = extent(plot, {});
  if (to - from >= last - first) return [first, last];
  const by = Math.max(0, first - from) - Math.max(0, to - last);
  return [from + by, to + by];
}

export function attach(box: HTMLElement, now: Now, setMoved: (range: [number, number] | null) => void, setCursor: (at: number | null) => void, setSelect: (select: [number, number] | null) => void): () => void {
  let timer = 0;
  let pressed: { x: number; from: number; to: number; left: number } | null = null;
  let dragged = false;
  const fingers = new Map<number, number>();
  let grip: { apart: number; value: number; span: number } | null = null;
  const leftOf = (event: MouseEvent) => event.clientX - box.getBoundingClientRect().left;
  const valueAt = (left: number) => {
    const { frame } = now.current;
    return frame.from + ((left - frame.left) / frame.wide) * (frame.to - frame.from);
  };
  const show = (begin: number, end: number) => {
    const [from, to] = within(now.current.props.plot, begin, end);
    setMoved([from, to]);
    clearTimeout(timer);
    // The address follows when the hand rests: it is no place for every frame of a movement.
    timer = window.setTimeout(() => now.current.props.onView?.(from, to), 150);
  };
  const shift = (share: number) => {
    const { from, to } = now.current.frame;
    show(from + (to - from) * share, to + (to - from) * share);
  };
  const zoom = (factor: number, around?: number) => {
    const { from, to } = now.current.frame;
    const centre = around ?? (from + to) / 2;
    if ((to - from) * factor < 1e-6) return;
    show(centre - (centre - from) * factor, centre + (to - centre) * factor);
  };
  const all = () => {
    clearTimeout(timer);
    setMoved(null);
    now.current.props.onView?.(undefined, undefined);
  };
  const point = (at: number | null) => {
    setCursor(at);
    const { props, frame } = now.current;
    const { plot } = props;
    if (at === null) return props.onHover?.(null, 0, 0);
    props.onHover?.(at, toX(frame, plot.x[at]), heightOf(plot, frame, at));
  };
  const pans = (event: PointerEvent) => event.shiftKey || now.current.props.panning || event.pointerType === 'touch';
  const down = (event: PointerEvent) => {
    if (event.button !== 0 || (event.target as Element).closest('button, a')) return;
    const { frame } = now.current;
    const left = leftOf(event);
    if (event.pointerType === 'touch') {
      fingers.set(event.pointerId, left);
      if (fingers.size === 2) {
        const [a, b] = [...fingers.values()];
        grip = { apart: Math.max(20, Math.abs(a - b)), value: valueAt((a + b) / 2), span: frame.to - frame.from };
        dragged = true;
        return;
      }
    }
    if (left < frame.left) return;
    dragged = false;
    pressed = { x: event.clientX, from: frame.from, to: frame.to, left };
    if (event.pointerType !== 'touch') box.setPointerCapture(event.pointerId);
  };
  const move = (event: PointerEvent) => {
    const { props, frame } = now.current;
    if (fingers.has(event.pointerId)) fingers.set(event.pointerId, leftOf(event));
    if (grip && fingers.size === 2) {
      const [a, b] = [...fingers.values()];
      const span = (grip.span * grip.apart) / Math.max(20, Math.abs(a - b));
      const from = grip.value - (((a + b) / 2 - frame.left) / frame.wide) * span;
      return show(from, from + span);
    }
    if (pressed && Math.abs(event.clientX - pressed.x) > 5) dragged = true;
    if (pressed && dragged) {
      if (pans(event)) {
        const by = ((pressed.x - event.clientX) / frame.wide) * (pressed.to - pressed.from);
        return show(pressed.from + by, pressed.to + by);
      }
      return setSelect([pressed.left, leftOf(event)]);
    }
    const top = event.clientY - box.getBoundingClientRect().top;
    if (event.pointerType !== 'touch') point(nearest(props.plot, frame, leftOf(event), top));
  };
  const up = (event: PointerEvent) => {
    fingers.delete(event.pointerId);
    if (!fingers.size) grip = null;
    const start = pressed;
    pressed = null;
    setSelect(null);
    if (!start) return;
    const { props, frame } = now.current;
    if (!dragged) {
      const at = nearest(props.plot, frame, leftOf(event), event.clientY - box.getBoundingClientRect().top);
      if (at !== null) props.onPick?.(at);
    } else if (!pans(event) && !grip) {
      const ends = [start.left, leftOf(event)].map((left) => valueAt(Math.max(frame.left, Math.min(frame.left + frame.wide, left)))).sort((a, b) => a - b);
      if (ends[1] > ends[0]) props.onView?.(ends[0], ends[1]);
    }
  };
  const wheel = (event: WheelEvent) => {
    const across = event.shiftKey ? event.deltaX || event.deltaY : event.deltaX;
    if (event.ctrlKey) zoom(event.deltaY > 0 ? 1.2 : 1 / 1.2, valueAt(leftOf(event)));
    else if (Math.abs(across) > Math.abs(event.shiftKey ? 0 : event.deltaY)) shift(across / now.current.frame.wide);
    else return;
    event.preventDefault();
  };
  const step = (by: number) => {
    const { props, frame, cursor } = now.current;
    const { plot } = props;
    const n = plot.x.length;
    let next = by === -Infinity ? 0 : by === Infinity ? n - 1 : cursor === null ? (by > 0 ? 0 : n - 1) : cursor + by;
    const way = by > 0 && by !== Infinity ? 1 : by === -Infinity ? 1 : -1;
    while (next >= 0 && next < n && isDim(plot, next)) next += way;
    if (next < 0 || next >= n) return;
    if (plot.x[next] < frame.from || plot.x[next] > frame.to) show(plot.x[next] - (frame.to - frame.from) / 2, plot.x[next] + (frame.to - frame.from) / 2);
    point(next);
  };
  const keys: Record<string, (event: KeyboardEvent) => void> = {
    ArrowLeft: (event) => (event.shiftKey ? shift(-0.2) : step(-1)),
    ArrowRight: (event) => (event.shiftKey ? shift(0.2) : step(1)),
    Home: () => step(-Infinity),
    End: () => step(Infinity),
    '+': () => zoom(1 / 1.5),
    '=': () => zoom(1 / 1.5),
    '-': () => zoom(1.5),
    '0': all,
    Escape: all,
    Enter: () => now.current.cursor !== null && now.current.props.onPick?.(now.current.cursor),
  };
  const key = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    event.stopPropagation();
    keys[event.key](event);
  };
  const leave = (event: PointerEvent) => event.pointerType !== 'touch' && !pressed && point(null);
  const listeners: [string, (event: never) => void, AddEventListenerOptions?][] = [
    ['pointerdown', down],
    ['pointermove', move],
    ['pointerup', up],
    ['pointercancel', up],
    ['pointerleave', leave],
    ['wheel', wheel, { passive: false }],
    ['dblclick', all],
    ['keydown', key],
  ];
  for (const [name, listener, options] of listeners) box.addEventListener(name, listener as EventListener, options);
  return () => {
    clearTimeout(timer);
    for (const [name, listener] of listeners) box.removeEventListener(name, listener as EventListener);
  };
}
