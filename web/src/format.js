/** Numbers and shapes as people read them. What is not known is null, and null stays null: never a zero. */

const scaled = (value, step, units) => {
  let unit = 0;
  while (Math.abs(value) >= step && unit < units.length - 1) {
    value /= step;
    unit += 1;
  }
  const digits = unit === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return `${value.toFixed(digits)}${units[unit]}`;
};

const known = (write) => (value) => (value === null || value === undefined ? null : typeof value === "string" ? value : write(value));

export const bytes = known((value) => scaled(value, 1024, [" B", " KiB", " MiB", " GiB", " TiB"]));
export const count = known((value) => scaled(value, 1000, ["", " k", " M", " G", " T", " P"]));
export const whole = known((value) => value.toLocaleString("en"));
export const error = known((value) => (value === 0 ? "0" : value.toExponential(1)));
export const time = known((value) => (value === 0 ? "0" : value >= 1e6 ? `${(value / 1e6).toFixed(2)} s` : value >= 1000 ? `${(value / 1000).toFixed(2)} ms` : `${value.toFixed(value < 10 ? 1 : 0)} µs`));
export const shape = (dims) => (dims === null || dims === undefined ? "?" : dims.length === 0 ? "scalar" : dims.map((dim) => (dim === null ? "?" : dim)).join("×"));

/** `float32 1×3×224×224` */
export const typed = (value) => `${value.type ?? "?"} ${shape(value.shape)}`;

/** The start and the end of a long name. */
export const clipped = (text, most = 26) => (text.length <= most ? text : `${text.slice(0, most - 9)}…${text.slice(-8)}`);

export const plural = (number, word) => `${whole(number)} ${word}${number === 1 ? "" : "s"}`;
