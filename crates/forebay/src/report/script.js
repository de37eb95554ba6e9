// Reads out the values under the pointer. The page is complete without it.
(() => {
  const source = document.getElementById("series");
  if (!source) return;
  const data = JSON.parse(source.textContent);
  const tip = document.createElement("div");
  const hair = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  hair.className = "hair";
  document.body.append(tip);

  const prefixes = ["", "k", "M", "G", "T", "P", "E"];
  const si = (value, unit) => {
    let at = 0;
    while (Math.abs(value) >= 999.5 && at < prefixes.length - 1) { value /= 1000; at += 1; }
    const shown = at === 0 && Number.isInteger(value) ? String(value) : value.toPrecision(3);
    return `${shown} ${prefixes[at]}${unit}`;
  };
  const rate = (kind, sensor, first, merged) => {
    const buckets = Math.min(data.step * merged, data.length - first * data.step);
    const counts = data[kind][sensor]?.slice(first, first + merged) ?? [];
    const perSecond = counts.reduce((sum, count) => sum + count, 0) / (buckets * data.seconds);
    return kind === "bits" ? perSecond * 8 : perSecond;
  };
  const show = (kind, value) => si(value, kind === "bits" ? "bit/s" : "pps");

  const time = (area, x, y) => {
    const merged = Number(area.dataset.merged ?? 1);
    const bucket = Math.floor((x * data.length) / data.step / merged) * merged;
    const kind = area.dataset.kind;
    const head = `${si(bucket * data.step * data.seconds, "s")} after the start`;
    let sensors = data.names.map((_, sensor) => sensor);
    if (area.dataset.sensor !== undefined) sensors = [Number(area.dataset.sensor)];
    if (area.dataset.rows !== undefined) sensors = [Math.floor(y * data.names.length)];
    const lines = [head];
    if (sensors.length > 1) {
      lines.push(`all  ${show(kind, sensors.reduce((sum, s) => sum + rate(kind, s, bucket, merged), 0))}`);
    }
    if (sensors.length <= 8) {
      for (const s of sensors) lines.push(`${data.names[s]}  ${show(kind, rate(kind, s, bucket, merged))}`);
    }
    return [lines.join("\n"), (bucket * data.step) / data.length];
  };
  const column = (area, x) => {
    const values = area.dataset.values.split(" ");
    const at = Math.floor(x * values.length);
    const name = data.names[at] ?? "";
    return [`${name}\n${Number(values[at]).toLocaleString("en")} ${area.dataset.what}`, null];
  };

  for (const area of document.querySelectorAll(".area[data-kind], .area[data-values]")) {
    area.addEventListener("pointermove", (event) => {
      const box = area.getBoundingClientRect();
      const x = Math.min(Math.max((event.clientX - box.left) / box.width, 0), 0.99999);
      const y = Math.min(Math.max((event.clientY - box.top) / box.height, 0), 0.99999);
      const [text, at] = (area.dataset.values === undefined ? time : column)(area, x, y);
      tip.textContent = text;
      tip.hidden = false;
      const left = event.clientX + 14;
      const beyond = left + tip.offsetWidth > innerWidth - 8;
      tip.style.left = `${Math.max(8, beyond ? event.clientX - tip.offsetWidth - 14 : left)}px`;
      tip.style.top = `${Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8)}px`;
      if (at === null) return;
      hair.style.left = `${at * 100}%`;
      area.append(hair);
    });
    area.addEventListener("pointerleave", () => { tip.hidden = true; hair.remove(); });
  }
})();
