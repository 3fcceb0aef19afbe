// Puts the page together: chooses the run, fills the figures, and ties what is drawn to one clock.

class Report {
  constructor(data) {
    this.data = data;
    const hand = () => ({ clock: this.clock, choose: (us) => this.choose(us), step: (count) => this.step(count) });
    this.marked = NOWHERE;
    const highlight = (handle) => {
      if (handle === this.marked) return;
      this.marked = handle;
      this.maps.forEach((map) => map.drawNow(this.survey, handle));
    };
    this.timeline = new Timeline(hand);
    this.calls = new CallChart(hand);
    this.maps = [new MemoryMap("address", hand, highlight), new MemoryMap("chunk", hand, highlight)];
    this.histograms = [new Histogram("sizes", (bytes) => showBytes(bytes, 0)), new Histogram("lifetimes", showTime)];
    this.listen();
    this.choices();
    this.open(0);
  }

  listen() {
    byId("zoom-in").addEventListener("click", () => this.clock.zoom(0.5, Math.min(1, Math.max(0, this.clock.share(this.clock.moment)))));
    byId("zoom-out").addEventListener("click", () => this.clock.zoom(2));
    byId("zoom-all").addEventListener("click", () => this.clock.view(0, Infinity));
    byId("moment").addEventListener("input", (event) => this.show(Number(event.target.value)));
    for (const choice of [byId("device"), byId("map-device")]) {
      choice.addEventListener("change", () => this.chooseDevice(choice.value));
    }
    byId("map-colour").addEventListener("change", () => this.setMaps());
    byId("play").addEventListener("click", () => this.play(!this.timer));
    byId("theme").addEventListener("click", () => this.nextTheme());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.recolour());
    new ResizeObserver(() => this.redraw()).observe(document.querySelector("main"));
  }

  /** The table of all runs, if there are several. */
  choices() {
    byId("runs").hidden = this.data.runs.length < 2;
    const row = ({ figures }, index) => {
      const name = element("button", { type: "button" }, fileName(figures.trace));
      name.addEventListener("click", () => this.open(index));
      const saved = figures.saved_bytes === null ? "–" : showBytes(figures.saved_bytes);
      const held = figures.peak_reserved_bytes === null ? "–" : showBytes(figures.peak_reserved_bytes);
      const cells = [showBytes(figures.peak_live_bytes), held, showBytes(figures.peak_physical_bytes), saved, figures.ratio.toFixed(4)];
      return element("tr", {}, element("td", {}, name), ...cells.map((cell) => element("td", {}, cell)));
    };
    byId("runs").querySelector("tbody").replaceChildren(...this.data.runs.map(row));
  }

  open(index) {
    this.play(false);
    this.run = this.data.runs[index];
    const { figures, map, calls, histograms } = this.run;
    byId("runs").querySelectorAll("tbody tr").forEach((row, at) => {
      if (at === index) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
    });
    this.clock = new Clock(figures.duration_us * figures.repeat, () => this.redraw());
    this.stays = new Stays(map, this.run.devices.map(({ ordinal }) => ordinal));
    this.colourings = { use: BY_USE, device: new ByDevice(this.stays) };
    this.calls.set(calls, this.clock, this.run.devices.length > 1 ? ", of all devices together" : "");
    this.histograms[0].set(histograms.sizes, "Sizes");
    this.histograms[1].set(histograms.lifetimes, "Lifetimes");
    this.devices();
    fillFigures(this.run);
    fillVerbs(figures.verbs);
    fillStalls(calls.stalls, (us) => this.visit(us));
    byId("moment").max = this.stays.times.length - 1;
    this.chooseDevice(byId("device").value);
    this.show(this.fullest());
    document.title = `${fileName(figures.trace)}: stitchpool report`;
  }

  /** The survey at which most was live. */
  fullest() {
    const sums = new Float64Array(this.stays.times.length);
    for (let stay = 0; stay < this.stays.count; stay += 1) {
      if (this.stays.state[stay] !== CURRENT) continue;
      for (let survey = this.stays.first[stay]; survey <= this.stays.last[stay]; survey += 1) {
        sums[survey] += this.stays.share(stay, survey)[0] * this.stays.granules[stay];
      }
    }
    return sums.indexOf(Math.max(...sums));
  }

  devices() {
    const { devices, total } = this.run;
    const choices = () => devices.map((device, index) => element("option", { value: index }, `device ${device.ordinal}`));
    const all = () => (total ? [element("option", { value: "all" }, "all devices")] : []);
    ["device", "map-device"].forEach((id) => byId(id).replaceChildren(...all(), ...choices()));
    ["device-choice", "map-choice"].forEach((id) => (byId(id).hidden = devices.length < 2));
    byId("map-colour").value = "use";
  }

  /** Shows one device's curves and memory, or with "all" everybody's. */
  chooseDevice(chosen) {
    byId("device").value = byId("map-device").value = chosen;
    const curves = unpackCurves(chosen === "all" ? this.run.total : this.run.devices[Number(chosen)]);
    const names = { live: "live", physical: "held by stitchpool", reserved: `held by ${recorderName(this.run)}` };
    this.timeline.set(curves, this.clock, names, this.run.refusals_us);
    this.setMaps();
  }

  setMaps() {
    const chosen = byId("map-device").value;
    const device = chosen === "all" || this.run.devices.length < 2 ? null : Number(chosen);
    this.maps.forEach((map) => map.set(this.stays, this.clock, { colouring: this.colourings[byId("map-colour").value], device }));
    fillAbout(this.run, this.stays, device);
    this.redraw();
  }

  /** Moves the mark to a survey. */
  show(survey) {
    this.survey = Math.min(this.stays.times.length - 1, Math.max(0, survey));
    this.clock.moment = this.stays.times[this.survey];
    byId("moment").value = this.survey;
    const text = showMoment(this.clock.moment, 1000);
    byId("moment").setAttribute("aria-valuetext", text);
    this.redraw();
  }

  step(count) {
    this.show(this.survey + count);
  }

  choose(us) {
    this.show(surveyAt(this.stays.times, us));
  }

  /** Looks closely at a time. */
  visit(us) {
    const span = Math.min(this.clock.duration, Math.max(2e5, this.clock.duration / 200));
    this.choose(us);
    this.clock.view(us - span / 2, us + span / 2);
    byId("calls-title").scrollIntoView({ block: "start" });
  }

  play(on) {
    clearInterval(this.timer);
    this.timer = null;
    byId("play").textContent = on ? "Pause" : "Play";
    byId("play").setAttribute("aria-pressed", String(on));
    if (!on) return;
    if (this.survey === this.stays.times.length - 1) this.show(0);
    this.timer = setInterval(() => {
      this.step(1);
      if (this.survey === this.stays.times.length - 1) this.play(false);
    }, 90);
  }

  nextTheme() {
    const root = document.documentElement;
    const next = { auto: "light", light: "dark", dark: "auto" }[root.dataset.theme || "auto"];
    if (next === "auto") delete root.dataset.theme;
    else root.dataset.theme = next;
    byId("theme").textContent = `Theme: ${next}`;
    this.recolour();
  }

  recolour() {
    colours.read();
    this.maps.forEach((map) => (map.image = null));
    this.redraw();
  }

  /** Draws everything before the next frame, however often it is asked to. */
  redraw() {
    if (this.isDue) return;
    this.isDue = true;
    requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.isDue = false;
    this.timeline.draw();
    this.calls.draw();
    this.maps.forEach((map) => {
      map.drawTime();
      map.drawNow(this.survey, this.marked);
    });
    this.histograms.forEach((histogram) => histogram.draw());
    this.tell();
  }

  /** The moment in words. */
  tell() {
    const [address, chunk] = this.maps;
    const [live, free] = address.sum(BY_USE, this.survey);
    byId("moment-text").textContent = `${showMoment(this.clock.moment, 1000)} · live ${showBytes(live)} · free ${showBytes(free)}`;
    // What has no address is in one map only, and so is what has no chunk of its own there.
    const value = (shade) => showBytes(Math.max(address.sums[shade], chunk.sums[shade]));
    const entries = address.colouring.shades.map(([colour, name], shade) => [colour, name, value(shade)]);
    fillLegend("map-legend", entries.filter((_, shade) => address.shown[shade] || chunk.shown[shade]));
  }
}

