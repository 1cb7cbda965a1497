// Tables that can be sorted: a button in each head, the state in aria-sort. Without this the page reads as it is.
"use strict";
for (const table of document.querySelectorAll("table[data-sortable]")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const said = document.createElement("p");
  said.className = "unseen";
  said.setAttribute("role", "status");
  table.parentElement.after(said);
  const key = (row, column) => {
    const cell = row.cells[column];
    if (!cell.hasAttribute("data-value")) return cell.textContent.trim();
    const value = Number(cell.dataset.value);
    return Number.isNaN(value) ? "" : value;
  };
  const compare = (a, b) => {
    if (a === b) return 0;
    if (a === "") return 1;
    if (b === "") return -1;
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), undefined, { numeric: true });
  };
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    head.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      const falling = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", falling ? "descending" : "ascending");
      const rows = [...body.rows].map((row) => [key(row, column), row]);
      rows.sort(([a], [b]) => (falling && a !== "" && b !== "" ? compare(b, a) : compare(a, b)));
      body.append(...rows.map(([, row]) => row));
      said.textContent = `Sorted by ${button.textContent.trim()}, ${falling ? "descending" : "ascending"}.`;
    });
  });
}
