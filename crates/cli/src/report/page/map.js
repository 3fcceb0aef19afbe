// Where memory stood: stays of handles at addresses, drawn over time and at one moment, by address or by handle.

const NOWHERE = 0xffffffff;
const CURRENT = 0;
const STALE = 1;
const HOLE = 2;
const LOST = 3;
const IDLE = 4;
const ROWS = 240;

/** What a granule can be, in the order of the legend: colour and words. */
const KINDS = [
  ["live", "live"],
  ["free", "free, mapped"],
  ["pending", "freed, another stream may use it"],
  ["stale", "alias left behind by a move"],
  ["idle", "idle handle"],
  ["hole", "hole"],
  ["lost", "lost"],
];
const KIND_OF_STATE = { [STALE]: 3, [HOLE]: 5, [LOST]: 6, [IDLE]: 4 };

/** All stays of a run. */
class Stays {
  constructor(packed) {
    this.granuleBytes = packed.granule_bytes;
    this.times = packed.times_us;
    this.runs = packed.runs;
    this.handleDevice = unpack(Uint16Array, packed.handle_device);
    this.handleGranules = unpack(Uint32Array, packed.handle_granules);
    for (const name of ["place", "granules", "handle"]) this[name] = unpack(Uint32Array, packed[name]);
    for (const name of ["first", "last"]) this[name] = unpack(Uint16Array, packed[name]);
    for (const name of ["state", "live"]) this[name] = unpack(Uint8Array, packed[name]);
    this.count = this.place.length;
    // Where the shares of each stay begin, less its first survey.
    this.shares = new Int32Array(this.count);
    let begin = 0;
    for (let stay = 0; stay < this.count; stay += 1) {
      this.shares[stay] = begin - this.first[stay];
      begin += this.last[stay] - this.first[stay] + 1;
    }
    this.pending = new Uint8Array(this.live.length);
    const pending = unpack(Uint8Array, packed.pending);
    unpack(Uint32Array, packed.pending_at).forEach((at, index) => (this.pending[at] = pending[index]));
    this.addressGranules = this.runs.reduce((sum, [, granules]) => sum + granules, 0);
    this.orderHandles();
  }

  /** Handles one behind the other: by device, then by first sight. */
  orderHandles() {
    const order = [...this.handleDevice.keys()].sort((one, other) => this.handleDevice[one] - this.handleDevice[other] || one - other);
    this.handlePlace = new Uint32Array(order.length);
    this.handleTotal = 0;
    for (const handle of order) {
      this.handlePlace[handle] = this.handleTotal;
      this.handleTotal += this.handleGranules[handle];
    }
  }

  /** The stays that a survey saw. */
  at(survey) {
    const found = [];
    for (let stay = 0; stay < this.count; stay += 1) {
      if (this.first[stay] <= survey && survey <= this.last[stay]) found.push(stay);
    }
    return found;
  }

  /** Live and pending parts of a stay at a survey. */
  share(stay, survey) {
    const at = this.shares[stay] + survey;
    return [this.live[at] / 255, this.pending[at] / 255];
  }

  /** How much of a stay is of each kind. */
  mix(stay, survey) {
    const kinds = [0, 0, 0, 0, 0, 0, 0];
    if (this.state[stay] !== CURRENT) {
      kinds[KIND_OF_STATE[this.state[stay]]] = 1;
    } else {
      const [live, pending] = this.share(stay, survey);
      kinds[0] = live;
      kinds[1] = Math.max(0, 1 - live - pending);
      kinds[2] = pending;
    }
    return kinds;
  }

  /** The address of a place. */
  address(place) {
    let rest = place;
    for (const [start, granules] of this.runs) {
      if (rest < granules) return `0x${(BigInt(start) + BigInt(rest) * BigInt(this.granuleBytes)).toString(16)}`;
      rest -= granules;
    }
    return "nowhere";
  }
}

