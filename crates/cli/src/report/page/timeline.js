// Bytes over time: live, held by the pool, held by the recorded allocator.

const CURVES = [
  { key: "reserved", colour: "other" },
  { key: "physical", colour: "pool" },
  { key: "live", colour: "live" },
];

class Timeline {
  constructor(hand) {
    this.sheet = new Sheet("memory");
    attachTime(this.sheet, () => ({ ...hand(), hover: (event, us) => this.hover(event, us), redraw: () => this.draw() }));
  }

  /** `names` gives each curve's name, `refusals` the times of refused requests. */
  set(curves, clock, names, refusals) {
    [this.curves, this.clock, this.names, this.refusals] = [curves, clock, names, refusals];
    this.shown = CURVES.filter(({ key }) => curves[key]);
    this.most = Math.max(1, ...this.shown.map(({ key }) => curves[key].peak)) * 1.04;
    this.sheet.selection = null;
  }

  /** Lowest and highest of a curve between two moments. */
  between(key, fromUs, toUs) {
    const series = this.curves[key];
    const bin = (us) => Math.floor((us * series.bins) / (this.clock.duration + 1));
    return series.between(bin(fromUs), bin(toUs));
  }

  draw() {
    const { sheet, clock } = this;
    if (!sheet.clear()) return;
    sheet.levels(byteLevels(this.most), this.most, showLevel);
    const { left, top, width, height } = sheet.box;
    const y = (bytes) => top + height - (bytes / this.most) * height;
    for (const { key, colour } of this.shown) {
      const columns = [];
      for (let x = 0; x < width; x += 1) {
        columns.push(this.between(key, clock.at(x / width), clock.at((x + 1) / width)));
      }
      if (key !== "physical") this.fill(columns, y, colour, key === "live" ? [0.22, 0.5] : [0.07, 0]);
      this.stroke(columns, y, colour);
    }
    this.refused();
    sheet.moments(clock);
    sheet.mark(clock);
    drawSelection(sheet);
    this.legend();
    const peaks = this.shown.map(({ key }) => `${this.names[key]} ${showBytes(this.curves[key].peak)}`);
    const part = clock.isWhole ? "the whole run" : `${showTime(clock.start)} to ${showTime(clock.end)}`;
    sheet.element.setAttribute("aria-label", `Bytes over time, ${part}. At most: ${peaks.join(", ")}.`);
  }

  /** Marks along the top where requests were refused. */
  refused() {
    const { brush } = this.sheet;
    const { left, top, width } = this.sheet.box;
    brush.fillStyle = colours.of("lost");
    for (const share of this.refusals.map((us) => this.clock.share(us)).filter((share) => share >= 0 && share <= 1)) {
      brush.fillRect(Math.round(left + share * width) - 1, top, 2, 7);
    }
  }

  /** Fills below the highest values, and more below the lowest. */
  fill(columns, y, colour, strengths) {
    const { brush } = this.sheet;
    const { left, top, height } = this.sheet.box;
    brush.fillStyle = colours.of(colour);
    [1, 0].forEach((bound, index) => {
      if (!strengths[index]) return;
      brush.globalAlpha = strengths[index];
      brush.beginPath();
      brush.moveTo(left, top + height);
      columns.forEach((column, x) => {
        brush.lineTo(left + x, y(column[bound]));
        brush.lineTo(left + x + 1, y(column[bound]));
      });
      brush.lineTo(left + columns.length, top + height);
      brush.fill();
    });
    brush.globalAlpha = 1;
  }

  stroke(columns, y, colour) {
    const { brush } = this.sheet;
    const { left } = this.sheet.box;
    brush.strokeStyle = colours.of(colour);
    brush.lineWidth = colour === "live" ? 1 : 1.75;
    brush.lineJoin = "round";
    brush.beginPath();
    columns.forEach(([low, high], x) => {
      if (x === 0) brush.moveTo(left, y(high));
      brush.lineTo(left + x, y(high));
      if (low < high && colour === "live") brush.lineTo(left + x, y(low));
      brush.lineTo(left + x + 1, y(high));
    });
    brush.stroke();
  }

  legend() {
    const { clock } = this;
    const value = (key) => showBytes(this.between(key, clock.moment, clock.moment)[1]);
    const curves = this.shown.toReversed().map(({ key, colour }) => [colour, this.names[key], value(key), key !== "live"]);
    fillLegend("memory-legend", [...curves, ...(this.refusals.length ? [["lost", "request refused"]] : [])]);
  }

  hover(event, us) {
    const { clock } = this;
    const half = (clock.end - clock.start) / this.sheet.box.width / 2;
    const line = ({ key }) => {
      const [low, high] = this.between(key, Math.max(0, us - half), us + half);
      return [this.names[key], low === high ? showBytes(high) : `${showBytes(low)} – ${showBytes(high)}`];
    };
    const refused = this.refusals.filter((at) => Math.abs(at - us) <= half * 5).length;
    const lines = this.shown.map(line);
    tip.show(event, showMoment(us, half * 2), refused ? [...lines, ["refused", showCount(refused)]] : lines);
  }
}
