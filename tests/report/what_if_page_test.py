#!/usr/bin/env python3
"""Opens the report of `tessera what-if --html` in Chromium and holds it against the JSON.

    what_if_page_test.py BIN_FOLDER

Exit code 77 (skipped) where there is no Chromium.
"""

import base64
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from browser import Browser, find_chromium

SKIPPED = 77
MAX_BYTES = 3_000_000
BIN_FOLDER = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "bin").resolve()
SWEEP = ["--model", "llama3-8b", "--clusters", "dgx-a100-80gb,dgx-h100", "--devices", "8,16,32,64",
         "--global-batch-sizes", "64,128", "--pp", "2", "--tokens", "1T"]

# What one of the page's charts holds, in plain values.
DATASETS = """(id => {
  const figure = document.getElementById(id);
  const chart = Chart.getChart(figure.querySelector('canvas'));
  return {key: figure.dataset.key, kind: chart.config.type, labels: chart.data.labels,
          datasets: chart.data.datasets.map(d => ({label: d.label, data: d.data}))};
})"""
FIGURE_IDS = """Array.from(document.querySelectorAll('figure canvas'),
                           canvas => canvas.closest('figure').id)"""
# Colours of a canvas, few where nothing is drawn.
NUM_COLORS = """(id => {
  const canvas = document.getElementById(id).querySelector('canvas');
  const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const pixels = new Uint32Array(data.buffer);
  return new Set(pixels).size;
})"""
TABLE_CELLS = """(selector => Array.from(document.querySelectorAll(selector), cell => {
  const table = cell.closest('table');
  const header = table.tHead.rows[0].cells[cell.cellIndex];
  const point = cell.dataset.point ?? cell.parentElement.dataset.point;
  return {key: header.dataset.key, point, value: cell.dataset.value, text: cell.textContent};
}))"""


def run_tessera(folder, arguments):
    """Runs what-if. Returns (path of the page, the document)."""
    page, numbers = folder / "report.html", folder / "report.json"
    done = subprocess.run([BIN_FOLDER / "tessera", "what-if", *arguments, "--quiet",
                           "--html", page, "--json", numbers], capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"what-if fails: {done.stderr}")
    return page, json.loads(numbers.read_text())


def at(document, path):
    """What lies at "run/days", or None."""
    for key in path.split("/"):
        if not isinstance(document, dict) or key not in document:
            return None
        document = document[key]
    return document


