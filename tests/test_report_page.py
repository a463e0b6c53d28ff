"""The page in a real browser: it works, shows all, and reports no error."""

import re
import shutil
import subprocess

import pytest

from adaptive_gcn.experiments import plots, report

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs Chromium")

ROWS = [("b", "10.5"), ("a", "9"), ("c", "not run")]

# Does what a reader does, and leaves what is then to be seen.
READER = """
<script>
const table = document.querySelector("table");
const rows = () => [...table.tBodies[0].rows].filter((row) => !row.hidden)
  .map((row) => row.cells[0].textContent).join("");
const [name, value] = table.querySelectorAll("th button");
const seen = [rows()];
name.click(); seen.push(rows());
name.click(); seen.push(rows());
value.click(); seen.push(rows());
const field = document.querySelector("input[type=search]");
field.value = "NOT"; field.dispatchEvent(new Event("input"));
seen.push(rows());
window.addEventListener("load", () => {
  const images = [...document.images].every((image) => image.naturalWidth > 0);
  const wide = document.documentElement.scrollWidth > window.innerWidth;
  const end = document.createElement("p");
  end.id = "seen";
  end.textContent = [...seen, images, wide].join(" ");
  document.body.append(end);
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
        "Some text.",
        ("name", "value", "long"),
        [(*row, long) for row in ROWS],
        [tmp_path / "bars.png"],
        {"cell": {"epochs": 3, "hidden_units": [16]}},
    )
    report.write(tmp_path / "page.html", [section])
    return tmp_path / "page.html"


def look(path, width=1200):
    done = subprocess.run(
        [
            BROWSER,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            f"--window-size={width},900",
            f"--user-data-dir={path.parent / 'profile'}",
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
    return done.stdout, console


@pytest.mark.parametrize("width", [1200, 500])
def test_sorting_filtering_and_images_work(page, width):
    page.write_text(page.read_text().replace("</body>", READER))
    shown, console = look(page, width)
    seen = re.search('<p id="seen">(.*?)</p>', shown).group(1).split()
    # As written; by name; back; by number, words last; with the word "not".
    assert seen[:5] == ["bac", "abc", "cba", "abc", "c"]
    assert seen[5:] == ["true", "false"]
    assert not console


def test_an_error_on_the_page_would_be_seen(page):
    broken = page.read_text().replace('"use strict";', "no_such_name();")
    page.write_text(broken)
    _, console = look(page)
    assert any("no_such_name" in line for line in console)
