// Zooming with two fingers.

import type uPlot from 'uplot';

/** Two fingers on the chart: what was between them stays between them, however far apart they go. */
export function touches(u: uPlot, show: (min: number, max: number) => void) {
  const on = new Map<number, { x: number; y: number }>();
  let grip: { apart: number; value: number; span: number } | null = null;
  const measure = () => {
    const [a, b] = [...on.values()];
    const left = u.over.getBoundingClientRect().left;
    return { apart: Math.max(20, Math.hypot(a.x - b.x, a.y - b.y)), middle: (a.x + b.x) / 2 - left };
  };
  const put = (event: PointerEvent) => on.set(event.pointerId, { x: event.clientX, y: event.clientY });
  return {
    /** Whether this finger is not the first. */
    down(event: PointerEvent): boolean {
      if (event.pointerType !== 'touch') return false;
      put(event);
      if (on.size < 2) return false;
      const { apart, middle } = measure();
      grip = { apart, value: u.posToVal(middle, 'x'), span: (u.scales.x.max ?? 1) - (u.scales.x.min ?? 0) };
      return true;
    },
    move(event: PointerEvent): boolean {
      if (!on.has(event.pointerId)) return false;
      put(event);
      if (!grip || on.size < 2) return grip !== null;
      const { apart, middle } = measure();
      const span = (grip.span * grip.apart) / apart;
      const min = grip.value - (middle / u.over.clientWidth) * span;
      show(min, min + span);
      return true;
    },
    up(event: PointerEvent): void {
      on.delete(event.pointerId);
      if (!on.size) grip = null; // the finger that stays is not dragging yet
    },
  };
}
