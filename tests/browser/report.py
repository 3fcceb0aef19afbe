#!/usr/bin/python3
"""Opens reports in a real browser and sees whether they draw, answer the hand, and say what the program says.

    report.py STITCHPOOL TRACE...        (with SHOTS=FOLDER in the environment it keeps pictures there)

Needs chromium, chromedriver and selenium. Prints a line a check; the exit status is 0 if all held.
"""

import gzip
import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import time

from selenium import webdriver
from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.actions.wheel_input import ScrollOrigin
from selenium.webdriver.support.ui import Select

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-dev-shm-usage "
    "--disable-background-networking --disable-component-update --disable-sync --hide-scrollbars"
).split()
CANVASES = ["memory", "calls", "address-time", "address-now", "chunk-time", "chunk-now", "sizes", "lifetimes"]
# The wall clock differs from run to run, and so does the room of tables that goes with addresses.
VARIES = ("ns_per_pair", "ns_per_pair_warm", "metadata_bytes")
# Some 9 on a quiet machine; a page that is drawn in this time can still be moved about.
DRAWN_MS_MAX = 100

COLOURS = """
    const canvas = document.getElementById(arguments[0]);
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const seen = new Set();
    new Uint32Array(data.buffer).forEach((pixel) => seen.add(pixel));
    return seen.size;
"""
PIXELS = "return document.getElementById(arguments[0]).toDataURL()"
# The quickest of some rounds: the machine may be busy with other things.
DRAWN_MS = """
    let quickest = Infinity;
    for (let round = 0; round < 20; round += 1) {
        const start = performance.now();
        report.clock.zoom(round % 2 ? 0.9 : 1 / 0.9);
        report.show(report.survey + (round % 2 ? 1 : -1));
        report.draw();
        quickest = Math.min(quickest, performance.now() - start);
    }
    return quickest;
"""


class Browser:
    """A browser of its own with one page open."""

    def __init__(self, page, width=1280, height=900, is_dark=False):
        self.profile = tempfile.mkdtemp()
        options = Options()
        options.binary_location = shutil.which("chromium")
        for flag in [*FLAGS, f"--user-data-dir={self.profile}", f"--window-size={width},{height}"]:
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        self.driver.set_script_timeout(60)
        self.resize(width, height)
        theme = [{"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": theme})
        start = time.monotonic()
        self.driver.get("file://" + os.path.abspath(page))
        self.settle()
        self.opened_s = time.monotonic() - start

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.driver.quit()
        shutil.rmtree(self.profile, ignore_errors=True)

    def resize(self, width, height):
        shape = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", shape)

    def run(self, script, *words):
        return self.driver.execute_script(script, *words)

    def settle(self):
        """Waits until what was asked for is drawn."""
        self.driver.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()));"
        )

    def element(self, name):
        return self.driver.find_element(By.ID, name)

    def text(self, name):
        return self.element(name).text

    def pixels(self, name):
        return self.run(PIXELS, name)

    def point(self, name, x=0, y=0):
        """Moves the pointer to a place beside the middle of an element."""
        self.run("document.getElementById(arguments[0]).scrollIntoView({ block: 'center' })", name)
        ActionChains(self.driver, duration=30).move_to_element_with_offset(self.element(name), x, y).perform()
        self.settle()

    def errors(self):
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def shoot(self, name):
        folder = os.environ.get("SHOTS")
        if folder:
            height = self.run("return document.documentElement.scrollHeight")
            width = self.run("return innerWidth")
            self.resize(width, height)
            self.settle()
            self.driver.save_screenshot(os.path.join(folder, name + ".png"))
            self.resize(width, 900)
            self.settle()


def check(what, holds, seen=""):
    print(f"  {'ok ' if holds else 'NO '} {what}" + (f": {seen}" if seen != "" and not holds else ""))
    check.failed += not holds


check.failed = 0


