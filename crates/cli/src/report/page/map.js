// Maps of where memory stood: over time and at one moment, in the order of addresses or of handles.

const ROWS = 240;

/** One of the two orders that granules are drawn in. */
const ORDERS = {
  address: {
    part: (stays) => [0, Math.max(1, stays.addressGranules)],
    place: (stays, stay) => stays.place[stay],
    has: (stays, stay) => stays.place[stay] !== NOWHERE,
  },
  chunk: {
    part: (stays, device) => {
      const one = stays.devices.find((known) => known.device === device);
      return one ? [one.place, one.granules] : [0, Math.max(1, stays.handleTotal)];
    },
    place: (stays, stay) => stays.handlePlace[stays.handle[stay]],
    has: (stays, stay) => stays.state[stay] === CURRENT || stays.state[stay] === IDLE,
  },
};

/** A map in one order: over time, and at the moment. */
class MemoryMap {
  constructor(name, hand, highlight) {
    this.order = ORDERS[name];
    this.name = name;
    this.overTime = new Sheet(`${name}-time`);
    this.now = new Sheet(`${name}-now`);
    this.highlight = highlight;
    attachTime(this.overTime, () => ({ ...hand(), hover: (event, us, y) => this.hoverTime(event, us, y), redraw: () => this.drawTime() }));
    this.now.element.addEventListener("pointermove", (event) => this.hoverNow(event));
    this.now.element.addEventListener("pointerleave", () => {
      tip.hide();
      highlight(NOWHERE);
    });
  }

  /** Shows stays in some colours; of one device only, or with null of all. */
  set(stays, clock, { colouring, device }) {
    [this.stays, this.clock, this.colouring, this.device] = [stays, clock, colouring, device];
    [this.first, this.total] = this.order.part(stays, device);
    this.rows = Math.min(ROWS, this.total);
    this.image = null;
    this.overTime.selection = null;
    this.weigh();
    this.shown = colouring.shades.map((_, shade) => this.weights[shade].some((part) => part > 0));
  }

  /** Whether a stay is on the map. */
  has(stay) {
    return this.order.has(this.stays, stay) && (this.device === null || this.stays.deviceOf(stay) === this.device);
  }

  place(stay) {
    return this.order.place(this.stays, stay) - this.first;
  }

  mix(stay, survey) {
    return this.colouring.mix(this.stays, stay, survey);
  }

  /** How much of each row is of each shade, at each survey. */
  weigh() {
    const { stays, rows, total } = this;
    const surveys = stays.times.length;
    this.weights = this.colouring.shades.map(() => new Float32Array(surveys * rows));
    const perRow = total / rows;
    for (let stay = 0; stay < stays.count; stay += 1) {
      if (!this.has(stay)) continue;
      const start = this.place(stay);
      const end = start + stays.granules[stay];
      const [from, to] = [Math.floor(start / perRow), Math.min(rows - 1, Math.floor((end - 1e-6) / perRow))];
      for (let survey = stays.first[stay]; survey <= stays.last[stay]; survey += 1) {
        const mix = this.mix(stay, survey);
        for (let row = from; row <= to; row += 1) {
          const part = (Math.min(end, (row + 1) * perRow) - Math.max(start, row * perRow)) / perRow;
          for (let shade = 0; shade < mix.length; shade += 1) {
            if (mix[shade]) this.weights[shade][survey * rows + row] += mix[shade] * part;
          }
        }
      }
    }
  }

  palette() {
    return this.colouring.shades.map(([colour]) => colours.parts(colour));
  }

  /** The map over time as an image, a column a survey. */
  paint() {
    const { rows, stays } = this;
    const surveys = stays.times.length;
    const image = new ImageData(surveys, rows);
    const palette = this.palette();
    const ground = colours.parts("well");
    for (let survey = 0; survey < surveys; survey += 1) {
      for (let row = 0; row < rows; row += 1) {
        let rest = 1;
        const mixed = [0, 0, 0];
        palette.forEach((colour, shade) => {
          const part = this.weights[shade][survey * rows + row];
          rest -= part;
          for (let channel = 0; channel < 3; channel += 1) mixed[channel] += colour[channel] * part;
        });
        const at = (row * surveys + survey) * 4;
        for (let channel = 0; channel < 3; channel += 1) {
          image.data[at + channel] = mixed[channel] + ground[channel] * Math.max(0, rest);
        }
        image.data[at + 3] = 255;
      }
    }
    this.image = element("canvas", { width: surveys, height: rows });
    this.image.getContext("2d").putImageData(image, 0, 0);
  }

