"use strict";
(function () {
  // Texts of corpora and models reach the page through textContent only.
  function el(name, cls, text) {
    var e = document.createElement(name);
    if (cls) e.className = cls;
    if (text !== undefined) e.textContent = text;
    return e;
  }
  function byId(id) { return document.getElementById(id); }

  // The results table: filter rows, sort by a column. Values that are not defined stay last either way.
  var table = byId("table"), rowForm = byId("row-filters");
  function filterRows() {
    var selects = rowForm.querySelectorAll("select");
    table.tBodies[0].querySelectorAll("tr").forEach(function (tr) {
      tr.hidden = Array.prototype.some.call(selects, function (s) {
        return s.value !== "" && tr.getAttribute("data-" + s.getAttribute("data-of")) !== s.value;
      });
    });
  }
  rowForm.addEventListener("change", filterRows);
  filterRows();
  rowForm.addEventListener("submit", function (ev) { ev.preventDefault(); });
  table.tHead.addEventListener("click", function (ev) {
    var th = ev.target.closest("th");
    if (!th) return;
    var numeric = th.classList.contains("num");
    var was = th.getAttribute("aria-sort");
    var down = was ? was === "ascending" : numeric; // numbers: largest first at the first press
    table.tHead.querySelectorAll("th").forEach(function (o) { o.removeAttribute("aria-sort"); });
    th.setAttribute("aria-sort", down ? "descending" : "ascending");
    var column = th.cellIndex, body = table.tBodies[0];
    var rows = Array.prototype.slice.call(body.rows);
    rows.sort(function (a, b) {
      var x = a.cells[column].getAttribute("data-v"), y = b.cells[column].getAttribute("data-v");
      if (x === "" || y === "") return (x === "") - (y === "");
      var c = numeric ? x - y : x < y ? -1 : x > y ? 1 : 0;
      return down ? -c : c;
    });
    rows.forEach(function (r) { body.appendChild(r); });
  });

  // The episodes: filtered to a list of indices, shown a page at a time; a detail is built when it is opened.
  var list = byId("list");
  if (!list) return;
  var all = JSON.parse(byId("data").textContent);
  var pageSize = 50, page = 0, hits = [], texts = [];
  var fields = [["f-m", "m"], ["f-s", "s"], ["f-ok", "ok"], ["f-b", "b"], ["f-c", "c"], ["f-te", "te"]];
  fields.forEach(function (f) {
    if (f[1] === "ok") return;
    var seen = new Set();
    all.forEach(function (e) { seen.add(e[f[1]]); });
    Array.from(seen).sort().forEach(function (v) {
      var o = el("option", "", v === "" ? "(none)" : v);
      o.value = JSON.stringify(v); // "" would mean all
      byId(f[0]).appendChild(o);
    });
  });
  function textOf(i) {
    if (texts[i] === undefined) {
      var e = all[i], parts = [e.i, e.ta, e.q, e.a, e.m, e.c, e.te, e.e].concat(e.g || [], e.dx || [], e.tg || []);
      (e.n || []).forEach(function (t) { parts.push(t.t, t.x, t.o || ""); });
      texts[i] = parts.join("\n").toLowerCase();
    }
    return texts[i];
  }
  function apply() {
    var want = [];
    fields.forEach(function (f) {
      var v = byId(f[0]).value;
      if (v !== "") want.push([f[1], f[1] === "ok" ? +v : JSON.parse(v)]);
    });
    var words = byId("f-q").value.toLowerCase().split(/\s+/).filter(Boolean);
    hits = [];
    for (var i = 0; i < all.length; i++) {
      var e = all[i], ok = true;
      for (var j = 0; ok && j < want.length; j++) ok = e[want[j][0]] === want[j][1];
      for (j = 0; ok && j < words.length; j++) ok = textOf(i).indexOf(words[j]) >= 0;
      if (ok) hits.push(i);
    }
    page = 0;
    show();
  }
  function show() {
    var pages = Math.max(1, Math.ceil(hits.length / pageSize));
    list.textContent = "";
    list.start = page * pageSize + 1;
    hits.slice(page * pageSize, (page + 1) * pageSize).forEach(function (i) { list.appendChild(item(i)); });
    var solved = 0;
    hits.forEach(function (i) { solved += all[i].ok; });
    byId("count").textContent = hits.length + " of " + all.length + " episodes, " + solved + " solved";
    byId("page").textContent = "page " + (page + 1) + " of " + pages;
    byId("prev").disabled = page === 0;
    byId("next").disabled = page >= pages - 1;
  }
  function item(i) {
    var e = all[i], li = el("li"), b = el("button", "ep");
    b.type = "button";
    b.setAttribute("aria-expanded", "false");
    var top = el("span", "top");
    top.appendChild(el("span", "verdict " + (e.ok ? "solved" : "failed"), e.ok ? "solved" : "failed"));
    [e.m, e.s, e.b + " budget", e.c, "spent " + e.sp + " of optimal " + e.op].forEach(function (t) { top.appendChild(el("span", "", t)); });
    b.appendChild(top);
    b.appendChild(el("span", "q", e.q));
    b.appendChild(el("span", "dx", (e.dx || []).join("; ")));
    b.addEventListener("click", function () {
      var open = b.getAttribute("aria-expanded") === "true";
      b.setAttribute("aria-expanded", String(!open));
      if (open) li.removeChild(li.lastChild); else li.appendChild(detail(e));
    });
    li.appendChild(b);
    return li;
  }
  function detail(e) {
    var d = el("div", "detail"), dl = el("dl", "facts");
    [["gold", (e.g || []).join(", ")], ["answer", e.a === "" ? "-" : e.a], ["end", e.e],
      ["spend", e.sp + " (optimal " + e.op + ", budget " + e.bu + ", " + e.b + ")"], ["reward", e.r],
      ["template", e.te + ", difficulty " + e.di + ((e.tg || []).length ? ", " + e.tg.join(", ") : "")],
      ["episode", e.i], ["task", e.ta], ["seed, attempt", e.se + ", " + e.at + " (" + e.d + ")"]
    ].forEach(function (f) { dl.appendChild(el("dt", "", f[0])); dl.appendChild(el("dd", "", f[1])); });
    d.appendChild(dl);
    (e.n || []).forEach(function (t, k) {
      var s = el("div", t.w ? "turn bad" : "turn");
      s.appendChild(el("h4", "", "Turn " + (k + 1) + ": " + t.t));
      s.appendChild(el("pre", "", t.x));
      if (t.o) {
        var o = el("pre", "obs", t.o);
        o.tabIndex = 0;
        o.setAttribute("role", "region");
        o.setAttribute("aria-label", "Observation of turn " + (k + 1));
        s.appendChild(o);
      }
      d.appendChild(s);
    });
    return d;
  }
  function turn(by) {
    var pages = Math.max(1, Math.ceil(hits.length / pageSize)), to = Math.min(pages - 1, Math.max(0, page + by));
    if (to === page) return;
    page = to;
    show();
    byId("episodes").scrollIntoView();
    var first = list.querySelector(".ep");
    if (first) first.focus({ preventScroll: true });
  }
  var timer = 0, form = byId("filters");
  form.addEventListener("change", apply);
  form.addEventListener("submit", function (ev) { ev.preventDefault(); clearTimeout(timer); apply(); });
  form.addEventListener("reset", function () { setTimeout(apply, 0); });
  byId("f-q").addEventListener("input", function () { clearTimeout(timer); timer = setTimeout(apply, 150); });
  byId("prev").addEventListener("click", function () { turn(-1); });
  byId("next").addEventListener("click", function () { turn(1); });
  list.addEventListener("keydown", function (ev) {
    if (!ev.target.classList.contains("ep")) return;
    if (ev.key === "PageDown" || ev.key === "PageUp") { ev.preventDefault(); turn(ev.key === "PageDown" ? 1 : -1); return; }
    var step = { ArrowDown: 1, ArrowUp: -1 }[ev.key];
    if (!step) return;
    var eps = Array.prototype.slice.call(list.querySelectorAll(".ep")), to = eps[eps.indexOf(ev.target) + step];
    ev.preventDefault();
    if (to) to.focus();
  });
  document.addEventListener("keydown", function (ev) {
    if (ev.key !== "/" || ev.ctrlKey || ev.metaKey || ev.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(ev.target.tagName)) return;
    ev.preventDefault();
    byId("f-q").focus();
  });
  apply();
})();
