#include "pipeline/report/report_style.h"

namespace dovetail::pipeline {

const std::string_view kReportStyle = R"css(
:root {
  color-scheme: light dark;
  --page: #f6f6f4; --card: #ffffff; --ink: #1d1f23; --soft: #5c626c; --line: #e2e2de; --grid: #ececea;
  --bar: #3b6fd4; --area: #3b6fd433; --limit-line: #9a5b13; --chip: #eef1f6; --bad: #b3261e; --muted: #b4b9c1;
  --taking: #1f9e89; --limit: #3b6fd4; --cool_down: #e0a100; --budget: #b8692e; --broken: #c8372d;
  --nothing_ready: #b4b9c1; --window: #8e5cc9; --max_parallel: #27418f;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #15171a; --card: #1c1f23; --ink: #e7e8ea; --soft: #a0a6b0; --line: #2f343b; --grid: #2a2e34;
    --bar: #6d9bf0; --area: #6d9bf03d; --limit-line: #e2a457; --chip: #272c34; --bad: #ff8a80; --muted: #636a75;
    --taking: #2fb8a0; --limit: #6d9bf0; --cool_down: #e8b93a; --budget: #d28a52; --broken: #ef6a5f;
    --nothing_ready: #636a75; --window: #b08ae6; --max_parallel: #a9c2ff;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
}
main { max-width: 1120px; margin: 0 auto; padding: 28px 20px 56px; }
h1 { font-size: 26px; line-height: 1.25; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 19px; margin: 40px 0 12px; }
h3 { font-size: 16px; margin: 0; overflow-wrap: anywhere; }
p { margin: 0 0 8px; }
code, .mono { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: .92em; }
.soft { color: var(--soft); }
nav { margin: 14px 0 0; display: flex; flex-wrap: wrap; gap: 4px 18px; }
a { color: var(--bar); text-decoration: none; }
a:hover, a:focus-visible { text-decoration: underline; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin: 20px 0 0; }
.tile, .card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
.tile { padding: 12px 14px; }
.tile dt { color: var(--soft); font-size: 13px; }
.tile dd { margin: 0; font-size: 23px; line-height: 1.3; font-weight: 600; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.tile dd.more { color: var(--soft); font-size: 13px; font-weight: 400; line-height: 1.4; }
.tile.key { border-left: 3px solid var(--bar); }
.card { padding: 16px 18px; margin: 0 0 14px; }
.card header { display: flex; flex-wrap: wrap; align-items: baseline; gap: 4px 10px; margin: 0 0 10px; }
.chip { background: var(--chip); border-radius: 6px; padding: 1px 8px; font-size: 13px; color: var(--soft); overflow-wrap: anywhere; }
.facts { display: flex; flex-wrap: wrap; gap: 2px 22px; margin: 0 0 12px; font-variant-numeric: tabular-nums; }
.facts div { display: flex; gap: 6px; }
.facts dt { color: var(--soft); }
.facts dd { margin: 0; }
.bad { color: var(--bad); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
.data th, .data td { padding: 6px 10px; text-align: left; vertical-align: top; border-top: 1px solid var(--line); }
.data thead th { border-top: 0; color: var(--soft); font-weight: 500; font-size: 13px; white-space: nowrap; }
.data tbody th { font-weight: 600; overflow-wrap: anywhere; }
.data .n { text-align: right; white-space: nowrap; }
.data td { overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
.columns { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(330px, 100%), 1fr)); gap: 14px; }
.columns .card { margin: 0; min-width: 0; }
.columns .full { grid-column: 1 / -1; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(235px, 1fr)); gap: 18px 24px; }
.chart { margin: 0; min-width: 0; }
figcaption { font-size: 14px; margin: 0 0 6px; }
figcaption b { font-weight: 600; }
figcaption span { display: block; color: var(--soft); font-variant-numeric: tabular-nums; }
.ylab, .xlab { color: var(--soft); font-size: 12px; line-height: 1.2; margin: 0; }
.ylab { margin: 0 0 9px; }
.xlab { text-align: right; margin: 3px 0 0; }
.plot { position: relative; padding-left: 46px; }
.plot svg { display: block; width: 100%; height: 120px; overflow: visible; }
.plot svg.ribbon { height: 8px; margin-top: 5px; }
.occupancy .plot svg:not(.ribbon) { height: 170px; }
.y { position: absolute; left: 0; top: 0; width: 40px; height: 120px; }
.occupancy .y { height: 170px; }
.y span { position: absolute; right: 0; transform: translateY(50%); font-size: 12px; line-height: 1; color: var(--soft); font-variant-numeric: tabular-nums; }
.x { position: relative; height: 17px; margin-top: 3px; }
.x span { position: absolute; top: 0; transform: translateX(-50%); font-size: 12px; line-height: 17px; color: var(--soft); white-space: nowrap; font-variant-numeric: tabular-nums; }
.x .l { transform: none; }
.x .r { transform: translateX(-100%); }
.grid, .base { fill: none; stroke: var(--grid); stroke-width: 1; vector-effect: non-scaling-stroke; }
.base { stroke: var(--muted); }
.bar { fill: var(--bar); }
.rest { fill: var(--muted); }
.bar:hover { opacity: .75; }
.area { fill: var(--area); stroke: var(--bar); stroke-width: 1.5; vector-effect: non-scaling-stroke; }
.limit { fill: none; stroke: var(--limit-line); stroke-width: 1.5; stroke-dasharray: 5 3; vector-effect: non-scaling-stroke; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 18px; font-size: 13px; color: var(--soft); margin: 6px 0 12px; }
.legend span { display: inline-flex; align-items: center; gap: 6px; }
.k-area { width: 16px; height: 10px; background: var(--area); border-top: 2px solid var(--bar); }
.k-limit { width: 16px; border-top: 2px dashed var(--limit-line); }
.bars table { table-layout: fixed; max-width: 560px; }
.bars th { width: 30%; font-weight: 400; text-align: left; padding: 2px 10px 2px 0; overflow-wrap: break-word; line-height: 1.3; }
.bars .track { padding: 2px 0; }
.bars .track i { display: block; height: 14px; min-width: 1px; background: var(--bar); border-radius: 0 3px 3px 0; }
.bars .muted i { background: var(--muted); }
.bars .n { text-align: right; padding: 2px 0 2px 8px; width: 4.4em; white-space: nowrap; }
.bars .share { color: var(--soft); width: 4em; }
.data + .chart { margin-top: 18px; }
.stack { display: flex; height: 20px; border-radius: 5px; overflow: hidden; margin: 4px 0 10px; }
.stack i { display: block; }
.swatch { display: inline-block; width: 11px; height: 11px; border-radius: 3px; margin-right: 8px; vertical-align: -1px; }
.c-taking { background: var(--taking); fill: var(--taking); }
.c-limit { background: var(--limit); fill: var(--limit); }
.c-cool_down { background: var(--cool_down); fill: var(--cool_down); }
.c-budget { background: var(--budget); fill: var(--budget); }
.c-broken { background: var(--broken); fill: var(--broken); }
.c-nothing_ready { background: var(--nothing_ready); fill: var(--nothing_ready); }
.c-window { background: var(--window); fill: var(--window); }
.c-max_parallel { background: var(--max_parallel); fill: var(--max_parallel); }
details { background: var(--card); border: 1px solid var(--line); border-radius: 10px; margin: 0 0 10px; }
summary { padding: 10px 18px; cursor: pointer; font-weight: 600; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
summary span { font-weight: 400; color: var(--soft); }
.row { display: grid; grid-template-columns: minmax(90px, 170px) minmax(0, 1fr); margin: 0; padding: 0 18px 12px; }
.row dt { color: var(--soft); padding: 6px 14px 6px 0; border-top: 1px solid var(--line); overflow-wrap: anywhere; }
.row dd { margin: 0; padding: 6px 0; border-top: 1px solid var(--line); overflow-wrap: anywhere; }
.value { white-space: pre-wrap; max-height: 26em; overflow-y: auto; }
.verdict { margin: 0 0 6px; }
.score { background: var(--chip); border-radius: 6px; padding: 1px 8px; font-weight: 600; }
footer { margin-top: 40px; color: var(--soft); font-size: 13px; overflow-wrap: anywhere; }
@media (max-width: 640px) {
  main { padding: 18px 12px 40px; }
  h1 { font-size: 22px; }
  .tiles { grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 8px; }
  .tile dd:not(.more) { font-size: 19px; }
  .card { padding: 12px; }
  .stacked thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  .stacked, .stacked tbody, .stacked tr, .stacked td, .stacked th { display: block; }
  .stacked tr { border-top: 1px solid var(--line); padding: 8px 0; }
  .stacked tr:first-child { border-top: 0; }
  .stacked th, .stacked td, .stacked .n { border: 0; padding: 1px 0; text-align: left; white-space: normal; }
  .stacked td:empty { display: none; }
  .stacked td::before { content: attr(data-label); color: var(--soft); display: inline-block; min-width: 9.5em; padding-right: 8px; }
  .row { grid-template-columns: minmax(0, 1fr); padding: 0 12px 10px; }
  .row dt { padding: 6px 0 0; }
  .row dd { border-top: 0; padding: 0 0 6px; }
  summary { padding: 10px 12px; }
}
@media print {
  body { background: none; }
  .card, details, .tile { break-inside: avoid; }
}
)css";

}  // namespace dovetail::pipeline
