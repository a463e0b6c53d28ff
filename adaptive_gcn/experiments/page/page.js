"use strict";

// A cell sorts as the number that it begins with, or else as text.
function valueOf(row, column) {
  const text = row.cells[column].textContent.trim();
  const number = parseFloat(text.replace("< ", ""));
  return Number.isNaN(number) ? text : number;
}

// Numbers stand before text whichever way (1 or -1) they are sorted.
function compare(a, b, way) {
  if (typeof a !== typeof b) {
    return typeof a === "number" ? -1 : 1;
  }
  return way * (typeof a === "number" ? a - b : a.localeCompare(b));
}

function sortBy(table, head) {
  const descending = head.getAttribute("aria-sort") === "ascending";
  const rows = [...table.tBodies[0].rows];
  const column = head.cellIndex;
  const way = descending ? -1 : 1;
  rows.sort((a, b) => compare(valueOf(a, column), valueOf(b, column), way));
  for (const each of head.parentNode.cells) {
    each.removeAttribute("aria-sort");
  }
  head.setAttribute("aria-sort", descending ? "descending" : "ascending");
  table.tBodies[0].append(...rows);
}

// A row stays if each word is within one of its cells.
function filter(table, words) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of table.tBodies[0].rows) {
    const texts = [...row.cells].map((cell) => cell.textContent.toLowerCase());
    row.hidden = !wanted.every((word) => texts.some((t) => t.includes(word)));
  }
}

for (const section of document.querySelectorAll("section")) {
  const table = section.querySelector("table");
  const field = section.querySelector("input[type=search]");
  if (!table || !field) {
    continue;
  }
  field.addEventListener("input", () => filter(table, field.value));
  for (const head of table.tHead.rows[0].cells) {
    head.querySelector("button").addEventListener("click", () => {
      sortBy(table, head);
    });
  }
}
