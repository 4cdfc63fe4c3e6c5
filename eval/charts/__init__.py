"""Small charts as inline SVG: bars with intervals, and points. They need no script and no network;
`eval/report/templates/style.css` has their colours, by class."""
