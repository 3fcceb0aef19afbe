// The driver's calls: when, which, and what they cost.

/** Verbs that stand for themselves; all others are one group. */
const VERBS = [
  ["create", "verb-1"],
  ["map", "verb-2"],
  ["set_rights", "verb-3"],
  ["unmap", "verb-4"],
  ["release", "verb-5"],
];
const OTHERS = "others";
const BAR_WIDTH = 4;

function colourOfVerb(verb) {
  const known = VERBS.find(([name]) => name === verb);
  return known ? known[1] : "verb-6";
}

class CallChart {
  constructor(hand) {
    this.sheet = new Sheet("calls");
    attachTime(this.sheet, () => ({ ...hand(), hover: (event, us) => this.hover(event, us), redraw: () => this.draw() }));
  }

  /** `ofWhom` is said of the calls where it is not plain. */
  set(packed, clock, ofWhom) {
    [this.clock, this.ofWhom] = [clock, ofWhom];
    this.bins = packed.bins;
    this.groups = new Map();
    for (const [verb, { bin, calls, cost_us: cost }] of Object.entries(packed.verbs)) {
      const group = VERBS.some(([name]) => name === verb) ? verb : OTHERS;
      const sums = this.groups.get(group) || { calls: new Float64Array(this.bins), cost: new Float64Array(this.bins) };
      const bins = unpack(Uint32Array, bin);
      unpack(Uint32Array, calls).forEach((count, at) => (sums.calls[bins[at]] += count));
      unpack(Float32Array, cost).forEach((us, at) => (sums.cost[bins[at]] += us));
      this.groups.set(group, sums);
    }
    this.order = [...VERBS.map(([name]) => name), OTHERS].filter((name) => this.groups.has(name));
    this.sheet.selection = null;
  }

  /** The bars of the part shown: for each its bins and what each group cost in them. */
  bars() {
    const { clock, bins } = this;
    const { width } = this.sheet.box;
    const perUs = bins / (clock.duration + 1);
    const shown = (clock.end - clock.start) * perUs;
    const each = Math.max(1, Math.ceil(shown / Math.floor(width / BAR_WIDTH)));
    const first = Math.floor((clock.start * perUs) / each) * each;
    const bars = [];
    for (let from = first; from < Math.min(bins, clock.end * perUs); from += each) {
      const to = Math.min(bins, from + each);
      const sum = (list) => list.subarray(from, to).reduce((total, value) => total + value, 0);
      const parts = this.order.map((name) => ({ name, calls: sum(this.groups.get(name).calls), cost: sum(this.groups.get(name).cost) }));
      bars.push({ start: from / perUs, end: to / perUs, parts, cost: parts.reduce((total, part) => total + part.cost, 0) });
    }
    return bars;
  }

  draw() {
    const { sheet, clock } = this;
    if (!sheet.clear()) return;
    this.drawn = this.bars();
    const most = Math.max(1, ...this.drawn.map((bar) => bar.cost)) * 1.06;
    sheet.levels(stepped(most, niceStep(most / 4)), most, (us) => (us ? showTime(us) : "0"));
    const { left, top, width, height } = sheet.box;
    sheet.brush.save();
    sheet.brush.beginPath();
    sheet.brush.rect(left, top, width, height);
    sheet.brush.clip();
    for (const bar of this.drawn.filter(({ cost }) => cost > 0)) {
      const x = left + clock.share(bar.start) * width;
      const wide = Math.max(1.5, (clock.share(bar.end) - clock.share(bar.start)) * width - 1);
      let y = top + height;
      for (const { name, cost } of bar.parts) {
        const tall = (cost / most) * height;
        sheet.brush.fillStyle = colours.of(colourOfVerb(name));
        sheet.brush.fillRect(x, y - tall, wide, tall);
        y -= tall;
      }
      // A bar too low to see is still there.
      if (top + height - y < 1.5) sheet.brush.fillRect(x, top + height - 1.5, wide, 1.5);
    }
    sheet.brush.restore();
    sheet.moments(clock);
    sheet.mark(clock);
    drawSelection(sheet);
    const total = this.drawn.reduce((sum, bar) => sum + bar.cost, 0);
    const [{ start, end }] = this.drawn;
    byId("calls-about").textContent = `A bar is the driver time of ${showTime(end - start)} of the run${this.ofWhom}.`;
    sheet.element.setAttribute("aria-label", `Driver time over the part shown: ${showTime(total)}.`);
  }

  hover(event, us) {
    const bar = this.drawn.find(({ start, end }) => us >= start && us < end);
    if (!bar) return tip.hide();
    const step = bar.end - bar.start;
    const parts = bar.parts.filter(({ calls }) => calls > 0);
    const lines = parts.map(({ name, calls, cost }) => [`${name} × ${showCount(calls)}`, showTime(cost)]);
    tip.show(event, `${showMoment(bar.start, step)}, ${showTime(step)} long`, lines.length ? lines : [["no call", ""]]);
  }
}

/** The calls of the whole run, dearest verb first. */
function fillVerbs(verbs) {
  const total = Object.values(verbs).reduce((sum, { cost_us: cost }) => sum + cost, 0);
  // Questions that were not priced cost nothing and say nothing here; all figures have them.
  const priced = Object.entries(verbs).filter(([, { cost_us: cost }]) => cost > 0);
  const sorted = priced.sort(([, one], [, other]) => other.cost_us - one.cost_us);
  const row = ([verb, { calls, cost_us: cost }]) => {
    const bar = element("i");
    bar.style.width = `${total ? (cost / total) * 100 : 0}%`;
    const share = element("span", { class: "share" }, bar);
    share.style.setProperty("--swatch", `var(--${colourOfVerb(verb)})`);
    const cells = [showCount(calls), showTime(cost), showTime(cost / calls), share];
    return element("tr", {}, element("td", {}, verb), ...cells.map((cell) => element("td", {}, cell)));
  };
  byId("verbs").tBodies[0].replaceChildren(...sorted.map(row));
}

/** The requests that waited longest; each leads to its moment. */
function fillStalls(stalls, visit) {
  const row = (stall) => {
    const link = element("button", { type: "button" }, showMoment(stall.time_us, 1000));
    link.addEventListener("click", () => visit(stall.time_us));
    const moved = Math.max(0, stall.mapped - stall.created);
    const cells = [showBytes(stall.bytes), showTime(stall.cost_us), ...[stall.created, moved, stall.unmapped].map(showCount)];
    return element("tr", {}, element("td", {}, link), ...cells.map((cell) => element("td", {}, cell)));
  };
  byId("stalls").tBodies[0].replaceChildren(...stalls.slice(0, 10).map(row));
}
