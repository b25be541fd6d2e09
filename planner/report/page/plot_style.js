// How charts look: colours of the page, dashes, and what Chart.js does not draw by itself.

const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3], [12, 5], [1, 6]];  // as page.css's dash-0 ...
const CHART_FACE = 'system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';
const CHART_FONT = `12px ${CHART_FACE}`;
const LABEL_HEIGHT = 15;

const tip = document.getElementById('tip');

// Shows `text` beside a place of the window; hides the tip where there is no text.
function showTip(text, x, y) {
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text.replaceAll('; ', '\n');
  const box = tip.getBoundingClientRect();
  const left = x + 14 + box.width > innerWidth ? x - 14 - box.width : x + 14;
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${Math.max(4, Math.min(y + 12, innerHeight - box.height - 4))}px`;
}

function writeText(context, text, x, y, color, align = 'left', weight = '') {
  context.font = `${weight} ${CHART_FONT}`.trim();
  context.fillStyle = color;
  context.textAlign = align;
  context.textBaseline = 'middle';
  // A line may pass behind.
  context.lineWidth = 3;
  context.lineJoin = 'round';
  context.strokeStyle = cssColor('paper');
  context.strokeText(text, x, y);
  context.fillText(text, x, y);
}

// The room that the labels at the ends of a figure's lines take.
function endLabelWidth(figure) {
  const context = document.createElement('canvas').getContext('2d');
  context.font = `600 ${CHART_FONT}`;
  const widths = figure.series.map(series => context.measureText(series.end_label).width);
  return Math.max(0, ...widths) + 16;
}

// One label for each text, at the end furthest right of those shown and of these at the highest;
// moved down where two would overlap.
function endLabels(chart) {
  const byText = new Map();
  chart.data.datasets.forEach((dataset, index) => {
    if (!dataset.endLabel || !chart.isDatasetVisible(index)) return;
    const last = chart.getDatasetMeta(index).data.at(-1);
    if (!last) return;
    const known = byText.get(dataset.endLabel);
    if (!known || last.x > known.x || (last.x === known.x && last.y < known.y)) {
      byText.set(dataset.endLabel, {x: last.x, y: last.y, color: dataset.borderColor});
    }
  });
  let freeY = 0;
  for (const [text, at] of Array.from(byText).sort((a, b) => a[1].y - b[1].y)) {
    const y = Math.max(at.y, freeY);
    freeY = y + LABEL_HEIGHT;
    writeText(chart.ctx, text, at.x + 9, y, at.color, 'left', '600');
  }
}

function ringAround(chart, answer) {
  chart.data.datasets.forEach((dataset, index) => {
    if (!chart.isDatasetVisible(index)) return;
    dataset.data.forEach((datum, i) => {
      if (datum.point !== answer || answer < 0) return;
      const mark = chart.getDatasetMeta(index).data[i];
      chart.ctx.beginPath();
      chart.ctx.arc(mark.x, mark.y, 9, 0, 2 * Math.PI);
      chart.ctx.lineWidth = 1.6;
      chart.ctx.strokeStyle = cssColor('ink');
      chart.ctx.stroke();
    });
  });
}

function markLabels(chart) {
  chart.data.datasets.forEach((dataset, index) => {
    if (!chart.isDatasetVisible(index)) return;
    dataset.data.forEach((datum, i) => {
      if (!datum.label) return;
      const mark = chart.getDatasetMeta(index).data[i];
      writeText(chart.ctx, datum.label, mark.x, mark.y + 14, cssColor('soft'), 'center');
    });
  });
}

// What stands behind each bar, at the end of its last part.
function barEnds(chart, figure) {
  figure.bar_ends.forEach((text, bar) => {
    let x = chart.chartArea.left;
    let y = null;
    chart.data.datasets.forEach((dataset, index) => {
      const part = chart.getDatasetMeta(index).data[bar];
      if (!part || Number.isNaN(part.x)) return;
      x = Math.max(x, part.x);
      y = part.y;
    });
    if (y !== null) writeText(chart.ctx, text, x + 6, y, cssColor('soft'));
  });
}

function limitLine(chart, figure) {
  if (!figure.limit) return;
  const x = chart.scales.x.getPixelForValue(figure.limit);
  const {ctx, chartArea} = chart;
  ctx.save();
  ctx.setLineDash([5, 3]);
  ctx.lineWidth = 1.5;
  ctx.strokeStyle = cssColor('ink');
  ctx.beginPath();
  ctx.moveTo(x, chartArea.top - 4);
  ctx.lineTo(x, chartArea.bottom);
  ctx.stroke();
  ctx.restore();
  writeText(ctx, figure.limit_text, x, chartArea.top - 11, cssColor('soft'), 'center');
}

// A Chart.js plugin for one figure.
function annotations(figure) {
  return {
    id: 'annotations',
    afterDatasetsDraw(chart) {
      if (figure.kind === 'bars') {
        limitLine(chart, figure);
        barEnds(chart, figure);
      } else {
        markLabels(chart);
        ringAround(chart, figure.answer);
        endLabels(chart);
      }
    },
  };
}