class PageTest(unittest.TestCase):
    """The page of one sweep in one browser; each test looks at a tab of its own."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.page_file, cls.document = run_tessera(cls.folder, SWEEP)
        cls.points = {point["id"]: point for point in cls.document["points"]}
        cls.browser = cls.enterClassContext(Browser(find_chromium()))

    def open(self, **size):
        return self.browser.open(self.page_file.as_uri(), **size)

    def open_charts(self):
        """The page; skips a test of charts that are drawn by scripts where there are none."""
        page = self.open()
        if page.run("typeof Chart === 'undefined'"):
            self.assertTrue(page.run("document.getElementById('static-charts') !== null"))
            self.skipTest("built without Chart.js (Debian: libjs-chart.js)")
        return page

    def with_timelines(self):
        return [detail for detail in self.document.get("details", [])
                if any(at(detail, "timeline/stages") or [])]

    def check_number(self, point, key, value, where):
        expected = at(self.points[int(point)], key)
        self.assertEqual(float(value), expected, f"{where}: point {point}, {key}")

    def test_it_opens_without_a_complaint_or_a_request(self):
        page = self.open()
        self.assertEqual(page.complaints(), [])
        self.assertEqual(page.requests(), [self.page_file.as_uri()])
        self.assertLess(self.page_file.stat().st_size, MAX_BYTES)

    def test_every_chart_is_drawn(self):
        page = self.open_charts()
        ids = page.run(FIGURE_IDS)
        self.assertIn("figure-tokens_per_s", ids)
        self.assertIn("figure-mfu", ids)
        self.assertIn("figure-step", ids)
        for figure in ids:
            self.assertGreater(page.run(f"{NUM_COLORS}('{figure}')"), 20, figure)
            self.assertGreater(
                page.run(f"document.querySelectorAll('#{figure} .still svg *').length"), 5, figure)

    def test_the_charts_hold_the_numbers_of_the_json(self):
        page = self.open_charts()
        for figure in page.run(FIGURE_IDS):
            chart = page.run(f"{DATASETS}('{figure}')")
            if chart["kind"] != "scatter":
                continue
            for dataset in chart["datasets"]:
                for mark in dataset["data"]:
                    if chart["key"] and mark["point"] >= 0:
                        self.check_number(mark["point"], chart["key"], mark["y"], figure)
        marks = sum(len(dataset["data"]) for dataset in
                    page.run(f"{DATASETS}('figure-tokens_per_s')")["datasets"])
        self.assertEqual(marks, sum(point["feasible"] for point in self.points.values()))

    def test_the_bars_are_the_terms_of_the_step(self):
        page = self.open_charts()
        chart = page.run(f"{DATASETS}('figure-step')")
        cells = page.run(f"{TABLE_CELLS}('#figure-step td[data-value]')")
        self.assertGreater(len(cells), 3)
        sums = {}
        for cell in cells:
            self.check_number(cell["point"], cell["key"], cell["value"], "terms")
            if cell["key"] != "step_time_s":
                sums[cell["point"]] = sums.get(cell["point"], 0) + float(cell["value"])
        for point, seconds in sums.items():
            step_s = self.points[int(point)]["step_time_s"]
            self.assertAlmostEqual(seconds / step_s, 1, places=9)
        for bar in range(len(chart["labels"])):
            shares = [dataset["data"][bar] or 0 for dataset in chart["datasets"]]
            self.assertAlmostEqual(sum(shares), 1, places=9)

    def test_the_tables_hold_the_numbers_of_the_json(self):
        page = self.open()
        self.assertEqual(page.run("document.querySelectorAll('#points tbody tr').length"),
                         len(self.points))
        keys = set()
        for cell in page.run(f"{TABLE_CELLS}('td[data-value], tbody th[data-value]')"):
            if cell.get("key") and cell.get("point") is not None:
                self.check_number(cell["point"], cell["key"], cell["value"], "table")
                keys.add(cell["key"])
        self.assertLessEqual({"devices", "tokens_per_s", "mfu", "run/days", "memory/peak_bytes",
                              "run/goodput_share"}, keys)
        numbers = page.run("""Array.from(document.querySelectorAll('.key dd'), e => ({
            key: e.dataset.key, value: e.dataset.value, point: e.closest('dl').dataset.point}))""")
        self.assertGreater(len(numbers), 5)
        for number in numbers:
            self.check_number(number["point"], number["key"], number["value"], "key numbers")

    def test_the_page_carries_the_document(self):
        carried = self.open().run("JSON.parse(document.getElementById('data').textContent)")
        expected = json.loads(json.dumps(self.document))
        for detail in expected.get("details", []):
            detail.pop("timeline", None)
        # The command names the files that it writes; otherwise both are one document.
        self.assertEqual(carried, expected)

    def column(self, page, key):
        return page.run(f"""(() => {{
            const header = document.querySelector('#points th[data-key="{key}"]');
            return {{sort: header.getAttribute('aria-sort'),
                     values: Array.from(document.querySelectorAll('#points tbody tr'),
                                        row => row.cells[header.cellIndex].dataset.value)
                                  .filter(value => value !== undefined).map(Number)}};
        }})()""")

    def test_a_click_on_a_header_sorts(self):
        page = self.open()
        page.click('#points th[data-key="step_time_s"] button')
        column = self.column(page, "step_time_s")
        self.assertEqual(column["sort"], "ascending")
        self.assertEqual(column["values"], sorted(column["values"]))
        page.click('#points th[data-key="step_time_s"] button')
        column = self.column(page, "step_time_s")
        self.assertEqual(column["sort"], "descending")
        self.assertEqual(column["values"], sorted(column["values"], reverse=True))

    def test_the_keyboard_sorts_as_well(self):
        page = self.open()
        page.run("""document.querySelector('#points th[data-key="mfu"] button').focus()""")
        page.press("Enter", 13, "\r")
        column = self.column(page, "mfu")
        self.assertEqual(column["sort"], "ascending")
        self.assertEqual(column["values"], sorted(column["values"]))
        page.press(" ", 32, " ")
        self.assertEqual(self.column(page, "mfu")["sort"], "descending")

    def test_a_filter_hides_rows_and_lines(self):
        page = self.open_charts()
        page.click('[data-filter="group"][value="0"]')
        shown = page.run("document.querySelectorAll('#points tbody tr:not([hidden])').length")
        self.assertEqual(shown, len(self.points) // 2)
        visible = page.run("""(() => {
            const chart = Chart.getChart(document.querySelector('#figure-mfu canvas'));
            return chart.data.datasets.map((d, i) => chart.isDatasetVisible(i));
        })()""")
        self.assertEqual(visible, [False, False, True, True])

    def test_arrow_keys_tell_the_marks_of_a_chart(self):
        page = self.open_charts()
        page.run("document.querySelector('#figure-mfu canvas').focus()")
        page.press("ArrowRight", 39)
        self.assertIn("%", page.run("document.getElementById('tip').textContent"))
        self.assertFalse(page.run("document.getElementById('tip').hidden"))

    def test_details_have_a_timeline_that_keys_go_through(self):
        page = self.open()
        self.assertGreater(len(self.with_timelines()), 0)
        for detail in self.with_timelines():
            name = f"figure-timeline-{detail['point']}"
            drawn = page.run(f"document.querySelector('#{name} svg.actions')"
                             ".getElementsByTagName('path').length")
            self.assertGreaterEqual(drawn, len(detail["timeline"]["stages"]))
            page.run(f"document.querySelector('#{name} .drawing').focus()")
            page.press("ArrowRight", 39)
            told = page.run(f"document.querySelector('#{name} .told').textContent")
            self.assertRegex(told, r"stage 0, forward, micro-batch 1\b")

    def test_timelines_hold_the_actions_of_the_json(self):
        page = self.open()
        timelines = page.run("JSON.parse(document.getElementById('timelines').textContent)")
        details = self.with_timelines()
        self.assertEqual(len(timelines), len(details))
        for timeline, detail in zip(timelines, details):
            makespan_s = detail["timeline"]["makespan_s"]
            self.assertEqual(timeline["makespan_s"], makespan_s)
            for drawn, actions in zip(timeline["stages"], detail["timeline"]["stages"]):
                for i, start in enumerate(drawn["starts"]):
                    seconds = start / timeline["parts"] * makespan_s
                    self.assertAlmostEqual(seconds / makespan_s,
                                           actions[i]["start_s"] / makespan_s, delta=1e-6)

    def test_memory_bars_are_the_terms_of_the_json(self):
        page = self.open_charts()
        for detail in self.document.get("details", []):
            chart = page.run(f"{DATASETS}('figure-memory-{detail['point']}')")
            by_name = {dataset["label"]: dataset["data"] for dataset in chart["datasets"]}
            for stage, memory in enumerate(detail["memory_stages"]):
                for term in memory["terms"]:
                    self.assertEqual(by_name[term["name"]][stage], term["bytes"])

    def test_it_follows_the_system_into_the_dark_and_back(self):
        page = self.open_charts()
        brightness = ("getComputedStyle(document.body).backgroundColor.match(/\\d+/g)"
                      ".slice(0, 3).reduce((sum, part) => sum + Number(part), 0) / 3")
        colors = "Chart.getChart(document.querySelector('#figure-step canvas')).getDatasetMeta(0)" \
                 ".data[0].options.backgroundColor"
        self.assertGreater(page.run(brightness), 200)
        light = page.run(colors)
        page.emulate(prefers_color_scheme="dark")
        self.assertLess(page.run(brightness), 60)
        self.assertNotEqual(page.run(colors), light)
        page.run("""(() => { const select = document.querySelector('#tools select');
            select.value = 'light'; select.dispatchEvent(new Event('change')); })()""")
        page.settle()
        self.assertGreater(page.run(brightness), 200)
        self.assertEqual(page.run(colors), light)
        self.assertEqual(page.complaints(), [])

    def test_it_prints_on_white_paper_with_drawn_charts(self):
        page = self.open_charts()
        page.emulate(media="print", prefers_color_scheme="dark")
        self.assertEqual(page.run("getComputedStyle(document.body).backgroundColor"),
                         "rgb(255, 255, 255)")
        shown = page.run("""Array.from(document.querySelectorAll('figure .still svg, figure canvas'),
            element => [element.tagName, element.getBoundingClientRect().width > 100])""")
        for name, is_shown in shown:
            self.assertEqual(is_shown, name == "svg", name)
        page.emulate()
        data = base64.b64decode(page.call("Page.printToPDF", preferCSSPageSize=True)["data"])
        self.assertTrue(data.startswith(b"%PDF"))
        self.assertGreater(len(re.findall(rb"/Type\s*/Page\b", data)), 2)

    def test_a_narrow_screen_needs_no_sideways_scrolling(self):
        page = self.open(width=360, height=740)
        self.assertLessEqual(page.run("document.documentElement.scrollWidth"), 360)
        self.assertEqual(page.complaints(), [])

    def test_without_scripts_the_charts_are_there_still(self):
        page = self.open()
        page.call("Emulation.setScriptExecutionDisabled", value=True)
        page.call("Page.reload")
        page.wait_until_loaded(has_scripts=False)
        shown = page.run("""Array.from(document.querySelectorAll('figure .still svg'),
            svg => svg.getBoundingClientRect().width)""")
        self.assertGreater(len(shown), 2)
        self.assertGreater(min(shown), 100)

    def test_every_chart_has_words_and_a_table(self):
        page = self.open()
        for figure in page.run("Array.from(document.querySelectorAll('figure'), f => f.id)"):
            label = page.run(f"document.querySelector('#{figure} [role=img]')"
                             ".getAttribute('aria-label')")
            self.assertGreater(len(label), 20, figure)
            rows = page.run(f"document.querySelectorAll('#{figure} details tbody tr').length")
            self.assertGreater(rows, 0, figure)


class HostileNamesTest(unittest.TestCase):
    NAME = """</script><script>window.broken = 1</script><img src=x onerror="window.broken = 2">""" \
           """ & "double" 'single' <!-- --> {{title}}"""

    def show(self, folder, kind):
        text = subprocess.run([BIN_FOLDER / "tessera", "config", "show", kind], check=True,
                              capture_output=True, text=True).stdout
        document = json.loads(text)
        document["name"] = self.NAME
        path = folder / f"{kind}.json"
        path.write_text(json.dumps(document))
        return path

    def test_names_cannot_break_the_page(self):
        with tempfile.TemporaryDirectory() as name, Browser(find_chromium()) as browser:
            folder = pathlib.Path(name)
            model, cluster = self.show(folder, "gpt2-124m"), self.show(folder, "dgx-h100")
            page_file, document = run_tessera(
                folder, ["--model", model, "--clusters", cluster, "--devices", "4,8",
                         "--global-batch-sizes", "16", "--tokens", "1B"])
            page = browser.open(page_file.as_uri())
            self.assertEqual(page.complaints(), [])
            self.assertEqual(page.requests(), [page_file.as_uri()])
            self.assertIsNone(page.run("window.broken ?? null"))
            self.assertIn(self.NAME, page.run("document.querySelector('h1').textContent"))
            self.assertEqual(page.run("document.querySelectorAll('img').length"), 0)
            carried = page.run("JSON.parse(document.getElementById('data').textContent)")
            self.assertEqual(carried["points"], document["points"])


def main():
    if find_chromium() is None:
        print("what_if_page_test: skipped, there is no Chromium (Debian: chromium)")
        return SKIPPED
    program = unittest.main(argv=[sys.argv[0], *sys.argv[2:]], exit=False, verbosity=2)
    return 0 if program.result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
