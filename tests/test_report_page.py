"""The page in a real browser: it works, shows all, and reports no error."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from adaptive_gcn.experiments import captions, grid, plots, report

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
in_browser = pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
ROOT = Path(__file__).parents[1]
COMMITTED = ROOT / "results" / "report.html"

ROWS = [("b", "10.5"), ("a", "9"), ("c", "not run")]

# What a reader of any of our pages sees, told to the page around it.
READER = """
<script>
const shown = (table) => [...table.tBodies[0].rows]
  .filter((row) => !row.hidden).map((row) => row.cells[0].textContent);
function search(table, words) {
  const field = table.closest("section").querySelector("input[type=search]");
  field.value = words;
  field.dispatchEvent(new Event("input"));
  return shown(table);
}
const click = (table, column) =>
  table.querySelectorAll("th button")[column].click();
const inSight = (image) => {
  const box = image.getBoundingClientRect();
  return image.naturalWidth > 0 && image.checkVisibility() && box.width > 99
    && box.height > 99 && box.left >= 0 && box.right <= innerWidth;
};
window.addEventListener("load", () => {
  const tell = parent.document.createElement("p");
  tell.id = "seen";
  const tables = [...document.querySelectorAll("table")].map(READ);
  tell.textContent = JSON.stringify({
    tables,
    hidden: [...document.images].filter((i) => !inSight(i)).map((i) => i.alt),
    images: document.images.length,
    width: document.documentElement.scrollWidth,
  });
  parent.document.body.append(tell);
});
</script>
</body>"""


@pytest.fixture
def page(tmp_path):
    pytest.importorskip("matplotlib")
    plots.bars({"cora": {"Full": 1.0}}, "seconds", tmp_path / "bars")
    long = "x" * 300
    section = report.Section(
        "A table",
        long,
        ("name", "value", "Welch p"),
        [(*row, long) for row in ROWS],
        [(tmp_path / "bars.png", long)],
        {
            long: {
                "flags": {"epochs": 3, "hidden_units": [16], "columns": long},
                "fingerprint": {"code": "c"},
                "made_by": "b",
            }
        },
    )
    report.write(tmp_path / "page.html", [section])
    return tmp_path / "page.html"


def look(text, folder, width, read="() => 0"):
    """What is seen in a frame: no window of Chromium is as narrow as a phone.

    Settings are opened, so that they are seen, too.
    """
    text = text.replace("<details>", "<details open>")
    text = text.replace("</body>", READER.replace("READ)", f"{read})"))
    frame = (
        f'<iframe style="width: {width}px; height: 900px; border: 0" '
        f'srcdoc="{html.escape(text)}"></iframe>'
    )
    path = folder / "frame.html"
    path.write_text(f'<!doctype html><meta charset="utf-8">{frame}')
    done = subprocess.run(
        [
            BROWSER,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--enable-logging=stderr",
            "--window-size=1400,1000",
            f"--user-data-dir={folder / 'profile'}",
            "--virtual-time-budget=5000",
            "--dump-dom",
            path.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    seen = re.search('<p id="seen">(.*?)</p>', done.stdout)
    return json.loads(html.unescape(seen.group(1))) if seen else None, console


@in_browser
@pytest.mark.parametrize("width", [1200, 390])
def test_sorting_filtering_and_images_work(page, width):
    read = """(table) => {
      const seen = [shown(table)];
      for (const column of [0, 0, 1, 1]) {
        click(table, column);
        seen.push(shown(table));
      }
      for (const words of ["NOT", "b 10", "b1", ""]) {
        seen.push(search(table, words));
      }
      return seen.map((each) => each.join("")).join(" ");
    }"""
    seen, console = look(page.read_text(), page.parent, width, read)
    # As written; by name, and back; by number, and back, words always last;
    # with a word; with one in each of two cells, over two cells; all.
    assert seen["tables"] == ["bac abc cba abc bac c b  bac"]
    assert seen["images"] == 1
    assert seen["hidden"] == []
    assert seen["width"] <= width
    assert not console


@in_browser
def test_an_error_on_the_page_would_be_seen(page):
    broken = page.read_text().replace('"use strict";', "no_such_name();")
    _, console = look(broken, page.parent, 1200)
    assert any("no_such_name" in line for line in console)


@in_browser
@pytest.mark.parametrize("width", [1200, 390])
def test_committed_page_is_seen_whole_and_works(tmp_path, width):
    read = """(table) => {
      click(table, 0);
      const all = shown(table);
      const [word] = all[0].split(" ");
      return {
        sorted: all.every((t, i) => !i || all[i - 1].localeCompare(t) <= 0),
        all: all.length,
        across: search(table, "coraf").length,
        kept: search(table, word).length,
        back: search(table, "").length,
      };
    }"""
    seen, console = look(COMMITTED.read_text(), tmp_path, width, read)
    assert len(seen["tables"]) > 5
    for table in seen["tables"]:
        assert table["sorted"]
        assert table["across"] == 0 < table["kept"]
        assert table["back"] == table["all"]
    assert seen["images"] == len(list((ROOT / "results").rglob("*.png"))) > 0
    assert seen["hidden"] == []
    assert seen["width"] <= width
    assert not console


def test_committed_page_is_of_the_present_style_and_script():
    page = COMMITTED.read_text()
    for name in ("page.css", "page.js"):
        assert report._part(name) in page


def test_columns_are_explained_where_they_stand(tmp_path):
    sections = [
        report.Section("a", header=("data set", "Welch p"), rows=[("x", "y")]),
        report.Section("b", header=("data set", "ours"), rows=[("x", "y")]),
    ]
    report.write(tmp_path / "page.html", sections)
    first, second = (tmp_path / "page.html").read_text().split("<h2>")[1:]
    assert "unequal variances" in first
    assert "unequal variances" not in second
    assert "sample standard deviation over seeds" in second


# Captions and plots.


def runs_of(n_seeds, dataset="cora", purpose="curves", method="adapt"):
    run = {
        "seconds_per_epoch": 0.5,
        "curves": {
            "seconds": [9.0, 0.5, 0.5],
            "test_accuracy": [0.5, 0.7, 0.8],
        },
        "graph": {"name": dataset},
        "machine": {"cores": 1, "processor": "P"},
        "flags": {"epochs": 3},
    }
    return {grid.Cell(dataset, "official", method, purpose): [run] * n_seeds}


def test_captions_say_recipe_seeds_and_how_seconds_were_measured():
    runs = runs_of(5) | runs_of(3, method="iid") | runs_of(2, "pubmed")
    assert captions.recipe_and_seeds(runs) == (
        "Recipe: official. Seeds: Cora 3 to 5, Pubmed 2."
    )
    assert captions.measured(runs) == (
        "Seconds were measured with runs side by side, one thread each, on "
        "1 core of P."
    )
    alone = captions.measured(runs_of(1, purpose="times"))
    assert "one run at a time" in alone
    runs = runs_of(1)
    (found,) = runs.values()
    assert captions.first_runs(runs) == {"curves/cora/official/adapt": found[0]}


@pytest.fixture
def drawn(monkeypatch):
    """Figures, kept in place of being written."""
    pytest.importorskip("matplotlib")
    figures = []
    monkeypatch.setattr(plots, "_write", lambda each, _: figures.append(each))
    yield figures
    for each in figures:
        plots._pyplot().close(each)


def test_seconds_of_curves_are_those_of_the_fastest_run_without_compiling(
    drawn,
):
    (found,) = runs_of(2).values()
    found[1] = found[1] | {"seconds_per_epoch": 9.0}  # Beside other work.
    plots.curves({"Adapt": found}, "Cora", Path())
    epochs, seconds = (each.lines[0].get_xdata() for each in drawn[0].axes)
    np.testing.assert_allclose(epochs, [1, 2, 3])
    np.testing.assert_allclose(seconds, [0.5, 1.0, 1.5])
    assert drawn[0].axes[1].get_xscale() == "linear"


def test_a_method_has_one_colour_in_all_plots(drawn):
    (found,) = runs_of(2).values()
    plots.curves({"Full": found, "IID": found}, "", Path())
    plots.draws({"IID": [(32, 0.8, 0.1), (64, 0.9, None)]}, "", "", Path())
    plots.bars({"a": {"IID": 1.0, "Full": 2.0}}, "", Path())
    curves, draws, bars = (each.axes[0] for each in drawn)
    full, iid = (line.get_color() for line in curves.lines)
    assert full != iid
    assert draws.lines[0].get_color() == iid
    assert [
        plots._pyplot().matplotlib.colors.to_hex(bar.get_facecolor())
        for bar in bars.patches
    ] == [iid, full]


def test_labels_of_ticks_do_not_overlap(drawn):
    (found,) = runs_of(2).values()
    plots.curves({"Full": found}, "", Path())
    points = [(n, 0.8, 0.1) for n in grid.DRAWS]
    plots.draws({"IID": points, "Adapt": points}, "", "", Path())
    plots.bars({"a": {"IID": 0.0123, "Adapt (no vr)": 432.1}}, "s", Path())
    for figure in drawn:
        figure.canvas.draw()
        for axes in figure.axes:
            for axis in (axes.xaxis, axes.yaxis):
                boxes = [
                    label.get_window_extent()
                    for label in axis.get_ticklabels(which="both")
                    if label.get_text()
                ]
                assert len(boxes) > 1
                for one, next_ in zip(boxes, boxes[1:], strict=False):
                    assert not one.overlaps(next_)