  drawTime() {
    const { overTime: sheet, clock, stays } = this;
    if (!sheet.clear()) return;
    if (!this.image) this.paint();
    const { left, top, width, height } = sheet.box;
    const { brush } = sheet;
    brush.save();
    brush.beginPath();
    brush.rect(left, top, width, height);
    brush.clip();
    brush.imageSmoothingEnabled = false;
    stays.times.forEach((time, survey) => {
      const until = stays.times[survey + 1] ?? clock.duration + 1;
      const x = left + Math.max(-1, clock.share(time)) * width;
      const end = left + Math.min(2, clock.share(until)) * width;
      if (end < left || x > left + width) return;
      brush.drawImage(this.image, survey, 0, 1, this.rows, Math.floor(x), top, Math.ceil(end) - Math.floor(x), height);
    });
    brush.restore();
    this.axis();
    if (this.name === "chunk" && this.device === null) this.devices();
    sheet.moments(clock);
    sheet.mark(clock);
    drawSelection(sheet);
  }

  /** Bytes down the left side. */
  axis() {
    const { overTime: sheet, total, stays } = this;
    const { left, top, height } = sheet.box;
    const bytes = total * stays.granuleBytes;
    sheet.brush.textAlign = "right";
    sheet.brush.textBaseline = "middle";
    sheet.brush.fillStyle = colours.of("soft");
    for (const value of byteLevels(bytes)) {
      const y = top + (value / bytes) * height;
      sheet.brush.fillText(showLevel(value), left - 8, Math.min(Math.max(y, top + 6), top + height - 4));
    }
  }

  /** Where one device's chunks end and the next one's begin. */
  devices() {
    const { overTime: sheet, stays, total } = this;
    if (stays.devices.length < 2) return;
    const { left, top, width, height } = sheet.box;
    sheet.brush.textAlign = "left";
    sheet.brush.textBaseline = "middle";
    for (const { name, place } of stays.devices) {
      const y = Math.round(top + (place / total) * height);
      sheet.brush.fillStyle = colours.of("ink");
      if (place) sheet.brush.fillRect(left, y, width, 1);
      // On a ground of its own: the map may have any colour there.
      const wide = sheet.brush.measureText(name).width + 12;
      sheet.brush.fillStyle = colours.of("sheet");
      sheet.brush.fillRect(left + width - wide, y + 1, wide, 18);
      sheet.brush.fillStyle = colours.of("ink");
      sheet.brush.fillText(name, left + width - wide + 6, y + 10.5);
    }
  }

  hoverTime(event, us, y) {
    const { stays, overTime: sheet, rows } = this;
    const { top, height } = sheet.box;
    const survey = surveyAt(stays.times, us);
    const row = Math.min(rows - 1, Math.max(0, Math.floor(((y - top) / height) * rows)));
    const parts = this.colouring.shades.map(([, name], shade) => [name, this.weights[shade][survey * rows + row]]).filter(([, part]) => part > 0.0005);
    const first = Math.floor((row * this.total) / rows);
    const where = this.name === "address" ? stays.address(first) : `chunks from ${showBytes(first * stays.granuleBytes)} on`;
    const lines = parts.map(([name, part]) => [name, showShare(part)]);
    tip.show(event, `${showMoment(stays.times[survey], 1000)}, ${where}`, lines.length ? lines : [["nothing stands there", ""]]);
  }

  /** Draws the moment: granules in reading order, each a square. */
  drawNow(survey, marked) {
    const { now: sheet, stays, total } = this;
    const width = sheet.element.clientWidth;
    if (!width) return;
    // Whole pixels of the screen, so that no line is blurred into the next.
    const scale = window.devicePixelRatio || 1;
    this.cell = Math.max(2, Math.min(12, Math.floor(Math.sqrt((width * 300) / total) * scale) / scale));
    this.columns = Math.max(1, Math.floor(width / this.cell));
    const lines = Math.ceil(total / this.columns);
    sheet.element.style.height = `${Math.ceil(lines * this.cell)}px`;
    if (!sheet.clear()) return;
    this.placed = stays.at(survey).filter((stay) => this.has(stay));
    this.placed.sort((one, other) => this.place(one) - this.place(other));
    this.survey = survey;
    sheet.brush.fillStyle = colours.of("well");
    this.stretch(0, total, 0);
    const palette = this.palette();
    for (const stay of this.placed) {
      const mix = this.mix(stay, survey);
      const channel = (index) => Math.round(mix.reduce((sum, part, shade) => sum + part * palette[shade][index], 0));
      sheet.brush.fillStyle = `rgb(${channel(0)}, ${channel(1)}, ${channel(2)})`;
      this.stretch(this.place(stay), stays.granules[stay], this.cell >= 5 ? 1 : 0);
    }
    if (this.name === "chunk") this.drawAliased(survey);
    if (marked !== NOWHERE) {
      sheet.brush.fillStyle = colours.of("ink");
      for (const stay of this.placed.filter((stay) => stays.handle[stay] === marked)) {
        this.stretch(this.place(stay), stays.granules[stay], 0);
      }
    }
    this.describe(survey);
  }

