"use strict";
(() => {
  const form = document.getElementById("filters");
  const table = document.getElementById("table");
  const rows = Array.from(table.tBodies[0].rows);
  const heads = Array.from(table.tHead.rows[0].cells);
  const fields = Array.from(form.elements).filter((field) => field.name);
  const status = form.querySelector("output");

  const matches = (row, field) => {
    if (!field.value) return true;
    const value = row.dataset[field.name];
    if (field.type !== "search") return value === field.value;
    return value.toLowerCase().includes(field.value.toLowerCase());
  };

  const filter = () => {
    let shown = 0;
    for (const row of rows) {
      row.hidden = !fields.every((field) => matches(row, field));
      shown += !row.hidden;
    }
    status.textContent = shown === rows.length ? "" : `${shown} of ${rows.length}`;
  };

  const remember = () => {
    const set = fields.filter((field) => field.value).map((field) => [field.name, field.value]);
    const hash = new URLSearchParams(set).toString();
    if (hash || location.hash.includes("=")) history.replaceState(null, "", `#${hash}`);
  };

  const recall = () => {
    if (!location.hash.includes("=")) return;
    const wanted = new URLSearchParams(location.hash.slice(1));
    for (const field of fields) field.value = wanted.get(field.name) ?? "";
    filter();
    document.getElementById("rollouts").scrollIntoView();
  };

  const value = (row, column) => {
    const cell = row.cells[column];
    return "value" in cell.dataset ? Number(cell.dataset.value) : cell.textContent.trim();
  };

  const sort = (column) => {
    const descending = heads[column].getAttribute("aria-sort") === "ascending";
    for (const head of heads) head.removeAttribute("aria-sort");
    heads[column].setAttribute("aria-sort", descending ? "descending" : "ascending");
    const sign = descending ? -1 : 1;
    const compare = (a, b) =>
      typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true });
    const keyed = rows.map((row) => [value(row, column), row]);
    keyed.sort((a, b) => sign * compare(a[0], b[0]));
    table.tBodies[0].append(...keyed.map((pair) => pair[1]));
  };

  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    button.addEventListener("click", () => sort(column));
    head.replaceChildren(button);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", () => { filter(); remember(); });
  form.addEventListener("reset", () => setTimeout(() => { filter(); remember(); }));
  window.addEventListener("hashchange", recall);
  form.hidden = false;
  recall();
})();
