// What every report has in common: style and script.
#pragma once

namespace tl::select {

inline constexpr const char *kHtmlHead = R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>Leaderboard</title>
<style>
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #59636e; --line: #d0d7de; --paper: #fff; --box: #f3f5f8;
  --c0: #0b62c4; --c1: #b3470c; --c2: #1a7f37; --c3: #8250df; --c4: #a8195d; --c5: #5b6b00; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --soft: #9aa5b1; --line: #3a434d; --paper: #0f141a; --box: #1b222b;
    --c0: #6cb2ff; --c1: #ff9d5c; --c2: #56d364; --c3: #c297ff; --c4: #ff85b8; --c5: #c8d84a; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 72rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
p.note, figcaption, caption { color: var(--soft); text-align: left; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; } caption { padding-bottom: .4rem; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid var(--line); text-align: left; white-space: nowrap; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
tr.best td { font-weight: 600; }
th button { font: inherit; font-weight: 600; color: inherit; background: none; border: 0; padding: 0; cursor: pointer; }
th[aria-sort=ascending] button::after { content: " \25B2"; } th[aria-sort=descending] button::after { content: " \25BC"; }
figure { margin: 1rem 0; } .pair { display: flex; flex-wrap: wrap; gap: 1rem; }
svg { max-width: 100%; height: auto; } svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }
svg .soft { fill: var(--soft); } svg .axis { stroke: var(--line); fill: none; } svg .edge { stroke: var(--soft); fill: none; }
svg .box { fill: var(--box); stroke: var(--line); } svg .kept { stroke: var(--c2); stroke-width: 2; }
svg .fused { stroke: var(--c3); stroke-width: 2; } svg .curve { fill: none; stroke-width: 2; }
.s0 { stroke: var(--c0); } .s1 { stroke: var(--c1); stroke-dasharray: 7 3; } .s2 { stroke: var(--c2); stroke-dasharray: 2 3; }
.s3 { stroke: var(--c3); stroke-dasharray: 9 3 2 3; } .s4 { stroke: var(--c4); stroke-dasharray: 4 4; }
.s5 { stroke: var(--c5); stroke-dasharray: 12 4; }
</style>
</head>
<body>
)";

/// Sorts a table when the button in a column's head is pressed: by the cells' data-v, as numbers where all
/// are.
inline constexpr const char *kHtmlTail = R"(<script>
for (const table of document.querySelectorAll("table.sortable"))
  table.querySelectorAll("th button").forEach((button, column) => button.addEventListener("click", () => {
    const head = button.parentElement, down = head.getAttribute("aria-sort") === "ascending";
    table.querySelectorAll("th").forEach(th => th.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const body = table.tBodies[0], rows = [...body.rows], value = row => row.cells[column].dataset.v;
    const compare = (a, b) => {
      if (a === "" || b === "") return (a === "") - (b === ""); // without a value: last, in either direction
      const order = isNaN(a) || isNaN(b) ? a.localeCompare(b) : a - b;
      return down ? -order : order;
    };
    rows.sort((a, b) => compare(value(a), value(b)));
    body.append(...rows);
  }));
</script>
</body>
</html>
)";

} // namespace tl::select