  /** Underlines chunks that still stand at an address that they were moved from. */
  drawAliased(survey) {
    const { stays } = this;
    this.now.brush.fillStyle = colours.of("stale");
    const isLeft = (stay) => stays.state[stay] === STALE && (this.device === null || stays.deviceOf(stay) === this.device);
    for (const stay of stays.at(survey).filter(isLeft)) {
      this.stretch(this.place(stay), stays.granules[stay], this.cell >= 5 ? 1 : 0, 0.4);
    }
  }

  /** Fills a run of granules, line by line, and leaves a gap at its end; or only the lowest `part` of each line. */
  stretch(start, granules, gap, part = 1) {
    const { cell, columns } = this;
    const tall = cell - (cell >= 4 ? 1 : 0);
    const low = Math.floor(tall * (1 - part));
    let at = start;
    const end = start + granules;
    while (at < end) {
      const column = at % columns;
      const count = Math.min(end - at, columns - column);
      const closes = at + count === end ? gap : 0;
      this.now.brush.fillRect(column * cell, Math.floor(at / columns) * cell + low, count * cell - closes, tall - low);
      at += count;
    }
  }

  describe(survey) {
    this.sums = this.sum(this.colouring, survey);
    const said = this.colouring.shades.map(([, name], shade) => [name, this.sums[shade]]).filter(([, bytes]) => bytes > 0);
    const words = said.map(([name, bytes]) => `${name} ${showBytes(bytes)}`).join(", ") || "nothing";
    this.now.element.setAttribute("aria-label", `By ${this.name} at ${showMoment(this.stays.times[survey], 1000)}: ${words}.`);
  }

  /** The bytes of each shade at the moment that is drawn. */
  sum(colouring, survey) {
    const sums = colouring.shades.map(() => 0);
    for (const stay of this.placed) {
      const bytes = this.stays.granules[stay] * this.stays.granuleBytes;
      colouring.mix(this.stays, stay, survey).forEach((part, shade) => (sums[shade] += part * bytes));
    }
    return sums;
  }

  /** The stay at a place, if one is there. */
  find(place) {
    let [low, high] = [0, this.placed.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.place(this.placed[middle]) <= place) low = middle + 1;
      else high = middle;
    }
    const stay = this.placed[low - 1];
    if (stay === undefined) return null;
    return place < this.place(stay) + this.stays.granules[stay] ? stay : null;
  }

  hoverNow(event) {
    const bounds = this.now.element.getBoundingClientRect();
    const column = Math.min(this.columns - 1, Math.max(0, Math.floor((event.clientX - bounds.left) / this.cell)));
    const place = Math.floor((event.clientY - bounds.top) / this.cell) * this.columns + column;
    const stay = place < this.total ? this.find(place) : null;
    const { stays, survey } = this;
    if (stay === null) {
      this.highlight(NOWHERE);
      const words = this.name === "address" ? "nothing stands there" : "this chunk is not there now";
      return place < this.total ? tip.show(event, words, []) : tip.hide();
    }
    const handle = stays.handle[stay];
    this.highlight(handle);
    const parts = BY_USE.mix(stays, stay, survey);
    const known = KINDS.map(([, name], kind) => [name, showShare(parts[kind])]).filter((_, kind) => parts[kind] > 0);
    if (handle === NOWHERE) {
      known.push(["length", showBytes(stays.granules[stay] * stays.granuleBytes, 0)]);
      return tip.show(event, stays.address(stays.place[stay]), known);
    }
    if (stays.devices.length > 1) known.push(["of", stays.deviceName(stays.deviceOf(stay))]);
    for (const other of stays.at(survey).filter((other) => stays.handle[other] === handle && stays.place[other] !== NOWHERE)) {
      known.push([stays.state[other] === STALE ? "left behind at" : "stands at", stays.address(stays.place[other])]);
    }
    tip.show(event, `Chunk ${handle + 1}, ${showBytes(stays.handleGranules[handle] * stays.granuleBytes, 0)}`, known);
  }
}