/** One of the two orders that granules are drawn in. */
const ORDERS = {
  address: {
    total: (stays) => stays.addressGranules,
    place: (stays, stay) => stays.place[stay],
    has: (stays, stay) => stays.place[stay] !== NOWHERE,
  },
  chunk: {
    total: (stays) => stays.handleTotal,
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

  set(stays, clock) {
    [this.stays, this.clock] = [stays, clock];
    this.total = Math.max(1, this.order.total(stays));
    this.rows = Math.min(ROWS, this.total);
    this.image = null;
    this.overTime.selection = null;
    this.weigh();
    this.kinds = KINDS.map((_, kind) => this.has(kind));
  }

  /** How much of each row is of each kind, at each survey. */
  weigh() {
    const { stays, rows, total } = this;
    const surveys = stays.times.length;
    this.weights = KINDS.map(() => new Float32Array(surveys * rows));
    const perRow = total / rows;
    for (let stay = 0; stay < stays.count; stay += 1) {
      if (!this.order.has(stays, stay)) continue;
      const start = this.order.place(stays, stay);
      const end = start + stays.granules[stay];
      const [from, to] = [Math.floor(start / perRow), Math.min(rows - 1, Math.floor((end - 1e-6) / perRow))];
      for (let survey = stays.first[stay]; survey <= stays.last[stay]; survey += 1) {
        const mix = stays.mix(stay, survey);
        for (let row = from; row <= to; row += 1) {
          const part = (Math.min(end, (row + 1) * perRow) - Math.max(start, row * perRow)) / perRow;
          for (let kind = 0; kind < mix.length; kind += 1) {
            if (mix[kind]) this.weights[kind][survey * rows + row] += mix[kind] * part;
          }
        }
      }
    }
  }

  /** Whether any granule was ever of a kind. */
  has(kind) {
    return this.weights[kind].some((part) => part > 0);
  }

  /** The map over time as an image, a column a survey. */
  paint() {
    const { rows, stays } = this;
    const surveys = stays.times.length;
    const image = new ImageData(surveys, rows);
    const palette = KINDS.map(([colour]) => colours.parts(colour));
    const ground = colours.parts("well");
    for (let survey = 0; survey < surveys; survey += 1) {
      for (let row = 0; row < rows; row += 1) {
        let rest = 1;
        const mixed = [0, 0, 0];
        palette.forEach((colour, kind) => {
          const part = this.weights[kind][survey * rows + row];
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
      sheet.brush.fillText(value ? showBytes(value, 0) : "0", left - 8, Math.min(Math.max(y, top + 6), top + height - 4));
    }
  }

  hoverTime(event, us, y) {
    const { stays, overTime: sheet, rows } = this;
    const { top, height } = sheet.box;
    const survey = surveyAt(stays.times, us);
    const row = Math.min(rows - 1, Math.max(0, Math.floor(((y - top) / height) * rows)));
    const parts = KINDS.map(([, name], kind) => [name, this.weights[kind][survey * rows + row]]).filter(([, part]) => part > 0.0005);
    const first = Math.floor((row * this.total) / rows);
    const where = this.name === "address" ? stays.address(first) : `chunk bytes from ${showBytes(first * stays.granuleBytes)}`;
    const lines = parts.map(([name, part]) => [name, showShare(part)]);
    tip.show(event, `${showMoment(stays.times[survey], 1000)}, ${where}`, lines.length ? lines : [["nothing stands there", ""]]);
  }

  /** Draws the moment: granules in reading order, each a square. */
  drawNow(survey, marked) {
    const { now: sheet, stays, total } = this;
    const width = sheet.element.clientWidth;
    if (!width) return;
    this.cell = Math.max(2, Math.min(12, Math.sqrt((width * 300) / total)));
    this.columns = Math.max(1, Math.floor(width / this.cell));
    this.cell = width / this.columns;
    const lines = Math.ceil(total / this.columns);
    sheet.element.style.height = `${Math.ceil(lines * this.cell)}px`;
    if (!sheet.clear()) return;
    this.placed = stays.at(survey).filter((stay) => this.order.has(stays, stay));
    this.placed.sort((one, other) => this.order.place(stays, one) - this.order.place(stays, other));
    this.survey = survey;
    sheet.brush.fillStyle = colours.of("well");
    this.stretch(0, total, 0);
    const palette = KINDS.map(([colour]) => colours.parts(colour));
    for (const stay of this.placed) {
      const mix = stays.mix(stay, survey);
      const channel = (index) => Math.round(mix.reduce((sum, part, kind) => sum + part * palette[kind][index], 0));
      sheet.brush.fillStyle = `rgb(${channel(0)}, ${channel(1)}, ${channel(2)})`;
      this.stretch(this.order.place(stays, stay), stays.granules[stay], this.cell >= 5 ? 0.75 : 0);
    }
    if (marked !== NOWHERE) {
      sheet.brush.fillStyle = colours.of("ink");
      for (const stay of this.placed.filter((stay) => stays.handle[stay] === marked)) {
        this.stretch(this.order.place(stays, stay), stays.granules[stay], 0);
      }
    }
    this.describe(survey);
  }

  /** Fills a run of granules, line by line, and leaves a gap at its end. */
  stretch(start, granules, gap) {
    const { cell, columns } = this;
    const tall = cell - (cell >= 4 ? 1 : 0);
    let at = start;
    const end = start + granules;
    while (at < end) {
      const column = at % columns;
      const count = Math.min(end - at, columns - column);
      const closes = at + count === end ? gap : 0;
      this.now.brush.fillRect(column * cell, Math.floor(at / columns) * cell, count * cell - closes, tall);
      at += count;
    }
  }

  describe(survey) {
    const sums = KINDS.map(() => 0);
    for (const stay of this.placed) {
      this.stays.mix(stay, survey).forEach((part, kind) => (sums[kind] += part * this.stays.granules[stay] * this.stays.granuleBytes));
    }
    this.sums = sums;
    const said = KINDS.map(([, name], kind) => [name, sums[kind]]).filter(([, bytes]) => bytes > 0);
    const words = said.map(([name, bytes]) => `${name} ${showBytes(bytes)}`).join(", ") || "nothing";
    this.now.element.setAttribute("aria-label", `By ${this.name} at ${showMoment(this.stays.times[survey], 1000)}: ${words}.`);
  }

  /** The stay at a place, if one is there. */
  find(place) {
    let [low, high] = [0, this.placed.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.order.place(this.stays, this.placed[middle]) <= place) low = middle + 1;
      else high = middle;
    }
    const stay = this.placed[low - 1];
    if (stay === undefined) return null;
    return place < this.order.place(this.stays, stay) + this.stays.granules[stay] ? stay : null;
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
    const lines = stays.mix(stay, survey).map((part, kind) => [KINDS[kind][1], showShare(part)]);
    const known = lines.filter((_, kind) => stays.mix(stay, survey)[kind] > 0);
    if (handle === NOWHERE) {
      known.push(["length", showBytes(stays.granules[stay] * stays.granuleBytes, 0)]);
      return tip.show(event, stays.address(stays.place[stay]), known);
    }
    known.push(["device", String(stays.handleDevice[handle])]);
    for (const other of stays.at(survey).filter((other) => stays.handle[other] === handle && stays.place[other] !== NOWHERE)) {
      known.push([stays.state[other] === STALE ? "left behind at" : "stands at", stays.address(stays.place[other])]);
    }
    tip.show(event, `Chunk ${handle + 1}, ${showBytes(stays.handleGranules[handle] * stays.granuleBytes, 0)}`, known);
  }
}

/** The survey that tells of a time: the last one before it. */
function surveyAt(times, us) {
  let [low, high] = [0, times.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= us) low = middle + 1;
    else high = middle;
  }
  return Math.max(0, low - 1);
}
