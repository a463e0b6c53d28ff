"use strict";

// A cell sorts as the number that it begins with, or else as text.
function valueOf(row, column) {
  const text = row.cells[column].textContent.trim();
  const number = parseFloat(text.replace("< ", ""));
  return Number.isNaN(number) ? text : number;
}

function compare(a, b) {
  if (typeof a === typeof b) {
    return typeof a === "number" ? a - b : a.localeCompare(b);
  }
  return typeof a === "number" ? -1 : 1;
}

function sortBy(table, head) {
  const descending = head.getAttribute("aria-sort") === "ascending";
  const rows = [...table.tBodies[0].rows];
  const column = head.cellIndex;
  rows.sort((a, b) => compare(valueOf(a, column), valueOf(b, column)));
  if (descending) {
    rows.reverse();
  }
  for (const each of head.parentNode.cells) {
    each.removeAttribute("aria-sort");
  }
  head.setAttribute("aria-sort", descending ? "descending" : "ascending");
  table.tBodies[0].append(...rows);
}

function filter(table, words) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of table.tBodies[0].rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = !wanted.every((word) => text.includes(word));
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
