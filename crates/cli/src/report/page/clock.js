// The time that all figures share: what part of the run they show, and which moment the maps show.

const ZOOM_MIN_US = 50;

class Clock {
  constructor(durationUs, onChange) {
    this.duration = Math.max(1, durationUs);
    this.onChange = onChange;
    this.start = 0;
    this.end = this.duration;
    this.moment = 0;
  }

  /** Where a time is in the part shown, from 0 to 1. */
  share(us) {
    return (us - this.start) / (this.end - this.start);
  }

  /** The time at a place in the part shown. */
  at(share) {
    return this.start + share * (this.end - this.start);
  }

  get isWhole() {
    return this.start <= 0 && this.end >= this.duration;
  }

  view(start, end) {
    const span = Math.min(Math.max(end - start, ZOOM_MIN_US), this.duration);
    this.start = Math.min(Math.max(0, start), this.duration - span);
    this.end = this.start + span;
    this.onChange();
  }

  /** Shows `factor` times as long a part; the time at `share` stays where it is. */
  zoom(factor, share = 0.5) {
    const [fixed, span] = [this.at(share), (this.end - this.start) * factor];
    this.view(fixed - share * span, fixed + (1 - share) * span);
  }

  move(share) {
    const by = share * (this.end - this.start);
    this.view(this.start + by, this.end + by);
  }
}

/**
 * Lets the hand zoom and choose on a figure over time.
 * `hand` has `clock`, `choose(us)`, `step(count)` and, perhaps, `hover(event, us, y)`.
 */
function attachTime(sheet, hand) {
  const { element: canvas } = sheet;
  const place = (event) => {
    const bounds = canvas.getBoundingClientRect();
    const { left, width } = sheet.box;
    return Math.min(1, Math.max(0, (event.clientX - bounds.left - left) / width));
  };
  let from = null;

  canvas.addEventListener(
    "wheel",
    (event) => {
      const { clock } = hand();
      const sideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
      // At its widest the figure lets the page scroll on.
      if (clock.isWhole && (sideways || event.deltaY > 0)) return;
      event.preventDefault();
      if (sideways) clock.move((event.deltaX || event.deltaY) / 1000);
      else clock.zoom(Math.exp(Math.max(-200, Math.min(200, event.deltaY)) * 0.002), place(event));
    },
    { passive: false },
  );
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    from = place(event);
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const { clock, hover, redraw } = hand();
    const share = place(event);
    if (from !== null && Math.abs(share - from) * sheet.box.width > 4) {
      sheet.selection = [from, share];
      tip.hide();
      redraw();
    } else if (hover) {
      hover(event, clock.at(share), event.clientY - canvas.getBoundingClientRect().top);
    }
  });
  const release = (event) => {
    const { clock, choose } = hand();
    const chosen = sheet.selection;
    sheet.selection = null;
    if (from === null) return;
    from = null;
    if (chosen) clock.view(clock.at(Math.min(...chosen)), clock.at(Math.max(...chosen)));
    else if (event.type === "pointerup") choose(clock.at(place(event)));
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => tip.hide());
  canvas.addEventListener("dblclick", () => hand().clock.view(0, Infinity));
  canvas.addEventListener("keydown", (event) => {
    const { clock, step } = hand();
    const at = Math.min(1, Math.max(0, clock.share(clock.moment)));
    const keys = {
      ArrowLeft: () => (event.shiftKey ? clock.move(-0.1) : step(-1)),
      ArrowRight: () => (event.shiftKey ? clock.move(0.1) : step(1)),
      "+": () => clock.zoom(0.5, at),
      "=": () => clock.zoom(0.5, at),
      "-": () => clock.zoom(2, at),
      0: () => clock.view(0, Infinity),
    };
    if (!keys[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    keys[event.key]();
  });
}

/** Draws what a drag has chosen so far. */
function drawSelection(sheet) {
  if (!sheet.selection) return;
  const { left, top, width, height } = sheet.box;
  const [from, to] = [Math.min(...sheet.selection), Math.max(...sheet.selection)];
  sheet.brush.fillStyle = colours.of("focus");
  sheet.brush.globalAlpha = 0.16;
  sheet.brush.fillRect(left + from * width, top, (to - from) * width, height);
  sheet.brush.globalAlpha = 1;
}
