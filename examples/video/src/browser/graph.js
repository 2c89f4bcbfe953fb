/** What the graphs show, seconds, and how often they get a value, milliseconds. */
const SECONDS = 30, EVERY = 200;

class Graph {
  constructor(name, unit) {
    Object.assign(this, { name, unit, values: [] });
    this.canvas = document.createElement("canvas");
    [this.canvas.width, this.canvas.height] = [960, 90];
    document.getElementById("graphs").append(this.canvas);
  }
  add(value) {
    this.values.push(value);
    if (this.values.length > SECONDS * 1000 / EVERY) this.values.shift();
    const { canvas, values } = this, context = canvas.getContext("2d");
    const most = Math.max(1, ...values), width = canvas.width / (SECONDS * 1000 / EVERY);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.strokeStyle = "#5ad";
    context.beginPath();
    values.forEach((value, at) => context.lineTo(at * width, canvas.height - 2 - value / most * (canvas.height - 24)));
    context.stroke();
    context.fillStyle = "#ddd";
    context.font = "14px system-ui, sans-serif";
    context.fillText(`${this.name}: ${value.toFixed(1)} ${this.unit} (highest ${most.toFixed(1)})`, 8, 16);
  }
}