function fileName(path) {
  return path.split(/[/\\]/).pop() || path;
}

function recorderName({ recorder }) {
  return recorder.expandable_segments ? `${recorder.name}, expandable segments` : recorder.name;
}

/** A name, a figure and a word beside it. */
function figure([kind, name, [value, unit], aside]) {
  const shown = element("dd", {}, value, ...(unit ? [element("small", {}, unit)] : []));
  return element("div", { class: kind }, element("dt", {}, name), shown, ...(aside ? [element("dd", { class: "aside" }, aside)] : []));
}

/** The figures at the head of the page. */
function fillFigures(run) {
  const { figures } = run;
  const count = (number, word) => `${showCount(number)} ${word}${number === 1 ? "" : "s"}`;
  byId("run-title").textContent = fileName(figures.trace);
  const told = [
    count(figures.allocs, "allocation"),
    count(figures.devices, "device"),
    count(figures.streams, "stream"),
    showTime(figures.duration_us) + (figures.repeat > 1 ? `, played ${figures.repeat} times` : ""),
    figures.driver === "cuda" ? "on the GPU" : "on the host driver, calls priced as on an H200",
  ];
  byId("run-about").textContent = told.join(" · ");
  const held = figures.scale === 1 ? figures.peak_reserved_bytes : null;
  const missing = ["–", ""];
  const isCut = figures.oom + figures.refused > 0;
  const saved = figures.saved_bytes === null ? missing : splitBytes(figures.saved_bytes);
  const savedShare = figures.saved_bytes === null ? "" : `${showShare(figures.saved_bytes / held)} of what it held`;
  byId("headline").replaceChildren(
    ...[
      ["live", "Live, at most", splitBytes(figures.peak_live_bytes), figures.devices > 1 ? "each device's highest, added up" : "what the program used"],
      ["other", `Held by ${recorderName(run)}`, held === null ? missing : splitBytes(held), held === null ? "not recorded" : `${figures.reserved_ratio.toFixed(3)} × its live bytes`],
      ["pool", "Held by stitchpool", splitBytes(figures.peak_physical_bytes), `${showBytes(figures.peak_physical_bytes - figures.peak_live_bytes)} more than live`],
      ["saved", "Saved", saved, isCut ? "requests were refused" : savedShare],
      ["ratio", "Held / live", [figures.ratio.toFixed(4), ""], figures.devices > 1 ? "of the worst device" : "1 is perfect"],
    ].map(figure),
  );
  const most = Math.max(figures.peak_live_bytes, figures.peak_physical_bytes, held || 0);
  const bar = ([kind, bytes]) => {
    const made = element("span", { class: kind });
    made.style.width = `${(bytes / most) * 100}%`;
    return made;
  };
  const bars = [["live", figures.peak_live_bytes], ["pool", figures.peak_physical_bytes], ["other", held || 0]];
  byId("bars").replaceChildren(...bars.filter(([, bytes]) => bytes).map(bar));
  fillCost(figures);
  fillTable(run.figures);
}