def program(stitchpool, *words):
    done = subprocess.run([stitchpool, *words], capture_output=True, text=True, check=True)
    return done.stdout


def see_figures(browser, figures):
    shown = browser.run(
        "return Object.fromEntries([...document.querySelectorAll('[data-figure]')]"
        ".map((cell) => [cell.dataset.figure, cell.textContent]))"
    )
    expected = {name: value for name, value in figures.items() if not isinstance(value, (dict, list))}
    wrong = {}
    for name, value in expected.items():
        same = shown.get(name) == "–" if value is None else str(value) == shown.get(name)
        if not same and isinstance(value, (int, float)):
            same = float(shown.get(name, "nan")) == float(value)
        if not same and name not in VARIES:
            wrong[name] = (value, shown.get(name))
    check("figures are those of the program", not wrong and len(expected) > 30, wrong)
    gib = f"{figures['peak_live_bytes'] / 2**30:.2f}"
    check("the head shows the highest live bytes", gib in browser.text("headline"), browser.text("headline"))


def see_slider(browser):
    slider = browser.element("moment")
    before = [browser.pixels(name) for name in ("address-now", "chunk-now")], browser.text("moment-text")
    browser.run("arguments[0].focus()", slider)
    slider.send_keys(Keys.HOME)
    browser.settle()
    after = [browser.pixels(name) for name in ("address-now", "chunk-now")], browser.text("moment-text")
    check("the slider moves both maps", all(one != other for one, other in zip(before[0], after[0])))
    check("the slider says where it is", before[1] != after[1] and after[1].startswith("0.000 s"), after[1])
    slider.send_keys(Keys.ARROW_RIGHT)
    browser.settle()
    check("an arrow key moves it by one", slider.get_attribute("value") == "1", slider.get_attribute("value"))
    slider.send_keys(Keys.END)
    browser.settle()


def see_pointer(browser):
    for name, words in [("memory", "live"), ("address-time", "s, 0x"), ("sizes", "blocks"), ("address-now", ""), ("chunk-now", "")]:
        browser.point(name)
        tip = browser.element("tip")
        check(f"pointing at {name} tells its value", tip.is_displayed() and words in tip.text, tip.text)
    browser.point("run-title")
    check("the note goes with the pointer", not browser.element("tip").is_displayed())


def see_zoom(browser):
    label = lambda: browser.element("memory").get_attribute("aria-label")
    span = lambda: browser.run("return report.clock.end - report.clock.start")
    whole = span()
    browser.point("memory")
    ActionChains(browser.driver).scroll_from_origin(ScrollOrigin.from_element(browser.element("memory")), 0, -300).perform()
    browser.settle()
    wheeled = span()
    check("the wheel zooms in", wheeled < whole and "whole run" not in label(), label())
    ActionChains(browser.driver, duration=60).move_to_element_with_offset(
        browser.element("memory"), -100, 0
    ).click_and_hold().move_by_offset(200, 0).release().perform()
    browser.settle()
    check("a drag zooms in", span() < wheeled)
    ActionChains(browser.driver).double_click(browser.element("memory")).perform()
    browser.settle()
    check("a double click shows the whole run", span() == whole and "whole run" in label())
    browser.element("memory").send_keys("+")
    browser.settle()
    check("the key + zooms in", span() < whole)
    browser.element("memory").send_keys("0")
    browser.settle()
    moment = browser.run("return report.clock.moment")
    browser.element("memory").send_keys(Keys.ARROW_LEFT)
    check("an arrow key moves the mark", browser.run("return report.clock.moment") < moment)


def see_themes(browser):
    ground = lambda: browser.run("return getComputedStyle(document.body).backgroundColor")
    grounds, pictures = set(), set()
    for _ in range(3):
        browser.element("theme").click()
        browser.settle()
        grounds.add(ground())
        pictures.add(browser.pixels("memory"))
    check("the switch has a light and a dark page", len(grounds) == 2 and len(pictures) == 2, grounds)


