// Where memory stood: what each handle stood for at which address, from one survey to another, and how that is coloured.

const NOWHERE = 0xffffffff;
const CURRENT = 0;
const STALE = 1;
const HOLE = 2;
const LOST = 3;
const IDLE = 4;

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
const DEVICE_COLOURS = 4;
const KIND_OF_STATE = { [STALE]: 3, [HOLE]: 5, [LOST]: 6, [IDLE]: 4 };

/** All stays of a run. */
class Stays {
  /** `ordinals` are the trace's own numbers of the devices. */
  constructor(packed, ordinals) {
    this.ordinals = ordinals;
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
    this.devices = [];
    for (const handle of order) {
      const device = this.handleDevice[handle];
      if (this.devices.at(-1)?.device !== device) this.devices.push({ device, name: this.deviceName(device), place: this.handleTotal, granules: 0 });
      this.handlePlace[handle] = this.handleTotal;
      this.handleTotal += this.handleGranules[handle];
      this.devices.at(-1).granules += this.handleGranules[handle];
    }
  }

  deviceName(device) {
    return `device ${this.ordinals[device] ?? device}`;
  }

  /** The device whose memory a stay is; of a hole, none. */
  deviceOf(stay) {
    return this.handle[stay] === NOWHERE ? null : this.handleDevice[this.handle[stay]];
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

/** Colours by what a granule is used for. */
class ByUse {
  constructor() {
    this.shades = KINDS;
  }

  /** How much of a stay is of each shade. */
  mix(stays, stay, survey) {
    const parts = this.shades.map(() => 0);
    if (stays.state[stay] !== CURRENT) {
      parts[KIND_OF_STATE[stays.state[stay]]] = 1;
    } else {
      const [live, pending] = stays.share(stay, survey);
      parts[0] = live;
      parts[1] = Math.max(0, 1 - live - pending);
      parts[2] = pending;
    }
    return parts;
  }
}

const BY_USE = new ByUse();

/** Colours by whose memory it is, paler where no block is. */
class ByDevice {
  constructor(stays) {
    const pair = ({ device, name }, at) => [
      [`device-${at % DEVICE_COLOURS}`, `${name}, live`],
      [`device-${at % DEVICE_COLOURS}-free`, `${name}, free`],
    ];
    this.places = new Map(stays.devices.map(({ device }, at) => [device, at * 2]));
    this.others = stays.devices.length * 2;
    this.shades = [...stays.devices.flatMap(pair), ...[STALE, HOLE, LOST].map((state) => KINDS[KIND_OF_STATE[state]])];
  }

  mix(stays, stay, survey) {
    const parts = this.shades.map(() => 0);
    const state = stays.state[stay];
    if (state === CURRENT || state === IDLE) {
      const place = this.places.get(stays.deviceOf(stay));
      const live = state === CURRENT ? stays.share(stay, survey)[0] : 0;
      parts[place] = live;
      parts[place + 1] = 1 - live;
    } else {
      parts[this.others + [STALE, HOLE, LOST].indexOf(state)] = 1;
    }
    return parts;
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