/** What it took. */
function fillCost(figures) {
  const hits = showShare(figures.hits / Math.max(1, figures.allocs), 2);
  const pairs = [
    ["Driver time", `${showTime(figures.driver_us)} (${showShare(figures.driver_us / Math.max(1, figures.duration_us * figures.repeat))} of the run), ${showTime(figures.driver_us_second_half)} of it in the second half`],
    ["Longest wait for a block", showTime(figures.largest_stall_us)],
    ["A pair", `${figures.ns_per_pair.toFixed(0)} ns, warm ${figures.ns_per_pair_warm.toFixed(0)} ns`],
    ["Without a driver call", hits],
    ["CPU waits", showCount(figures.gpu_waits)],
    ["Stream waits", showCount(figures.stream_waits)],
  ];
  byId("cost").replaceChildren(...pairs.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))));
  const trouble = [];
  if (figures.oom + figures.refused) trouble.push(`${showCount(figures.oom + figures.refused)} calls were refused. The first: ${figures.first_refusal}`);
  if (figures.wrong_bytes + figures.faults) trouble.push(`${showCount(figures.wrong_bytes)} bytes were wrong, ${showCount(figures.faults)} accesses at fault. ${figures.first_fault || ""}`);
  byId("trouble").hidden = !trouble.length;
  byId("trouble").textContent = trouble.join(" ");
}

/** Every figure, by the name it has in JSON. */
function fillTable(figures) {
  const plain = Object.entries(figures).filter(([, value]) => value === null || typeof value !== "object");
  const verbs = Object.entries(figures.verbs).map(([verb, { calls }]) => [`verbs.${verb}.calls`, calls]);
  const rows = [...plain, ...verbs].map(([name, value]) => element("tr", {}, element("th", { scope: "row" }, name), element("td", { "data-figure": name }, String(value ?? "–"))));
  byId("all").tBodies[0].replaceChildren(...rows);
}

/** What the figures show; `device` is the one whose memory the maps show, or null for all. */
function fillAbout(run, stays, device) {
  const granule = showBytes(stays.granuleBytes, 0);
  const only = device === null ? "" : ` Memory of other devices than ${stays.deviceName(device)} is left out.`;
  const chunks = device === null ? stays.handleDevice.length : stays.handleDevice.filter((of) => of === device).length;
  const ofWhom = device === null ? "" : ` of ${stays.deviceName(device)}`;
  byId("address-about").textContent = `All addresses that were ever in use, ${showBytes(stays.addressGranules * stays.granuleBytes)} of them, first one at the top. Below, the moment: each square is ${granule}.${only}`;
  const order = device === null && run.devices.length > 1 ? ", device by device" : "";
  byId("chunk-about").textContent = `All ${showCount(chunks)} chunks (physical handles)${ofWhom} that were ever created, oldest at the top${order}. A blank one is not yet created, or was released; one with a violet lower edge still stands at the address that it was moved from. Point at one to see where.`;
  fillLegend("calls-legend", [...VERBS.map(([name, colour]) => [colour, name]), ["verb-6", "events and others"]]);
  fillLegend("block-legend", [["live", "blocks"], ["idle", "bytes asked for"]]);
  byId("blocks-about").textContent = `By powers of two. ${showCount(run.histograms.still_live)} blocks were still live at the end and have no lifetime.`;
}

colours.read();
const report = new Report(JSON.parse(byId("data").textContent));
byId("foot").textContent = `stitchpool ${report.data.version}. This page is one file and asks no network for anything.`;