def see_trace(stitchpool, trace, folder):
    name = os.path.basename(trace)
    print(name)
    page = os.path.join(folder, "report.html")
    start = time.monotonic()
    program(stitchpool, "report", trace, "--driver", "host", "-o", page)
    made_s = time.monotonic() - start
    figures = json.loads(program(stitchpool, "replay", trace, "--driver", "host", "--json"))
    stem = name.split(".")[0]
    with Browser(page) as browser:
        for canvas in CANVASES:
            colours = browser.run(COLOURS, canvas)
            check(f"{canvas} is drawn", colours >= 3, f"{colours} colours")
        see_figures(browser, figures)
        browser.shoot(f"{stem}-light")
        see_slider(browser)
        see_pointer(browser)
        see_zoom(browser)
        see_themes(browser)
        drawn_ms = browser.run(DRAWN_MS)
        check("it is drawn anew in time", drawn_ms <= DRAWN_MS_MAX, f"{drawn_ms:.0f} ms")
        asked = browser.run("return performance.getEntriesByType('resource').map((entry) => entry.name)")
        check("nothing is asked of any network", not [one for one in asked if not one.startswith("data:")], asked)
        errors = browser.errors()
        check("the console is silent", not errors, errors)
        told = f"made in {made_s:.1f} s, {os.path.getsize(page) / 1e6:.1f} MB, opened in {browser.opened_s:.1f} s"
        print(f"  {told}, drawn anew in {drawn_ms:.0f} ms")
    with Browser(page, 390, 844, is_dark=True) as browser:
        for width in (1366, 760, 390):
            browser.resize(width, 844)
            browser.settle()
            wide = browser.run("return document.documentElement.scrollWidth")
            check(f"a page {width} pixels wide does not scroll sideways", wide <= width, f"{wide} pixels")
        dark = browser.run("return getComputedStyle(document.body).backgroundColor")
        check("it follows the system into the dark", sum(map(int, dark[4:-1].split(", "))) < 200, dark)
        browser.shoot(f"{stem}-narrow-dark")
        check("the console is silent", not browser.errors())


def both_at_once(one, other, path):
    """A run of two devices: two recorded runs that begin together. The second one's stands on device 3."""
    runs = [pickle.load(gzip.open(trace)) for trace in (one, other)]
    begin_us = [run["device_traces"][0][0]["time_us"] for run in runs]
    for event in runs[1]["device_traces"][0]:
        event["time_us"] += begin_us[0] - begin_us[1]
    for segment in runs[1]["segments"]:
        segment["device"] = 3
    traces = [runs[0]["device_traces"][0], [], [], runs[1]["device_traces"][0]]
    with open(path, "wb") as file:
        pickle.dump({**runs[0], "device_traces": traces, "segments": runs[0]["segments"] + runs[1]["segments"]}, file)


def see_two_devices(stitchpool, traces, folder):
    print("a run of two devices")
    trace, page = os.path.join(folder, "two.pickle"), os.path.join(folder, "two.html")
    both_at_once(traces[0], traces[-1], trace)
    figures = json.loads(program(stitchpool, "report", trace, "--driver", "host", "--json", "-o", page))
    maps = ["address-time", "address-now", "chunk-time", "chunk-now"]
    with Browser(page) as browser:
        pictures = lambda: {name: browser.pixels(name) for name in ["memory", *maps]}
        peak = lambda key="live": browser.run("return report.timeline.curves[arguments[0]].peak", key)
        choose = lambda name, value: (Select(browser.element(name)).select_by_value(value), browser.settle())
        see_figures(browser, figures)
        offered = [option.text for option in Select(browser.element("device")).options]
        check("all devices and each can be chosen", offered == ["all devices", "device 0", "device 3"], offered)
        all_devices, most = pictures(), peak()
        choose("device", "1")
        same = [name for name, picture in pictures().items() if picture == all_devices[name]]
        check("one device alone has another picture in every figure", not same, same)
        check("it has less than all", 0 < peak() < most, peak())
        second = {key: peak(key) for key in ("live", "physical", "reserved")}
        choose("device", "0")
        for key, last in second.items():
            told = (peak(key) + last, figures[f"peak_{key}_bytes"])
            check(f"the highest {key} bytes of both come to the figures", told[0] == told[1], told)
        choose("device", "1")
        check("the choice above the maps goes along", browser.element("map-device").get_attribute("value") == "1")
        check("the maps say whose memory they show", "device 3" in browser.text("chunk-about"), browser.text("chunk-about"))
        browser.shoot("two-device-3")
        choose("map-device", "all")
        check("all devices are back", pictures() == all_devices)
        choose("map-colour", "device")
        same = [name for name in maps if browser.pixels(name) == all_devices[name]]
        check("colours by device are other colours", not same, same)
        legend = browser.text("map-legend")
        check("the legend names both devices", "device 0, live" in legend and "device 3, free" in legend, legend)
        browser.shoot("two-by-device")
        # Down the middle of the map: which chunks stand at this moment is the pool's business.
        height = browser.run("return document.getElementById('chunk-now').clientHeight")
        told = []
        for y in range(4 - height // 2, height // 2, max(1, height // 24)):
            browser.point("chunk-now", y=y)
            told.append(browser.text("tip"))
        check("pointing at chunks tells their devices",
              all(any(f"device {device}" in words for words in told) for device in (0, 3)), told)
        errors = browser.errors()
        check("the console is silent", not errors, errors)


def see_refused(stitchpool, trace, folder):
    print("a run that did not fit")
    page = os.path.join(folder, "refused.html")
    words = [stitchpool, "report", trace, "--driver", "host", "--json", "--capacity", "0.7x", "-o", page]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    figures = json.loads(done.stdout)
    check("requests were refused", done.returncode == 1 and figures["oom"] > 0, done.returncode)
    with Browser(page) as browser:
        see_figures(browser, figures)
        check("where is marked", "request refused" in browser.text("memory-legend"), browser.text("memory-legend"))
        trouble = browser.text("trouble")
        check("why is said", figures["first_refusal"] in trouble, trouble)
        check("nothing is said to be saved", figures["saved_bytes"] is None and "GiB" not in browser.run("return document.querySelector('.headline .saved').textContent"))
        check("the console is silent", not browser.errors())


def see_hostile(stitchpool, trace, folder):
    print("a name that looks like markup, and two runs on one page")
    path = os.path.join(folder, "<", "script><script>window.taken=1<", "script><img src=x onerror=window.taken=1>.gz")
    os.makedirs(os.path.dirname(path))
    shutil.copy(trace, path)
    page = os.path.join(folder, "hostile.html")
    program(stitchpool, "report", trace, path, "--driver", "host", "-o", page)
    with Browser(page) as browser:
        browser.driver.find_elements(By.CSS_SELECTOR, "#runs button")[1].click()
        browser.settle()
        check("it is shown as text", browser.text("run-title") == os.path.basename(path), browser.text("run-title"))
        check("it is not run", browser.run("return window.taken === undefined && !document.querySelector('img')"))
        errors = browser.errors()
        check("the console is silent", not errors, errors)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    stitchpool, traces = os.path.abspath(sys.argv[1]), sys.argv[2:]
    with tempfile.TemporaryDirectory() as folder:
        for trace in traces:
            see_trace(stitchpool, trace, folder)
        see_two_devices(stitchpool, traces, folder)
        see_refused(stitchpool, traces[0], folder)
        see_hostile(stitchpool, traces[0], folder)
    print("all held" if not check.failed else f"{check.failed} checks did not hold")
    sys.exit(1 if check.failed else 0)


if __name__ == "__main__":
    main()
